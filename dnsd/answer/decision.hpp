// SPDX-License-Identifier: Apache-2.0
// The answer to a query, and its reasons: the numbered list of docs/resolution.md, without any
// packets. Answers, explanations and class CH are all made from this one value.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <span>
#include <string>
#include <string_view>

#include "registry/base/ip_address.hpp"
#include "registry/view/view.hpp"
#include "resolver/wire/types.hpp"

namespace meshdns::dnsd {

// The results of lookups in the registry, kept while one name is explained.  An explanation asks
// for one name by several types, and each looks the same names up.  A deep name below many
// wildcards takes microseconds, so each name is looked up once.  One view, one thread.
class FoundNames {
 public:
  // Returns what view.lookup() returns.  Its `below` is valid as long as this object.  `trace` is
  // filled only by the first lookup of a name.
  const registry::Match& lookup(const registry::View& view, std::string_view name,
                                registry::Trace* trace) {
    for (const Found& found : found_)
      if (found.name == name) return found.match;
    Found& found = found_.emplace_back(std::string(name), registry::Match{});
    found.match = view.lookup(found.name, trace);
    return found.match;
  }

 private:
  struct Found {
    std::string name;
    registry::Match match;
  };
  std::list<Found> found_;  // a list: matches refer to the names
};

enum class Verdict : std::uint8_t {
  Addresses,          // those of match.service, of the asked family; there is at least one
  Address,            // `address` alone: localhost, a Pod's name
  EndpointAddresses,  // those of the endpoints that `below` names, of the asked family
  Ports,              // SRV: the ports of match.service, narrowed by `below`
  Alias,              // CNAME to match.service->alias(), and on from there
  SearchAlias,        // CNAME to the known name that the search suffix hides, and on from there
  AliasItself,        // the aliases followed so far are the answer (local_resolution.hpp)
  AliasLoop,          // SERVFAIL: aliases without end (local_resolution.hpp)
  Pointers,           // PTR: the names of `address`
  Version,            // TXT: the version of the specification
  ZoneSoa,            // the SOA of `zone`, as the answer
  ZoneNs,             // the name server of `zone`
  ServerAddresses,    // of the name server
  Minimal,            // ANY: one HINFO record (RFC 8482)
  NoData,
  NxDomain,
  LocalAddresses,  // those of `local`, of the asked family; there is at least one
  LocalPointers,   // PTR: the names of `local`
  Denied,          // NXDOMAIN: an override of the operator for `zone`
  Refused,         // REFUSED: the same
  Forward,
  Wait,  // the addresses of match.service are being looked up for the first time
  // From here on failures (is_failure()).
  Unresolvable,  // SERVFAIL: all names of match.service fail
  NotReady,      // SERVFAIL: a required source has not delivered yet
  Overworked,    // SERVFAIL: the view has no work left (View::limit_work)
};
std::string_view to_string(Verdict verdict);
constexpr bool is_failure(Verdict verdict) {  // SERVFAIL or REFUSED
  return verdict == Verdict::AliasLoop || verdict == Verdict::Refused ||
         verdict >= Verdict::Unresolvable;
}
wire::Rcode rcode_of(Verdict verdict);

class FoundNames;
class LocallyServedZones;
class LocalNames;
class RegistryOnly;
struct LocalEntry;

// The effect of REGISTRY_ONLY on a name that no object that the client sees has
// (registry_only.hpp).
enum class RegistryOnlyEffect : std::uint8_t {
  None,       // the name is allowed, or the client's proxy lets all traffic pass
  Explained,  // forwarded; the client's proxy would drop traffic to what it leads to
  Audited,    // likewise, and counted
  Refused,    // not forwarded
};

// Refers to the name that was asked about, to the snapshot and to its settings; valid as long as
// these.
struct Decision {
  Verdict verdict = Verdict::Forward;
  // `zone` is one of the locally served zones, empty by definition (locally_served.hpp).
  bool is_empty_zone = false;
  // match.service has endpoints, and the networks of all are out of the client's reach: why_of()
  // says more than `why`.
  bool is_unreached = false;
  RegistryOnlyEffect registry_only = RegistryOnlyEffect::None;
  registry::Match match = {};
  // The labels in front of `base`: "web-0", "_http._tcp"; empty: the name itself.
  std::string_view below = {};
  // The name of the service that `below` belongs to.
  std::string_view base = {};
  // The zone whose SOA a negative answer carries; empty: the name is no part of a zone of ours and
  // stands for itself.
  std::string_view zone = {};
  std::string_view stripped = {};  // SearchAlias: the name without the search domain
  IpAddress address = {};
  std::string_view why = {};          // a literal, for explanations and extended errors
  const LocalEntry* local = nullptr;  // LocalAddresses, LocalPointers
};

// Returns whether nobody knows the name, here at least: it may be one that a search list has made.
// The same holds below a Service, which may be called like a top-level domain, for names that are
// not of the form that its own have.
bool is_unknown_name(const Decision& decision);

// Returns whether the name has the form of a Service's full name, as "db.shop.svc.cluster.local".
bool is_service_name(const registry::View& view, std::string_view name);

// `mesh.search_shortcut: all`: what the client's resolver looks for if `name`, which nobody knows,
// is the first step of its walk along the search list; empty: it is none.  The first domain alone
// begins a walk, and only one of our zones: other names may be what somebody has typed.  Nor does
// a single label: "db.shop.svc.cluster.local" is the full name of a Service.  Names that the
// registry knows are left to the client's own walk.
std::string_view walked_name(const registry::View& view, std::string_view name);

// The aliases of the mesh that one question has led through, as far as there is room.  The matches
// are valid as long as the snapshot.
class PassedAliases {
 public:
  void add(const registry::Match& match) {
    if (size_ < matches_.size()) matches_[size_++] = match;
  }
  std::span<const registry::Match> all() const { return std::span(matches_).first(size_); }
  void clear() { size_ = 0; }

