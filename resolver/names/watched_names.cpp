// SPDX-License-Identifier: Apache-2.0
#include "resolver/names/watched_names.hpp"

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
// The next outage that ends hastens nobody before that: an upstream that fails and answers in turns
// must not have all failed names asked for again and again.
constexpr std::chrono::seconds kRecoveryPause{5};
constexpr std::string_view kNoAddress = "the name has no address";

std::chrono::milliseconds until(TimePoint then, TimePoint now) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(then - now);
}

bool is_unresolved(ResolvedName::State state) {
  return state == ResolvedName::State::Failed || state == ResolvedName::State::NoAddresses;
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
  std::vector<std::string> via;        // the same
  std::string last_error;
  std::optional<TimePoint> bad_since;  // no lookup since has brought an address
  std::uint64_t lookups = 0;
  std::uint64_t failures = 0;
  bool in_flight = false;
  bool is_outdated = false;              // asks again once the lookup in flight ends
  TimePoint not_before{};                // of the next lookup, whatever the schedule says
  std::optional<TimePoint> due_at;       // its place in due_
  std::optional<TimePoint> expiring_at;  // its place in expiring_

  bool is_usable(TimePoint now, const RefreshPolicy& policy) const {
    if (!good) return false;
    const auto end = schedule.unusable(policy);
    return !end || now < *end;
  }
};

struct WatchedNames::Entry {
  Entry(Tenant& its_tenant, std::string_view host, std::uint64_t number, TimePoint now)
      : tenant(its_tenant),
        watch(number),
        halves{Half({number, Family::V4}, now), Half({number, Family::V6}, now)} {
    name.host = host;
  }

  Tenant& tenant;  // that uses it
  std::uint64_t watch;
  ResolvedName name;           // as told last
  std::array<Half, 2> halves;  // A, AAAA
  bool order_counts = false;
  std::optional<TimePoint> grace_until;  // the first family's addresses wait for the other

  bool has_pending_half() const {
    return std::ranges::any_of(halves, [](const Half& half) { return !half.last; });
  }
};

struct WatchedNames::Tenant {
  Tenant(std::string name, const ResolverPolicy& policy)
      : ns(std::move(name)),
        budget(policy.namespace_lookups_per_second, policy.namespace_lookups_burst) {}

  std::string ns;
  LookupBudget budget;
  TextMap<std::unique_ptr<Entry>> entries;     // the names that are looked up for it
  std::set<std::string, std::less<>> refused;  // names beyond max_names_per_namespace
  std::size_t in_flight = 0;
  std::set<Deadline> due;  // lookups to start; none of those in flight
  std::uint64_t last_turn = 0;
  bool is_ready = false;                 // is in ready_
  std::optional<TimePoint> waits_until;  // its place in waiting_
};

WatchedNames::WatchedNames(ResolverPolicy policy, std::uint64_t seed)
    : policy_(policy), random_(seed), budget_(policy.lookups_per_second, policy.lookups_burst) {}
WatchedNames::~WatchedNames() = default;

double WatchedNames::chance() { return std::uniform_real_distribution<double>(0, 1)(random_); }

// A namespace without names stays until its budget is whole again: it would begin with a new one
// otherwise, each time that it gives up its names and takes others.
WatchedNames::Tenant& WatchedNames::tenant_of(std::string_view ns, TimePoint now) {
  if (const auto found = tenants_.find(ns); found != tenants_.end()) return *found->second;
  if (tenants_.size() >= sweep_tenants_at_) {
    std::erase_if(tenants_, [&](const auto& item) {
      const Tenant& tenant = *item.second;
      return tenant.entries.empty() && tenant.refused.empty() && tenant.budget.is_whole(now);
    });
    sweep_tenants_at_ = 2 * tenants_.size() + 64;
  }
  return *tenants_.emplace(ns, std::make_unique<Tenant>(std::string(ns), policy_)).first->second;
}

