#include "resolver/watched_names.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace meshdns::resolver {
namespace {

using registry::ResolvedName;

// So many failures without a success between them are an outage of the upstream, not of a name;
// when it ends, nobody waits for his back-off.
constexpr std::uint32_t kOutage = 20;
constexpr std::chrono::milliseconds kRecoverySpread{1'000};

std::chrono::milliseconds until(TimePoint then, TimePoint now) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(then - now);
}

bool is_same_set(std::vector<IpAddress> a, std::vector<IpAddress> b) {
  if (a.size() != b.size()) return false;
  std::ranges::sort(a);
  std::ranges::sort(b);
  return a == b;
}

}  // namespace

std::string_view to_string(Family family) { return family == Family::V4 ? "A" : "AAAA"; }

struct WatchedNames::Half {
  Half(LookupId its_id, TimePoint now) : id(its_id), schedule(now) {}

  LookupId id;
  RefreshSchedule schedule;
  std::optional<Answer::Status> last;  // of the last lookup
  std::optional<Answer::Status> good;  // of the last lookup that did not fail
  std::vector<IpAddress> addresses;    // of the last good answer
  std::string last_error;
  std::uint64_t lookups = 0;
  std::uint64_t failures = 0;
  bool in_flight = false;
  std::optional<TimePoint> due_at;       // its place in due_
  std::optional<TimePoint> expiring_at;  // its place in expiring_

  bool is_usable(TimePoint now, const RefreshPolicy& policy) const {
    if (!good) return false;
    const auto end = schedule.unusable(policy);
    return !end || now < *end;
  }
};

struct WatchedNames::Entry {
  Entry(std::string_view host, std::uint64_t number, TimePoint now)
      : watch(number), halves{Half({number, Family::V4}, now), Half({number, Family::V6}, now)} {
    name.host = host;
  }

  std::uint64_t watch;
  ResolvedName name;           // as told last
  std::array<Half, 2> halves;  // A, AAAA
  bool order_counts = false;
  std::optional<TimePoint> grace_until;  // the first family's addresses wait for the other

  bool has_pending_half() const {
    return std::ranges::any_of(halves, [](const Half& half) { return !half.last; });
  }
};

WatchedNames::WatchedNames(ResolverPolicy policy, std::uint64_t seed)
    : policy_(policy), random_(seed) {}
WatchedNames::~WatchedNames() = default;

double WatchedNames::chance() { return std::uniform_real_distribution<double>(0, 1)(random_); }

bool WatchedNames::watch(std::string_view host, TimePoint now) {
  if (entries_.contains(host)) return false;
  auto entry = std::make_unique<Entry>(host, ++last_watch_, now);
  by_watch_.emplace(entry->watch, entry.get());
  for (Half& half : entry->halves) plan(*entry, half, now);
  entries_.emplace(std::string(host), std::move(entry));
  return true;
}

std::vector<LookupId> WatchedNames::unwatch(std::string_view host) {
  std::vector<LookupId> cancelled;
  const auto found = entries_.find(host);
  if (found == entries_.end()) return cancelled;
  Entry& entry = *found->second;
  for (Half& half : entry.halves) {
    unplan(half);
    if (half.in_flight) cancelled.push_back(half.id);
  }
  in_flight_ -= cancelled.size();
  if (entry.name.state == ResolvedName::State::Failed) --names_failed_;
  by_watch_.erase(entry.watch);
  entries_.erase(found);
  return cancelled;
}

void WatchedNames::watch_order(std::string_view host, bool order_counts) {
  const auto found = entries_.find(host);
  if (found != entries_.end()) found->second->order_counts = order_counts;
}

WatchedNames::Half* WatchedNames::find_half(LookupId id) {
  const auto found = by_watch_.find(id.watch);
  if (found == by_watch_.end()) return nullptr;
  return &found->second->halves[id.family == Family::V4 ? 0 : 1];
}

