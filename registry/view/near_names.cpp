// SPDX-License-Identifier: Apache-2.0
#include "registry/view/near_names.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "registry/base/did_you_mean.hpp"
#include "registry/base/host_name.hpp"
#include "registry/view/view.hpp"

namespace meshdns::registry {
namespace {

constexpr std::size_t kMostErrors = max_typing_errors(kMaxHostLength);
constexpr std::size_t kErrorOfMissingNamespace = 1;
constexpr std::size_t kErrorsOfOtherNamespace = 2;

constexpr std::string_view kClusterSetServices = "svc.clusterset.local";

// Names that are near, seen by the client or not: so many of the nearest are kept.
constexpr std::size_t kMaxNearCandidates = 256;

// The letters of the labels in which the names differ, those at their ends that both have left out.
std::size_t differing_letters(std::string_view a, std::string_view b) {
  if (a.size() < b.size()) std::swap(a, b);
  const auto [at_a, at_b] = std::mismatch(a.rbegin(), a.rend(), b.rbegin(), b.rend());
  auto common = static_cast<std::size_t>(at_a - a.rbegin());
  const auto ends_label = [&](std::string_view name) {
    return common == name.size() || name[name.size() - common - 1] == '.';
  };
  while (common > 0 && !(ends_label(a) && ends_label(b))) --common;
  const std::size_t rest = a.size() - common;
  return rest > 0 && common > 0 ? rest - 1 : rest;  // without the dot
}

void trim_equal_ends(std::string_view& a, std::string_view& b) {
  const auto front = std::ranges::mismatch(a, b).in1 - a.begin();
  a.remove_prefix(static_cast<std::size_t>(front));
  b.remove_prefix(static_cast<std::size_t>(front));
  while (!a.empty() && !b.empty() && a.back() == b.back()) {
    a.remove_suffix(1);
    b.remove_suffix(1);
  }
}

// A bit for each letter.  An error takes one letter away at most, and adds one.
std::uint64_t letters_of(std::string_view text) {
  std::uint64_t bits = 0;
  for (const char c : text) bits |= std::uint64_t{1} << (static_cast<unsigned char>(c) & 63U);
  return bits;
}

// Most pairs of names are told apart before the distance is computed, which takes a hundred times
// as long.
std::optional<std::size_t> typing_errors_between(std::string_view a, std::string_view b) {
  if (std::max(a.size(), b.size()) - std::min(a.size(), b.size()) > kMostErrors) return {};
  const std::size_t most = max_typing_errors(differing_letters(a, b));
  trim_equal_ends(a, b);
  if (static_cast<std::size_t>(std::popcount(letters_of(a) ^ letters_of(b))) > 2 * most) return {};
  const std::size_t errors = edit_distance(a, b);
  return errors > most ? std::nullopt : std::optional(errors);
}

// The smallest of several distances.
class Nearest {
 public:
  void take(std::optional<std::size_t> distance, std::size_t more = 0) {
    if (distance && (!least_ || *distance + more < *least_)) least_ = *distance + more;
  }
  std::optional<std::size_t> least() const { return least_; }

 private:
  std::optional<std::size_t> least_;
};

struct Candidate {
  std::size_t distance;
  std::string_view host;
  friend auto operator<=>(const Candidate&, const Candidate&) = default;
};

// The nearest of all that it is given.
class NearCandidates {
 public:
  void add(const Candidate& candidate) {
    if (nearest_.size() < kMaxNearCandidates) {
      nearest_.push_back(candidate);
      std::ranges::push_heap(nearest_);
      return;
    }
    has_all_ = false;
    if (!(candidate < nearest_.front())) return;
    std::ranges::pop_heap(nearest_);
    nearest_.back() = candidate;
    std::ranges::push_heap(nearest_);
  }
  bool has_all() const { return has_all_; }
  std::vector<Candidate> sorted() && {
    std::ranges::sort_heap(nearest_);
    return std::move(nearest_);
  }