bool WatchedNames::watch(std::string_view host, std::string_view ns, TimePoint now) {
  Tenant& tenant = tenant_of(ns, now);
  if (tenant.entries.contains(host)) return true;
  if (tenant.entries.size() >= policy_.max_names_per_namespace) {
    if (tenant.refused.emplace(host).second) ++names_refused_;
    return false;
  }
  auto created = std::make_unique<Entry>(tenant, host, ++last_watch_, now);
  Entry& entry = *created;
  by_watch_.emplace(entry.watch, &entry);
  tenant.entries.emplace(std::string(host), std::move(created));
  for (Half& half : entry.halves) plan(entry, half, now);
  return true;
}

WatchedNames::Unwatched WatchedNames::unwatch(std::string_view host, std::string_view ns,
                                              TimePoint now) {
  Unwatched result;
  const auto known = tenants_.find(ns);
  if (known == tenants_.end()) return result;
  Tenant& tenant = *known->second;
  if (const auto refused = tenant.refused.find(host); refused != tenant.refused.end()) {
    tenant.refused.erase(refused);
    --names_refused_;
  } else if (const auto found = tenant.entries.find(host); found != tenant.entries.end()) {
    forget(*found->second, result.cancelled);
    tenant.entries.erase(found);
  }
  if (!tenant.refused.empty() && tenant.entries.size() < policy_.max_names_per_namespace) {
    result.begun = std::move(tenant.refused.extract(tenant.refused.begin()).value());
    --names_refused_;
    watch(*result.begun, ns, now);
  }
  queue(tenant, now);
  return result;
}

// Takes the entry out of everything but its tenant's entries.
void WatchedNames::forget(Entry& entry, std::vector<LookupId>& cancelled) {
  for (Half& half : entry.halves) {
    unplan(entry, half);
    failing_.erase(half.id);
    if (!half.in_flight) continue;
    cancelled.push_back(half.id);
    --in_flight_;
    --entry.tenant.in_flight;
  }
  unresolved_.erase(entry.watch);
  by_watch_.erase(entry.watch);
}

// Puts the tenant where its next lookup belongs.
void WatchedNames::queue(Tenant& tenant, TimePoint now) {
  unqueue(tenant);
  if (tenant.due.empty() || tenant.in_flight >= policy_.max_in_flight_per_namespace) return;
  const TimePoint when = std::max(tenant.due.begin()->first, tenant.budget.ready_at());
  tenant.is_ready = when <= now;
  if (tenant.is_ready)
    ready_.emplace(tenant.last_turn, &tenant);
  else
    waiting_.emplace(*(tenant.waits_until = when), &tenant);
}

void WatchedNames::unqueue(Tenant& tenant) {
  if (tenant.is_ready) ready_.erase({tenant.last_turn, &tenant});
  if (tenant.waits_until) waiting_.erase({*tenant.waits_until, &tenant});
  tenant.is_ready = false;
  tenant.waits_until.reset();
}

// Grows with the names that the tenant has, so that its lookups stay within its budget.
Duration WatchedNames::shortest_refresh(const Tenant& tenant) const {
  return std::chrono::duration_cast<Duration>(std::chrono::seconds(2 * tenant.entries.size())) /
         policy_.namespace_lookups_per_second;
}

void WatchedNames::watch_order(std::string_view host, std::string_view ns, bool order_counts) {
  if (Entry* const entry = find_entry(host, ns)) entry->order_counts = order_counts;
}

WatchedNames::Entry* WatchedNames::find_entry(std::string_view host, std::string_view ns) const {
  const auto tenant = tenants_.find(ns);
  if (tenant == tenants_.end()) return nullptr;
  const auto found = tenant->second->entries.find(host);
  return found == tenant->second->entries.end() ? nullptr : found->second.get();
}

WatchedNames::Half* WatchedNames::find_half(LookupId id) {
  const auto found = by_watch_.find(id.watch);
  if (found == by_watch_.end()) return nullptr;
  return &found->second->halves[id.family == Family::V4 ? 0 : 1];
}

