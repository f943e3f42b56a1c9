// The names that endpoint sets use, and what is known of each: the engine without sockets, timers
// or a clock.  Each family of a name is looked up and scheduled by itself, so that a server that
// loses AAAA queries costs IPv4 nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "registry/model/resolved_name.hpp"
#include "resolver/lookup.hpp"
#include "resolver/refresh_schedule.hpp"

namespace meshdns::resolver {

struct ResolverPolicy {
  RefreshPolicy refresh;
  std::size_t max_in_flight = 100;  // lookups, of one family each
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
  std::string last_error;  // of the last failed lookup; empty once one succeeded
  std::uint64_t lookups = 0;
  std::uint64_t failures = 0;
};
struct NameStatus {
  registry::ResolvedName name;
  std::vector<FamilyStatus> families;
};

struct ResolverCounters {
  std::uint64_t lookups = 0;
  std::uint64_t failures = 0;
  std::uint64_t changes = 0;  // sets of addresses or states that changed
  std::size_t names = 0;
  std::size_t in_flight = 0;
  std::size_t names_failed = 0;  // in state Failed
};

// Names one family of one watch; stale ids (of names unwatched meanwhile) are recognised.
struct LookupId {
  std::uint64_t watch = 0;
  Family family = Family::V4;
  friend auto operator<=>(const LookupId&, const LookupId&) = default;
};
struct DueLookup {
  LookupId id;
  std::string host;
};

class WatchedNames {
 public:
  // `seed` decides the jitter.
  WatchedNames(ResolverPolicy policy, std::uint64_t seed);
  ~WatchedNames();

  // False when it was watched (not watched) already.
  bool watch(std::string_view host, TimePoint now);
  // Its lookups under way no longer count; the caller cancels them.
  std::vector<LookupId> unwatch(std::string_view host);
  // Whether a mere change of the latest answer's order counts as a change, for a name that a
  // DNS_ROUND_ROBIN set uses (it answers with the first address).  No effect on other names.
  void watch_order(std::string_view host, bool order_counts);
  // Takes effect with each name's next lookup.
  void set_policy(ResolverPolicy policy) { policy_ = policy; }

  // What is due and within max_in_flight, earliest first; from now on in flight.
  std::vector<DueLookup> take_due(TimePoint now);
  // The end of a lookup.  The name, if what it resolves to has changed.
  std::optional<registry::ResolvedName> finish(LookupId id, Answer&& answer, TimePoint now);
  // Names whose state changes by time alone: the last good answer became too old, or the other
  // family was waited for long enough.
  std::vector<registry::ResolvedName> expire(TimePoint now);
  // All names whose last lookup failed are due within `spread`.
  void hasten_failed(TimePoint now, std::chrono::milliseconds spread);

  // When take_due or expire has something to do next, as far as time decides.
  std::optional<TimePoint> next_wakeup() const;

  const registry::ResolvedName* find(std::string_view host) const;
  std::vector<NameStatus> status(TimePoint now) const;  // sorted by host
  ResolverCounters counters() const;

 private:
  struct Half;   // one family of a name
  struct Entry;  // one name
  struct HostHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view host) const noexcept {
      return std::hash<std::string_view>{}(host);
    }
  };
  using Deadline = std::pair<TimePoint, LookupId>;

  Half* find_half(LookupId id);
  void record(Half& half, Answer&& answer, TimePoint now);
  void plan(const Entry& entry, Half& half, TimePoint now);
  void unplan(Half& half);
  registry::ResolvedName evaluate(const Entry& entry, TimePoint now) const;
  bool publish(Entry& entry, TimePoint now);
  FamilyStatus status_of(const Half& half, TimePoint now) const;
  double chance();

  ResolverPolicy policy_;
  std::mt19937_64 random_;
  std::uint64_t last_watch_ = 0;
  std::unordered_map<std::string, std::unique_ptr<Entry>, HostHash, std::equal_to<>> entries_;
  std::unordered_map<std::uint64_t, Entry*> by_watch_;
  std::set<Deadline> due_;       // lookups to start; none of those in flight
  std::set<Deadline> expiring_;  // states that time changes
  std::size_t in_flight_ = 0;
  // Lookups that failed since the last that did not: an outage, when there are many.
  std::uint32_t failures_in_a_row_ = 0;
  std::size_t names_failed_ = 0;
  std::uint64_t lookups_ = 0;
  std::uint64_t failures_ = 0;
  std::uint64_t changes_ = 0;
};

}  // namespace meshdns::resolver