std::vector<DueLookup> WatchedNames::take_due(TimePoint now) {
  std::vector<DueLookup> taken;
  while (in_flight_ < policy_.max_in_flight && !due_.empty() && due_.begin()->first <= now) {
    const LookupId id = due_.begin()->second;
    due_.erase(due_.begin());
    Half& half = *find_half(id);
    half.due_at.reset();
    half.in_flight = true;
    ++half.lookups;
    ++lookups_;
    ++in_flight_;
    taken.push_back({id, by_watch_.at(id.watch)->name.host});
  }
  return taken;
}

std::optional<ResolvedName> WatchedNames::finish(LookupId id, Answer&& answer, TimePoint now) {
  Half* half = find_half(id);
  if (half == nullptr || !half->in_flight) return std::nullopt;
  Entry& entry = *by_watch_.at(id.watch);
  half->in_flight = false;
  --in_flight_;
  const bool failed = answer.status == Answer::Status::Failed;
  record(*half, std::move(answer), now);
  if (!half->addresses.empty() && entry.has_pending_half() && !entry.grace_until)
    entry.grace_until = now + policy_.other_family_grace;
  plan(entry, *half, now);
  if (failed) {
    ++failures_in_a_row_;
  } else if (std::exchange(failures_in_a_row_, 0) >= kOutage) {
    hasten_failed(now, kRecoverySpread);
  }
  if (!publish(entry, now)) return std::nullopt;
  return entry.name;
}

void WatchedNames::record(Half& half, Answer&& answer, TimePoint now) {
  half.last = answer.status;
  if (answer.status == Answer::Status::Failed) {
    half.schedule.on_failure(now, policy_.refresh, chance());
    half.last_error = std::move(answer.error);
    ++half.failures;
    ++failures_;
    return;
  }
  half.good = answer.status;
  half.last_error.clear();
  half.addresses = std::move(answer.addresses);
  if (answer.status == Answer::Status::Addresses) {
    half.schedule.on_answer(now, answer.ttl, policy_.refresh, chance());
    return;
  }
  half.addresses.clear();
  half.schedule.on_negative(now, answer.has_ttl ? std::optional(answer.ttl) : std::nullopt,
                            policy_.refresh, chance());
}

// Enters the half where its next lookup and its next change by time belong.
void WatchedNames::plan(const Entry& entry, Half& half, TimePoint now) {
  unplan(half);
  if (!half.in_flight) {
    half.due_at = half.schedule.next();
    due_.emplace(*half.due_at, half.id);
  }
  half.expiring_at = half.good ? half.schedule.unusable(policy_.refresh) : std::nullopt;
  if (entry.grace_until && entry.has_pending_half() && *entry.grace_until > now)
    half.expiring_at = std::min(half.expiring_at.value_or(TimePoint::max()), *entry.grace_until);
  if (half.expiring_at && *half.expiring_at <= now) half.expiring_at.reset();
  if (half.expiring_at) expiring_.emplace(*half.expiring_at, half.id);
}

void WatchedNames::unplan(Half& half) {
  if (half.due_at) due_.erase({*half.due_at, half.id});
  if (half.expiring_at) expiring_.erase({*half.expiring_at, half.id});
  half.due_at.reset();
  half.expiring_at.reset();
}

std::vector<ResolvedName> WatchedNames::expire(TimePoint now) {
  std::vector<ResolvedName> changed;
  while (!expiring_.empty() && expiring_.begin()->first <= now) {
    const LookupId id = expiring_.begin()->second;
    Entry& entry = *by_watch_.at(id.watch);
    plan(entry, *find_half(id), now);
    if (publish(entry, now)) changed.push_back(entry.name);
  }
  return changed;
}

