// SPDX-License-Identifier: Apache-2.0
#include "dnsd/query/top_queries.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>

#include "registry/base/hash.hpp"

namespace meshdns::dnsd {

void FailingNames::note(std::string_view name, wire::Rcode rcode) {
  const auto number = static_cast<std::uint32_t>(rcode);
  const std::scoped_lock lock(mutex_);
  names_.note({.key = hash_bytes(name) + number, .text = name, .peak = number});
}

std::vector<FailingNames::Entry> FailingNames::list() const {
  const std::scoped_lock lock(mutex_);
  std::vector<Entry> entries;
  const auto places = names_.places();
  for (std::size_t i = 0; i < places.size(); ++i)
    if (const std::uint64_t count = names_.amount(i); count > 0)
      entries.push_back({{places[i].text.data(), places[i].size},
                         static_cast<wire::Rcode>(places[i].peak),
                         count});
  return entries;
}

void FailingNames::fade() {
  const std::scoped_lock lock(mutex_);
  names_.halve();
}

namespace {

// The longest end of `name` that begins with a label and has at most `size` octets.
std::string_view end_of_name(std::string_view name, std::size_t size) {
  if (name.size() <= size) return name;
  const std::size_t dot = name.find('.', name.size() - size - 1);
  return name.substr(dot == std::string_view::npos ? name.size() - size : dot + 1);
}

std::string_view octets_of(const IpAddress& address) {
  return {reinterpret_cast<const char*>(address.octets().data()), address.octets().size()};
}

// Adds up tables: of several workers, and of several halves.
class TableSum {
 public:
  template <typename Table>
  void add(const Table& table) {
    const std::uint64_t least = table.least();
    missing_ += least;
    const auto places = table.places();
    for (std::size_t i = 0; i < places.size(); ++i) {
      const auto& place = places[i];
      Sum& sum = sums_[place.key];
      sum.entry.key = place.key;
      if (sum.entry.text.empty()) sum.entry.text.assign(place.text.data(), place.size);
      sum.entry.is_cut |= place.is_cut;
      sum.entry.amount += table.amount(i) - place.error;
      sum.entry.error += place.error;
      sum.entry.part += place.part;
      sum.entry.peak = std::max(sum.entry.peak, place.peak);
      sum.known += least;
    }
  }
  // A table without the key may have seen it as often as its rarest key.
  TopList list(std::size_t limit) const {
    TopList list;
    for (const auto& [key, sum] : sums_) {
      list.push_back(sum.entry);
      list.back().error += missing_ - sum.known;
    }
    std::ranges::sort(list, std::ranges::greater{},
                      [](const TopEntry& e) { return std::pair(e.amount, e.key); });
    if (list.size() > limit) list.resize(limit);
    return list;
  }

 private:
  struct Sum {
    TopEntry entry;
    std::uint64_t known = 0;  // least() of the tables that have the key
  };
  std::uint64_t missing_ = 0;  // least() of all tables
  std::unordered_map<std::uint64_t, Sum> sums_;
};

}  // namespace

TopQueries::TopQueries(std::uint64_t now, std::uint64_t seed)
    : began_(now), queries_(seed), waits_(seed + 1), refusals_(seed + 2) {}

TopQueries::Half& TopQueries::half_at(std::uint64_t now) {
  const std::uint64_t number = now / kHalf;
  Half& half = halves_[number % halves_.size()];
  if (half.number < number) {
    half.number = number;
    half.names.clear();
    half.clients.clear();
    half.namespaces.clear();
    half.forwarded.clear();
    half.refused.clear();
  }
  return half;
}

void TopQueries::note_client(Half& half, const IpAddress& client, std::uint32_t weight) {
  const std::string_view octets = octets_of(client);
  half.clients.note({.key = hash_bytes(octets), .text = octets, .amount = weight});
}

void TopQueries::note_query(std::string_view name, const IpAddress& client, std::string_view ns,
                            std::uint64_t now) {
  note_sampled_query(name, client, ns, queries_.take(now), now);
}

void TopQueries::note_sampled_query(std::string_view name, const IpAddress& client,
                                    std::string_view ns, std::uint32_t weight, std::uint64_t now) {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return;
  Half& half = half_at(now);
  const std::string_view shown = end_of_name(name, kNameSize);
  half.names.note({.key = hash_bytes(name),
                   .text = shown,
                   .amount = weight,
                   .is_cut = shown.size() < name.size()});
  note_client(half, client, weight);
  if (!ns.empty()) half.namespaces.note({.key = hash_bytes(ns), .text = ns, .amount = weight});
}

void TopQueries::note_nameless_query(const IpAddress& client, std::uint64_t now) {
  const std::uint32_t weight = queries_.take(now);
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock) note_client(half_at(now), client, weight);
}

void TopQueries::note_forwarded(std::string_view name, std::uint64_t waited, std::uint64_t now) {
  waits_.observe(now);
  if (!waits_.is_due()) return;
  const std::uint64_t weight = waits_.take(now);
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return;
  const std::uint64_t microseconds = waited / 1000;
  constexpr std::uint64_t kMax = std::numeric_limits<std::uint32_t>::max();
  const std::string_view shown = end_of_name(name, kNameSize);
  half_at(now).forwarded.note({.key = hash_bytes(name),
                               .text = shown,
                               .amount = weight * microseconds,
                               .part = weight,
                               .peak = static_cast<std::uint32_t>(std::min(microseconds, kMax)),
                               .is_cut = shown.size() < name.size()});
}

void TopQueries::note_refused(const IpAddress& client, Refusal refusal, std::uint64_t now) {
  refusals_.observe(now);
  if (!refusals_.is_due()) return;
  const std::uint32_t weight = refusals_.take(now);
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return;
  const std::string_view octets = octets_of(client);
  half_at(now).refused.note({.key = hash_bytes(octets),
                             .text = octets,
                             .amount = weight,
                             .part = refusal == Refusal::Limited ? weight : 0});
}

TopReport TopQueries::report(std::span<TopQueries* const> workers, std::size_t limit,
                             std::uint64_t now) {
  TopReport report;
  TableSum names;
  TableSum clients;
  TableSum namespaces;
  TableSum forwarded;
  TableSum refused;
  const std::uint64_t number = now / kHalf;
  std::uint64_t began = now;
  const auto copy = std::make_unique<Halves>();
  for (TopQueries* const worker : workers) {
    began = std::min(began, worker->began_);
    {
      const std::scoped_lock lock(worker->mutex_);
      *copy = worker->halves_;
    }
    for (const Half& half : *copy) {
      if (half.number + 1 < number) continue;
      report.queries += half.clients.total();
      report.refused += half.refused.total();
      names.add(half.names);
      clients.add(half.clients);
      namespaces.add(half.namespaces);
      forwarded.add(half.forwarded);
      refused.add(half.refused);
    }
  }
  const std::uint64_t first = number == 0 ? 0 : (number - 1) * kHalf;
  report.seconds = static_cast<double>(now - std::max(began, first)) / 1e9;
  report.names = names.list(limit);
  report.clients = clients.list(limit);
  report.namespaces = namespaces.list(limit);
  report.forwarded = forwarded.list(limit);
  report.refused_clients = refused.list(limit);
  return report;
}

}  // namespace meshdns::dnsd
