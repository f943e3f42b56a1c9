// SPDX-License-Identifier: Apache-2.0
// The names that endpoint sets use, and what is known of each: the engine without sockets, timers
// or a clock.  Each family of a name is looked up and scheduled by itself, so that a server that
// loses AAAA queries costs IPv4 nothing.  Each namespace has its own names: clients of two may get
// different answers.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "registry/base/hash.hpp"
#include "registry/model/resolved_name.hpp"
#include "resolver/names/lookup.hpp"
#include "resolver/names/refresh_schedule.hpp"

namespace meshdns::resolver {

// Limits how many lookups begin per second.
// So many lookups per second, and `burst` of them at once after a pause. Counts in whole clock
// ticks, so that a lookup that ready_at() promises is allowed at exactly that time.
class LookupBudget {
 public:
  // REQUIRES: `per_second` and `burst` > 0.
  LookupBudget(std::uint32_t per_second, std::uint32_t burst)
      : per_second_(per_second), burst_(burst) {}

  // The time when the next lookup may begin.
  TimePoint ready_at() const { return full_at_ - interval() * (burst_ - 1); }
  // Returns whether the whole burst is allowed: nothing is lost with the object.
  bool is_whole(TimePoint now) const { return full_at_ <= now; }
  // REQUIRES: ready_at() <= now.
  void take(TimePoint now) { full_at_ = (full_at_ > now ? full_at_ : now) + interval(); }

 private:
  Duration interval() const {
    return std::chrono::duration_cast<Duration>(std::chrono::seconds(1)) / per_second_;
  }

  std::uint32_t per_second_;
  std::uint32_t burst_;
  TimePoint full_at_{};  // when the whole burst is allowed again
};

struct ResolverPolicy {
  RefreshPolicy refresh;
  std::size_t max_in_flight = 100;  // lookups, of one family each
  // Limit of lookups in flight for one namespace.
  std::size_t max_in_flight_per_namespace = 25;
  // Names of one namespace over this limit are not looked up and count as failed.
  std::size_t max_names_per_namespace = 10'000;
  // Lookups that begin, in the long run and after a pause. A namespace with so many names that
  // their TTLs would need more lookups has them refreshed less often.
  std::uint32_t lookups_per_second = 1'000;
  std::uint32_t lookups_burst = 40'000;
  std::uint32_t namespace_lookups_per_second = 200;
  std::uint32_t namespace_lookups_burst = 20'000;
  // Once one family has addresses, how long the first result waits for the other.
  std::chrono::milliseconds other_family_grace{500};
  friend bool operator==(const ResolverPolicy&, const ResolverPolicy&) = default;
};

// One family of one name, as /resolver shows it.  Times are relative to the moment of asking.
struct FamilyStatus {
  Family family = Family::V4;
  std::optional<Answer::Status> last;  // of the last lookup; nullopt before the first ended
  std::vector<IpAddress> addresses;    // in use
  bool in_flight = false;
  bool stale = false;  // in use beyond their TTL
  std::optional<std::chrono::milliseconds> expires_in;
  std::chrono::milliseconds next_refresh_in{0};
  // Why the last lookup brought no address; empty if the other family has some instead.
  std::string last_error;
  std::uint64_t lookups = 0;
  std::uint64_t failures = 0;
};
struct NameStatus {
  registry::ResolvedName name;
  std::vector<FamilyStatus> families;  // empty: the mesh answers
  std::string ns{};
};
// A name whose lookups bring no address.
struct FailingName {
  std::string ns;
  std::string host;
  std::string reason;  // the last error
  // No lookup since has brought one; nullopt: not known, because the mesh answers.
  std::optional<TimePoint> since;
};
// Some of the names, the longest watched first, and the number of all.
struct FailingNames {
  std::size_t count = 0;
  std::vector<FailingName> first;
};
// A name whose result has changed.
struct ChangedName {
  std::string ns;
  registry::ResolvedName name;
};

struct ResolverCounters {
  std::uint64_t lookups = 0;
  std::uint64_t failures = 0;
  std::uint64_t changes = 0;  // sets of addresses or states that changed
  std::size_t names = 0;
  std::size_t in_flight = 0;
  std::size_t names_failed = 0;   // without an address: in state Failed or NoAddresses
  std::size_t names_refused = 0;  // uses beyond max_names_per_namespace
};

// Names one family of one watch; stale ids (of names unwatched meanwhile) are recognised.
struct LookupId {
  std::uint64_t watch = 0;
  Family family = Family::V4;
  friend auto operator<=>(const LookupId&, const LookupId&) = default;
};
struct DueLookup {
  LookupId id;
  std::string ns;
  std::string host;
};

// Number of names of a namespace that are not looked up because it has too many.
struct RefusedNames {
  std::string ns;
  std::size_t names = 0;
};

// Namespaces take turns: whichever has had no lookup for longest is next, however many names the
// others have.
class WatchedNames {
 public:
  // The names to tell and the lookups to cancel after unwatch().
  struct Unwatched {
    std::vector<LookupId> cancelled;
    std::optional<std::string> begun;  // a name of the namespace that was refused before
  };