void WatchedNames::hasten_failed(TimePoint now, std::chrono::milliseconds spread) {
  for (auto& [host, entry] : entries_) {
    for (Half& half : entry->halves) {
      const auto wait = std::chrono::duration<double>(spread) * chance();
      const bool moved = half.schedule.hasten(now + std::chrono::duration_cast<Duration>(wait));
      if (moved && !half.in_flight) plan(*entry, half, now);
    }
  }
}

// What the two families' latest verdicts amount to.
ResolvedName WatchedNames::evaluate(const Entry& entry, TimePoint now) const {
  ResolvedName name{entry.name.host, ResolvedName::State::Pending, {}};
  bool has_failed = false;
  for (const Half& half : entry.halves) {
    if (half.is_usable(now, policy_.refresh))
      name.addresses.insert(name.addresses.end(), half.addresses.begin(), half.addresses.end());
    else
      has_failed = has_failed || half.last.has_value();
  }
  const bool pending = entry.has_pending_half();
  if (!name.addresses.empty()) {
    const bool waits = pending && entry.grace_until && now < *entry.grace_until;
    if (!waits) name.state = ResolvedName::State::Resolved;
    if (waits) name.addresses.clear();
  } else if (!pending) {
    name.state = has_failed ? ResolvedName::State::Failed : ResolvedName::State::NoAddresses;
  }
  return name;
}

// Whether there is something to tell.
bool WatchedNames::publish(Entry& entry, TimePoint now) {
  ResolvedName name = evaluate(entry, now);
  const bool same_state = name.state == entry.name.state;
  const bool same_set = is_same_set(name.addresses, entry.name.addresses);
  const bool same_order = name.addresses == entry.name.addresses;
  if (name.state == ResolvedName::State::Failed && !same_state) ++names_failed_;
  if (entry.name.state == ResolvedName::State::Failed && !same_state) --names_failed_;
  entry.name = std::move(name);
  if (same_state && same_set && (same_order || !entry.order_counts)) return false;
  ++changes_;
  return true;
}

std::optional<TimePoint> WatchedNames::next_wakeup() const {
  std::optional<TimePoint> next;
  if (!expiring_.empty()) next = expiring_.begin()->first;
  if (in_flight_ < policy_.max_in_flight && !due_.empty())
    next = std::min(next.value_or(TimePoint::max()), due_.begin()->first);
  return next;
}

const ResolvedName* WatchedNames::find(std::string_view host) const {
  const auto found = entries_.find(host);
  return found == entries_.end() ? nullptr : &found->second->name;
}

FamilyStatus WatchedNames::status_of(const Half& half, TimePoint now) const {
  FamilyStatus status;
  status.family = half.id.family;
  status.last = half.last;
  if (half.is_usable(now, policy_.refresh)) status.addresses = half.addresses;
  status.in_flight = half.in_flight;
  if (const auto expires = half.schedule.expires()) {
    status.stale = !status.addresses.empty() && now >= *expires;
    status.expires_in = until(*expires, now);
  }
  if (!half.in_flight && half.schedule.next() > now)
    status.next_refresh_in = until(half.schedule.next(), now);
  status.last_error = half.last_error;
  status.lookups = half.lookups;
  status.failures = half.failures;
  return status;
}

std::vector<NameStatus> WatchedNames::status(TimePoint now) const {
  std::vector<NameStatus> names;
  names.reserve(entries_.size());
  for (const auto& [host, entry] : entries_) {
    NameStatus& status = names.emplace_back(entry->name, std::vector<FamilyStatus>{});
    for (const Half& half : entry->halves) status.families.push_back(status_of(half, now));
  }
  std::ranges::sort(names, {},
                    [](const NameStatus& status) -> std::string_view { return status.name.host; });
  return names;
}

ResolverCounters WatchedNames::counters() const {
  return {.lookups = lookups_,
          .failures = failures_,
          .changes = changes_,
          .names = entries_.size(),
          .in_flight = in_flight_,
          .names_failed = names_failed_};
}

}  // namespace meshdns::resolver