std::vector<DueLookup> WatchedNames::take_due(TimePoint now) {
  while (!waiting_.empty() && waiting_.begin()->first <= now) queue(*waiting_.begin()->second, now);
  std::vector<DueLookup> taken;
  while (in_flight_ < policy_.max_in_flight && !ready_.empty() && budget_.ready_at() <= now) {
    Tenant& tenant = *ready_.begin()->second;
    unqueue(tenant);
    const LookupId id = tenant.due.begin()->second;
    tenant.due.erase(tenant.due.begin());
    Half& half = *find_half(id);
    half.due_at.reset();
    half.in_flight = true;
    ++half.lookups;
    ++lookups_;
    ++in_flight_;
    ++tenant.in_flight;
    budget_.take(now);
    tenant.budget.take(now);
    tenant.last_turn = ++turns_;
    queue(tenant, now);
    taken.push_back({id, tenant.ns, by_watch_.at(id.watch)->name.host});
  }
  return taken;
}

std::optional<ChangedName> WatchedNames::finish(LookupId id, Answer&& answer, TimePoint now) {
  Half* half = find_half(id);
  if (half == nullptr || !half->in_flight) return std::nullopt;
  Entry& entry = *by_watch_.at(id.watch);
  half->in_flight = false;
  --in_flight_;
  --entry.tenant.in_flight;
  half->not_before = now + shortest_refresh(entry.tenant);
  const bool failed = answer.status == Answer::Status::Failed;
  record(*half, std::move(answer), now);
  if (std::exchange(half->is_outdated, false)) half->schedule.advance(now);
  if (!half->addresses.empty() && entry.has_pending_half() && !entry.grace_until)
    entry.grace_until = now + policy_.other_family_grace;
  plan(entry, *half, now);
  if (failed) {
    failing_.insert(id);
    ++failures_in_a_row_;
  } else {
    failing_.erase(id);
    const bool was_outage = std::exchange(failures_in_a_row_, 0) >= kOutage;
    if (was_outage && now >= hasten_again_at_) {
      hasten_again_at_ = now + kRecoveryPause;
      hasten_failed(now, kRecoverySpread);
    }
  }
  if (!publish(entry, now)) return std::nullopt;
  return ChangedName{entry.tenant.ns, entry.name};
}

void WatchedNames::record(Half& half, Answer&& answer, TimePoint now) {
  half.last = answer.status;
  if (answer.status == Answer::Status::Addresses)
    half.bad_since.reset();
  else if (!half.bad_since)
    half.bad_since = now;
  if (answer.status == Answer::Status::Failed) {
    half.schedule.on_failure(now, policy_.refresh, chance());
    half.last_error = std::move(answer.error);
    ++half.failures;
    ++failures_;
    return;
  }
  half.good = answer.status;
  half.last_error =
      answer.status == Answer::Status::NoName ? "the name does not exist (NXDOMAIN)" : "";
  half.addresses = std::move(answer.addresses);
  half.via = std::move(answer.via);
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
  unplan(entry, half);
  if (!half.in_flight) {
    half.due_at = std::max(half.schedule.next(), half.not_before);
    entry.tenant.due.emplace(*half.due_at, half.id);
  }
  queue(entry.tenant, now);
  half.expiring_at = half.good ? half.schedule.unusable(policy_.refresh) : std::nullopt;
  if (entry.grace_until && entry.has_pending_half() && *entry.grace_until > now)
    half.expiring_at = std::min(half.expiring_at.value_or(TimePoint::max()), *entry.grace_until);
  if (half.expiring_at && *half.expiring_at <= now) half.expiring_at.reset();
  if (half.expiring_at) expiring_.emplace(*half.expiring_at, half.id);
}

void WatchedNames::unplan(const Entry& entry, Half& half) {
  if (half.due_at) entry.tenant.due.erase({*half.due_at, half.id});
  if (half.expiring_at) expiring_.erase({*half.expiring_at, half.id});
  half.due_at.reset();
  half.expiring_at.reset();
}