  // `seed` decides the jitter.
  WatchedNames(ResolverPolicy policy, std::uint64_t seed);
  ~WatchedNames();

  // Returns false if the namespace has too many names: looked up once it has fewer.
  bool watch(std::string_view host, std::string_view ns, TimePoint now);
  // The namespace uses it no more.  Its lookups no longer count; the caller cancels them.
  Unwatched unwatch(std::string_view host, std::string_view ns, TimePoint now);
  // Whether a mere change of the latest answer's order counts as a change, for a name that a
  // DNS_ROUND_ROBIN set uses (it answers with the first address).  No effect on other names.
  void watch_order(std::string_view host, std::string_view ns, bool order_counts);
  // Takes effect with each name's next lookup; budgets are those of the start.
  void set_policy(ResolverPolicy policy) { policy_ = policy; }

  // The lookups that are due and within all limits, the namespaces by turns; from now on in flight.
  std::vector<DueLookup> take_due(TimePoint now);
  // The end of a lookup.  The name, if what it resolves to has changed.
  std::optional<ChangedName> finish(LookupId id, Answer&& answer, TimePoint now);
  // Names whose state changes by time alone: the last good answer became too old, or the other
  // family was waited for long enough.
  std::vector<ChangedName> expire(TimePoint now);
  // All names whose last lookup failed are due within `spread`.
  void hasten_failed(TimePoint now, std::chrono::milliseconds spread);
  // All names are due within `spread`.
  void hasten_all(TimePoint now, std::chrono::milliseconds spread);
  // The name is due at once; what a lookup under way finds is asked again.
  void refresh(std::string_view host, std::string_view ns, TimePoint now);

  // The time when take_due or expire has work next, as far as time decides.
  std::optional<TimePoint> next_wakeup() const;

  // Null: not looked up for the namespace.
  const registry::ResolvedName* find(std::string_view host, std::string_view ns) const;
  std::vector<RefusedNames> refused() const;            // sorted by namespace
  std::vector<NameStatus> status(TimePoint now) const;  // in no order
  // The names without an address, and those that have the addresses of an answer that has expired;
  // at most `limit` of each with their texts.
  FailingNames without_address(std::size_t limit, TimePoint now) const;
  FailingNames with_old_addresses(std::size_t limit, TimePoint now) const;
  ResolverCounters counters() const;

 private:
  struct Half;    // one family of a name
  struct Entry;   // one name of a namespace
  struct Tenant;  // one namespace
  using Deadline = std::pair<TimePoint, LookupId>;

  Half* find_half(LookupId id);
  Entry* find_entry(std::string_view host, std::string_view ns) const;
  Tenant& tenant_of(std::string_view ns, TimePoint now);
  void forget(Entry& entry, std::vector<LookupId>& cancelled);
  void queue(Tenant& tenant, TimePoint now);
  void unqueue(Tenant& tenant);
  Duration shortest_refresh(const Tenant& tenant) const;
  void refresh(Entry& entry, TimePoint when, TimePoint now);
  void record(Half& half, Answer&& answer, TimePoint now);
  void plan(const Entry& entry, Half& half, TimePoint now);
  void unplan(const Entry& entry, Half& half);
  static std::string reason_of(const Entry& entry);
  registry::ResolvedName evaluate(const Entry& entry, TimePoint now) const;
  bool publish(Entry& entry, TimePoint now);
  FamilyStatus status_of(const Half& half, TimePoint now) const;
  bool is_stale(const Half& half, TimePoint now) const;
  double chance();

  ResolverPolicy policy_;
  std::mt19937_64 random_;
  std::uint64_t last_watch_ = 0;
  std::unordered_map<std::uint64_t, Entry*> by_watch_;
  std::map<std::string, std::unique_ptr<Tenant>, std::less<>> tenants_;
  std::size_t sweep_tenants_at_ = 64;  // size of tenants_ at which those without names go
  // Tenants with a lookup that is due and allowed, by when they had their last turn.
  std::set<std::pair<std::uint64_t, Tenant*>> ready_;
  // Tenants whose next lookup has to wait, by until when.
  std::set<std::pair<TimePoint, Tenant*>> waiting_;
  std::uint64_t turns_ = 0;
  LookupBudget budget_;
  std::set<Deadline> expiring_;         // states that time changes
  std::set<LookupId> failing_;          // whose last lookup failed
  std::set<std::uint64_t> unresolved_;  // watches of names in state Failed or NoAddresses
  TimePoint hasten_again_at_{};         // after an outage
  std::size_t names_refused_ = 0;
  std::size_t in_flight_ = 0;
  // Lookups that failed since the last that did not: an outage, when there are many.
  std::uint32_t failures_in_a_row_ = 0;
  std::uint64_t lookups_ = 0;
  std::uint64_t failures_ = 0;
  std::uint64_t changes_ = 0;
};

}  // namespace meshdns::resolver