 private:
  std::vector<Candidate> nearest_;  // a heap, the farthest in front
  bool has_all_ = true;
};

}  // namespace

MeantName::MeantName(std::string_view name, std::string_view cluster_domain,
                     std::span<const std::string> search)
    : service_zone_("svc." + std::string(cluster_domain)) {
  while (!name.empty() && spellings_.size() < kMaxSpellings) {
    spellings_.push_back(name);
    add_service(name);
    name = without_domain(name, search);
  }
}

// Without the longest domain that it ends in; empty: it ends in none.
std::string_view MeantName::without_domain(std::string_view name,
                                           std::span<const std::string> search) const {
  const std::string_view cluster_domain = std::string_view(service_zone_).substr(4);
  std::size_t longest = 0;
  const auto try_domain = [&](std::string_view domain) {
    if (domain.size() > longest && is_below(name, domain)) longest = domain.size();
  };
  try_domain(service_zone_);
  try_domain(cluster_domain);
  for (const std::string& domain : search) try_domain(domain);
  return longest == 0 ? std::string_view() : name.substr(0, name.size() - longest - 1);
}

void MeantName::add_service(std::string_view spelling) {
  const std::size_t svc = (std::string(spelling) + ".").find(".svc.");
  std::string_view front = spelling.substr(0, svc);
  if (svc != std::string_view::npos)
    while (count_labels(front) > 2) front = parent_of(front);
  const bool is_new = std::ranges::find(service_spellings_, front) == service_spellings_.end();
  if (is_new && count_labels(front) <= 2) service_spellings_.push_back(front);
}

std::string_view MeantName::service_of(std::string_view host) const {
  for (const std::string_view zone : {std::string_view(service_zone_), kClusterSetServices}) {
    if (!is_below(host, zone)) continue;
    const std::string_view front = host.substr(0, host.size() - zone.size() - 1);
    return count_labels(front) == 2 ? front : std::string_view();
  }
  return {};
}

std::optional<std::size_t> MeantName::typing_errors(std::string_view host) const {
  Nearest nearest;
  const bool is_wildcard = host.starts_with("*.");
  for (const std::string_view spelling : spellings_) {
    nearest.take(typing_errors_between(spelling, host));
    if (!is_wildcard) continue;
    nearest.take(typing_errors_between(spelling, host.substr(2)));
    nearest.take(typing_errors_between(parent_of(spelling), host.substr(2)));
  }
  return nearest.least();
}

std::optional<std::size_t> MeantName::distance(std::string_view host) const {
  Nearest nearest;
  nearest.take(typing_errors(host));
  const std::string_view service = service_of(host);
  if (service.empty()) return nearest.least();
  const std::string_view name = service.substr(0, service.find('.'));
  for (const std::string_view spelling : service_spellings_) {
    const std::string_view spelt_name = spelling.substr(0, spelling.find('.'));
    if (spelt_name.size() == spelling.size()) {
      nearest.take(typing_errors_between(spelling, name), kErrorOfMissingNamespace);
      continue;
    }
    nearest.take(typing_errors_between(spelling, service));
    if (spelt_name == name) nearest.take(kErrorsOfOtherNamespace);
  }
  return nearest.least();
}

// A name is looked up as queries are, so that none is named which the client does not see.
NearNames near_names(const Snapshot& snapshot, const Client& client, std::string_view name,
                     std::size_t most_compared) {
  NearNames near;
  near.known = snapshot.hosts.size() + snapshot.wildcards.size();
  near.compared = std::min(near.known, most_compared);
  const MeantName meant(name, snapshot.settings->cluster_domain, client.search);
  NearCandidates candidates;
  std::size_t left = near.compared;
  const auto take = [&](const HostEntry& entry) {
    if (left == 0) return;
    --left;
    if (const auto distance = meant.distance(entry.host()))
      candidates.add({*distance, entry.host()});
  };
  snapshot.wildcards.for_each(take);
  snapshot.hosts.for_each(take);
  const bool has_all = near.compared == near.known && candidates.has_all();
  View view(snapshot, client);
  view.limit_work(kMaxWorkOfQuery);
  for (const Candidate& candidate : std::move(candidates).sorted()) {
    if (near.names.size() == kMaxNearNames) break;
    const Match match = view.lookup(candidate.host);
    if (match && match.entry->host() == candidate.host)
      near.names.push_back({std::string(candidate.host), std::string(match.service->ns->text())});
  }
  const bool is_full = near.names.size() == kMaxNearNames;
  near.is_complete = !view.is_exhausted() && (has_all || (is_full && near.compared == near.known));
  return near;
}

}  // namespace meshdns::registry