std::vector<ChangedName> WatchedNames::expire(TimePoint now) {
  std::vector<ChangedName> changed;
  while (!expiring_.empty() && expiring_.begin()->first <= now) {
    const LookupId id = expiring_.begin()->second;
    Entry& entry = *by_watch_.at(id.watch);
    plan(entry, *find_half(id), now);
    if (publish(entry, now)) changed.push_back({entry.tenant.ns, entry.name});
  }
  return changed;
}

void WatchedNames::hasten_failed(TimePoint now, std::chrono::milliseconds spread) {
  for (const LookupId id : failing_) {
    Half& half = *find_half(id);
    const auto wait = std::chrono::duration<double>(spread) * chance();
    const bool moved = half.schedule.hasten(now + std::chrono::duration_cast<Duration>(wait));
    if (moved && !half.in_flight) plan(*by_watch_.at(id.watch), half, now);
  }
}

void WatchedNames::hasten_all(TimePoint now, std::chrono::milliseconds spread) {
  for (const auto& [watch, entry] : by_watch_) {
    const auto wait = std::chrono::duration<double>(spread) * chance();
    refresh(*entry, now + std::chrono::duration_cast<Duration>(wait), now);
  }
}

void WatchedNames::refresh(std::string_view host, std::string_view ns, TimePoint now) {
  if (Entry* const entry = find_entry(host, ns)) refresh(*entry, now, now);
}

void WatchedNames::refresh(Entry& entry, TimePoint when, TimePoint now) {
  for (Half& half : entry.halves) {
    half.is_outdated = half.in_flight;
    if (half.in_flight) continue;
    half.schedule.advance(when);
    plan(entry, half, now);
  }
}

// Combines the latest verdicts of the two families.
ResolvedName WatchedNames::evaluate(const Entry& entry, TimePoint now) const {
  ResolvedName name{entry.name.host, ResolvedName::State::Pending, {}};
  bool has_failed = false;
  for (const Half& half : entry.halves) {
    if (half.is_usable(now, policy_.refresh)) {
      name.addresses.insert(name.addresses.end(), half.addresses.begin(), half.addresses.end());
      if (name.via.empty()) name.via = half.via;
    } else {
      has_failed = has_failed || half.last.has_value();
    }
  }
  const bool pending = entry.has_pending_half();
  if (!name.addresses.empty()) {
    const bool waits = pending && entry.grace_until && now < *entry.grace_until;
    if (!waits) name.state = ResolvedName::State::Resolved;
    if (waits) name.addresses.clear();
  } else if (!pending) {
    name.state = has_failed ? ResolvedName::State::Failed : ResolvedName::State::NoAddresses;
    name.reason = reason_of(entry);
  }
  if (name.state == ResolvedName::State::Pending) name.via.clear();
  return name;
}

// Why neither family has an address.
std::string WatchedNames::reason_of(const Entry& entry) {
  for (const Half& half : entry.halves)
    if (!half.last_error.empty()) return half.last_error;
  return std::string(kNoAddress);
}

// Returns whether there is something to tell.
bool WatchedNames::publish(Entry& entry, TimePoint now) {
  ResolvedName name = evaluate(entry, now);
  const bool same_state = name.state == entry.name.state;
  const bool same_set = is_same_set(name.addresses, entry.name.addresses);
  const bool same_order = name.addresses == entry.name.addresses;
  const bool same_aliases = name.via == entry.name.via;
  if (is_unresolved(name.state))
    unresolved_.insert(entry.watch);
  else
    unresolved_.erase(entry.watch);
  entry.name = std::move(name);
  if (same_state && same_set && same_aliases && (same_order || !entry.order_counts)) return false;
  ++changes_;
  return true;
}