 private:
  std::array<registry::Match, 12> matches_;
  std::size_t size_ = 0;
};

struct Asked {
  std::string_view name = {};  // lower case, no final dot; empty = the root
  wire::Type type = wire::Type::A;
  // The target of an alias: an absolute name, so that short forms and search domains do not count.
  bool is_target = false;
  // Search domains do not count; short forms do.
  bool is_absolute = false;
  // The first alias of the chain is the step of a walk along the search list: a question that the
  // client would ask itself, where short forms count.
  bool is_walking = false;
  // Labels that no host name can have were replaced by "*": only wildcards may match.
  bool has_odd_labels = false;
  // The addresses of ns.dns.
  std::span<const IpAddress> server_addresses = {};
  registry::Trace* trace = nullptr;
  PassedAliases* passed = nullptr;  // gets the aliases that are followed; null = nobody asks
  // Holds lookups for the next type of the same name; null = none does.
  FoundNames* found = nullptr;
  // Local answers for names that would be forwarded; null = none.
  const LocalNames* local = nullptr;
  // Zones that are not forwarded though nobody has declared them; null = none.
  const LocallyServedZones* served = nullptr;
  // Judges names for clients with REGISTRY_ONLY; null: all may be forwarded.
  const RegistryOnly* registry_only = nullptr;
  // The prefix of translated addresses (dns64.hpp); null = no DNS64.
  const IpPrefix* dns64 = nullptr;
};

// The work that one query may cause in the registry, for View::limit_work().
inline constexpr std::size_t kMaxWork = registry::kMaxWorkOfQuery;

// Never allocates without a trace (but for reverse names).
Decision decide(const registry::View& view, const Asked& asked);

// Returns whether the service has no address because its endpoints' names do not exist or have
// none.
bool has_unresolved_names(const registry::ServiceRecord& service);

// The zone of ours that `name` is in: the cluster domain, clusterset.local, or the longest declared
// reverse zone; empty = none.
std::string_view zone_of(const registry::View& view, std::string_view name);

}  // namespace meshdns::dnsd