std::optional<TimePoint> WatchedNames::next_wakeup() const {
  std::optional<TimePoint> next;
  if (!expiring_.empty()) next = expiring_.begin()->first;
  if (in_flight_ >= policy_.max_in_flight) return next;
  auto lookup = TimePoint::max();
  if (!waiting_.empty()) lookup = waiting_.begin()->first;
  if (!ready_.empty()) lookup = TimePoint::min();
  if (lookup != TimePoint::max())
    next = std::min(next.value_or(TimePoint::max()), std::max(lookup, budget_.ready_at()));
  return next;
}

const ResolvedName* WatchedNames::find(std::string_view host, std::string_view ns) const {
  const Entry* const entry = find_entry(host, ns);
  return entry == nullptr ? nullptr : &entry->name;
}

std::vector<RefusedNames> WatchedNames::refused() const {
  std::vector<RefusedNames> list;
  for (const auto& [ns, tenant] : tenants_)
    if (!tenant->refused.empty()) list.push_back({ns, tenant->refused.size()});
  return list;
}

FamilyStatus WatchedNames::status_of(const Half& half, TimePoint now) const {
  FamilyStatus status;
  status.family = half.id.family;
  status.last = half.last;
  if (half.is_usable(now, policy_.refresh)) status.addresses = half.addresses;
  status.in_flight = half.in_flight;
  status.stale = is_stale(half, now);
  if (const auto expires = half.schedule.expires()) status.expires_in = until(*expires, now);
  if (half.due_at && *half.due_at > now) status.next_refresh_in = until(*half.due_at, now);
  status.last_error = half.last_error;
  status.lookups = half.lookups;
  status.failures = half.failures;
  return status;
}

std::vector<NameStatus> WatchedNames::status(TimePoint now) const {
  std::vector<NameStatus> names;
  names.reserve(by_watch_.size());
  for (const auto& [watch, entry] : by_watch_) {
    NameStatus& status =
        names.emplace_back(entry->name, std::vector<FamilyStatus>{}, entry->tenant.ns);
    for (const Half& half : entry->halves) status.families.push_back(status_of(half, now));
    if (entry->name.state != ResolvedName::State::NoAddresses) continue;
    for (FamilyStatus& family : status.families)
      if (family.last_error.empty()) family.last_error = kNoAddress;
  }
  return names;
}

bool WatchedNames::is_stale(const Half& half, TimePoint now) const {
  const auto expires = half.schedule.expires();
  return expires && now >= *expires && !half.addresses.empty() &&
         half.is_usable(now, policy_.refresh);
}

FailingNames WatchedNames::without_address(std::size_t limit, TimePoint now) const {
  FailingNames failing{unresolved_.size(), {}};
  for (const std::uint64_t watch : unresolved_) {
    if (failing.first.size() == limit) break;
    const Entry& entry = *by_watch_.at(watch);
    // The name had addresses until both families had none.
    TimePoint since{};
    for (const Half& half : entry.halves) since = std::max(since, half.bad_since.value_or(now));
    failing.first.push_back({entry.tenant.ns, entry.name.host, entry.name.reason, since});
  }
  return failing;
}

FailingNames WatchedNames::with_old_addresses(std::size_t limit, TimePoint now) const {
  FailingNames failing;
  std::uint64_t last = 0;  // both lookups of a name are neighbours
  for (const LookupId id : failing_) {
    const Entry& entry = *by_watch_.at(id.watch);
    const Half& half = entry.halves[id.family == Family::V4 ? 0 : 1];
    if (id.watch == last || !is_stale(half, now)) continue;
    last = id.watch;
    ++failing.count;
    if (failing.first.size() == limit) continue;
    failing.first.push_back(
        {entry.tenant.ns, entry.name.host, half.last_error, half.bad_since.value_or(now)});
  }
  return failing;
}

ResolverCounters WatchedNames::counters() const {
  return {.lookups = lookups_,
          .failures = failures_,
          .changes = changes_,
          .names = by_watch_.size(),
          .in_flight = in_flight_,
          .names_failed = unresolved_.size(),
          .names_refused = names_refused_};
}

}  // namespace meshdns::resolver
