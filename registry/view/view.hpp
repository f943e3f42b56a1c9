// SPDX-License-Identifier: Apache-2.0
// A snapshot as one client sees it: visibility (exportTo and Sidecar) applied, one namespace chosen
// per host.  It copies nothing; make one per query.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "registry/snapshot/snapshot.hpp"

namespace meshdns::registry {

// The result of a lookup, and the rule that found it.
struct Match {
  enum class How : std::uint8_t {
    None,      // nothing visible matches
    Exact,     // the host itself
    Wildcard,  // `entry` is the longest visible "*.suffix"
    Short,     // a short form of a Kubernetes Service; entry->host() is its full name
    Below,  // `below` names something under a Service (an endpoint, a port) or under a host's ports
  };
  How how = How::None;
  const HostEntry* entry = nullptr;
  const ServiceRecord* service = nullptr;
  // How::Below: the labels in front of the service's name ("web-0", "_http._tcp"), a part of the
  // text that was looked up.
  std::string_view below;
  explicit operator bool() const { return how != How::None; }
};
std::string_view to_string(Match::How how);

// The reasons why candidates were chosen or not, for explanations.  Filled only on request.
struct Trace {
  struct Step {
    std::string candidate;  // "ServiceEntry shop/api (shop.yaml:14)"
    std::string verdict;    // "hidden: exportTo does not include namespace web"
    bool hidden = false;    // the client may not learn of it
  };
  // Maximum number of candidates, besides the chosen one: a host may have thousands.
  static constexpr std::size_t kMaxSteps = 10;
  bool is_full() const { return steps.size() >= kMaxSteps; }
  std::vector<Step> steps;
  std::size_t left_out = 0;  // number of candidates that were not looked at
};

// The names of the hosts that were looked for, found or not; of a wildcard the name below which it
// lies.  Changes of other hosts do not change the result of the look-ups.
class ReadNames {
 public:
  void clear() { size_ = count_ = 0; }
  void add(std::string_view name) {
    if (name.size() + 1 > text_.size() - size_) count_ = kTooMany;
    if (count_ == kTooMany) return;
    name.copy(text_.data() + size_, name.size());
    size_ += name.size();
    text_[size_++] = '\0';
    ++count_;
  }
  // False: they were more than there is room for.
  bool are_complete() const { return count_ != kTooMany; }
  // Calls `visit(name)`; a name may come twice.
  template <typename Visit>
  void for_each(const Visit& visit) const {
    for (std::size_t at = 0; at < size_;) {
      const std::string_view name(text_.data() + at);
      visit(name);
      at += name.size() + 1;
    }
  }

 private:
  static constexpr std::size_t kTooMany = static_cast<std::size_t>(-1);
  std::array<char, 2048> text_;
  std::size_t size_ = 0;
  std::size_t count_ = 0;
};

// The work that one query may cause (View::limit_work).  The most expensive of all usual questions,
// a name of 120 labels below hidden wildcards, needs a quarter.
inline constexpr std::size_t kMaxWorkOfQuery = 4'000;

class View {
 public:
  // REQUIRES: both outlive the view.  `likely`: the snapshot's entry that lookup() will probably
  // find, which saves the search for it; null = none is known.
  View(const Snapshot& snapshot, const Client& client, const HostEntry* likely = nullptr)
      : snapshot_(snapshot), client_(client), likely_(likely) {}

  const Snapshot& snapshot() const { return snapshot_; }
  const Client& client() const { return client_; }
  const MeshSettings& settings() const { return *snapshot_.settings; }

  // Limits the work of all calls together; without a limit there is none.  A unit takes about 10
  // ns. When all are spent, nothing is found any more, names below a name are taken for granted,
  // and the view is exhausted: its results mean nothing.
  void limit_work(std::size_t units) { work_left_ = units; }
  bool is_exhausted() const { return work_left_ == 0; }
  std::size_t work_left() const { return work_left_; }
  // The namespace whose objects have made more of the work than those of all others together, or
  // else one that made some of it; null: none did.
  const Symbol* busiest_namespace() const { return busiest_; }

  // The client asks for a name of endpoints: services of its own namespace that have it among those
  // of their endpoints are not seen.  REQUIRES: the text outlives the view; empty: all count.
  void leave_out_users_of(std::string_view endpoint_name) { endpoint_name_ = endpoint_name; }

  // Has lookup() add the names that it looks for.  REQUIRES: outlives the view; null: nobody asks.
  void note_reads(ReadNames* names) { reads_ = names; }

  // The lookup in the registry (docs/resolution.md): the exact host; a name below a Kubernetes
  // Service; the longest wildcard; short names; ports of a host (`_name._proto.host`).  `name`:
  // lower case, no final dot; any text is safe.  Without a trace it never allocates, except when it
  // is the first to ask for some of the parts of a service (ServiceParts::merged).
  Match lookup(std::string_view name, Trace* trace = nullptr) const;

  // The longest of the client's search domains that `name` ends with; empty: none.  A resolver
  // appends one domain, and a query for "example.org" must not lead to a host
  // "example.org.NAMESPACE": shorter domains do not count.
  std::string_view appended_domain(std::string_view name) const;
  // `name` without its appended domain; empty: it has none.
  std::string_view name_without_domain(std::string_view name) const;

  // The addresses for answers to this client.
  AddressView addresses(const ServiceRecord& service) const {
    return service.addresses(client_.network.get(), client_.cluster.get());
  }
  // Returns whether this client may reach an endpoint of that network.
  bool reaches(const EndpointEntry& endpoint) const { return reaches(endpoint.network.get()); }
  bool reaches(const Symbol* network) const {
    return !client_.network || network == nullptr || network == client_.network.get();
  }
  // The gateways whose addresses this client is answered instead of the endpoint's.  Empty: it
  // reaches the endpoint, or the endpoint's network has none.
  std::span<const NetworkGateways::Gateway> gateways_to(const EndpointEntry& endpoint) const {
    if (reaches(endpoint) || !snapshot_.gateways) return {};
    return snapshot_.gateways->to(endpoint.network.get(), endpoint.cluster.get());
  }
  std::uint32_t ttl(const ServiceRecord& service) const;

  // Returns whether the namespace exists for this client: its object is known, or an object in it
  // is visible.
  bool namespace_exists(std::string_view ns) const;
  // Returns whether this client sees a host below `name`, which itself is not a host.
  bool is_empty_non_terminal(std::string_view name) const;
  // Returns whether a service that is exported to this client has an address whose reverse name is
  // counted as `name` (is_counted_prefix()) or lies below it.
  bool is_counted(std::string_view reverse_name) const;
  // Returns whether a Service, its endpoints or a Pod has the address, visible or not.
  bool is_cluster_address(const IpAddress& address) const;
  // Returns whether a Pod has the address, or the API server gave it to a Service.
  bool is_assigned_address(const IpAddress& address) const;
  // Returns whether `ns` has a running Pod with that address.
  bool pod_exists(const IpAddress& address, std::string_view ns) const;

  // The names of an address, as PTR gives them, visible ones only: services whose VIP it is, else
  // endpoints ("web-0.web.shop.svc.cluster.local").  With `mesh.claims: strict` without those that
  // the claim rules refuse.  Allocates.
  struct ReverseName {
    std::string name;
    const ServiceRecord* service;
  };
  // An address with very many names gets only some of them, after a look at some hosts, those of
  // the address's owner first.
  static constexpr std::size_t kMaxReverseHosts = 128;
  static constexpr std::size_t kMaxReverseNames = 50;
  std::vector<ReverseName> reverse(const IpAddress& address) const;
  // The claims of an address, seen or not, for explanations; of very many some.
  struct Claimed {
    const HostEntry* host;
    const ServiceRecord* service;  // or the part of it that has the address
    bool is_seen;
  };
  std::vector<Claimed> claims_of(const IpAddress& address) const;
  // The number of hosts that may be looked at, counted down.
  struct ReverseLooks {
    std::size_t seen = kMaxReverseHosts;  // the client sees the object that has the address
    // It does not, or the claim rules refuse the name; by audience, so that objects for some
    // namespaces do not keep those for everybody out of reach.
    std::array<std::size_t, 3> hidden = {kMaxReverseHosts, kMaxReverseHosts, kMaxReverseHosts};
    bool are_spent() const { return seen == 0 || std::ranges::find(hidden, 0U) != hidden.end(); }
  };
  // Returns whether reverse() would return any name.  When the looks are spent, false means only
  // that none was found.  Never allocates.
  bool has_reverse(const IpAddress& address, ReverseLooks& looks) const;

  // Both visibility rules for one record, or for a part of it; `reason` (if not null) gets the rule
  // that refused.
  bool sees(std::string_view host, const ServiceRecord& service,
            std::string* reason = nullptr) const;

 private:
  class AddressOwners;
  enum class Naming : std::uint8_t { None, Vip, Claim, Endpoints };  // Claim: by a ServiceEntry
  template <typename Visit>
  void for_each_name(const IpAddress& address, ReverseLooks& looks, const Visit& visit) const;
  // Calls `visit(endpoint)` for the ready endpoints of that address, until it returns false.
  template <typename Visit>
  void for_each_endpoint_at(const HostEntry& host, const ServiceRecord& service,
                            const IpAddress& address, const Visit& visit) const;
  bool has_virtual_address(const ServiceRecord& service, const AddressUse& use,
                           const IpAddress& address, std::size_t& steps_left) const;
  Naming naming_of(const HostEntry& host, const ServiceRecord& service, const AddressUse& use,
                   const IpAddress& address, std::size_t& steps_left) const;
  bool may_name(const ServiceRecord& service, const AddressUse& use,
                const AddressOwners& owners) const;
  // The part of one namespace's service of a host that the client sees, and its place in the order
  // in which a client chooses among namespaces.
  struct Seen {
    enum class Rank : std::uint8_t { Own, Kubernetes, ByName, Public, OwnGateway, Gateway };
    const ServiceRecord* service = nullptr;  // the first part that is seen; null: nothing
    const ServiceParts* parts = nullptr;     // null: all of it is seen
    Rank rank = Rank::Public;
    std::int64_t creation_time = 0;  // of the oldest object of that rank
    explicit operator bool() const { return service != nullptr; }
    bool precedes(const Seen& other) const;
  };
  bool is_left_out(const ServiceRecord& record) const {
    return !endpoint_name_.empty() && has_endpoint_name(record);
  }
  bool has_endpoint_name(const ServiceRecord& record) const;
  // Both visibility rules for one record, or for a part of it, of a host with several.
  bool sees(const ServiceRecord& record, ScopedHost& scoped) const;
  Seen see(const ServiceRecord& record, ScopedHost& scoped) const;
  Seen see_parts(const ServiceParts& parts, ScopedHost& scoped) const;
  template <typename LookAt>
  void look_by_port(const ServiceParts& parts, const LookAt& look_at) const;
  // Calls `visit(i)` for the parts that the client may see.
  template <typename Visit>
  void for_each_visible_part(const ServiceParts& parts, ScopedHost& scoped,
                             const Visit& visit) const;
  // The service of all parts that the client sees.  Only for what is chosen: it costs as much as
  // there are parts.  REQUIRES: seen.
  const ServiceRecord* whole(const HostEntry& entry, const Seen& seen) const;
  // --- Services of several clusters (cluster_choice.cpp) ---
  // The part of the Service of the client's cluster, or else of the sources without a cluster; 0 if
  // there is neither.  REQUIRES: parts.clusters() is not empty.
  std::size_t own_cluster_part(const ServiceParts& parts) const;
  // The part of the Service that the client sees, by its cluster alone; kNoPart: none.
  static constexpr std::size_t kNoPart = static_cast<std::size_t>(-1);
  std::size_t service_part(const ServiceParts& parts) const;
  // With `mesh.clusters: local-only`, of a record without parts: whether the client's cluster, or a
  // source without a cluster, has one of its Services.
  bool is_of_client_cluster(const ServiceRecord& record) const;
  // The records in which endpoints of a Service of several clusters are found by their names: first
  // that of the client's cluster, then that of all.  Null: none.
  struct ClusterParts {
    const ServiceRecord* own = nullptr;
    const ServiceRecord* all = nullptr;
  };
  ClusterParts cluster_parts(const HostEntry& host, const ServiceRecord& service) const;
  // Turns the match of a name below a Service into that of the cluster that has such an endpoint.
  void settle_cluster(Match& match, Trace* trace) const;
  // The cluster of which the client gets the Service; null: of all that have it.
  const StoredRef* answering_service(const ServiceRecord& record) const;
  bool merges_members(const ServiceRecord& record) const;
  void explain_clusters(const ServiceRecord& record, Trace& trace) const;
  std::string why_of_cluster(const ServiceRecord& record) const;
  Seen::Rank rank_of(const ServiceRecord& record) const;
  // Looks at the own namespace's service, then at the cluster's, then at those of others, and no
  // further than to what nothing can precede.
  Seen choose(const HostEntry& entry) const;
  Seen choose_of_several(const HostEntry& entry) const;
  // Almost always a host has one service, which is not split: then the client sees it or not.
  static bool is_alone(const HostEntry& entry) {
    const auto records = entry.records();
    return records.size() == 1 && !records[0]->split;
  }
  const ServiceRecord* choose_alone(const HostEntry& entry) const {
    const ServiceRecord& only = *entry.records()[0];
    return !only.placeholder && sees(entry.host(), only) ? &only : nullptr;
  }
  void choose_of_others(const HostEntry& entry, const RecordIndex& index, ScopedHost& scoped,
                        Seen& best) const;
  void explain_choice(const HostEntry& entry, const ServiceRecord* chosen, Trace& trace) const;
  void explain_hidden(const HostEntry& entry, const ServiceRecord& record, Trace& trace) const;
  void explain_shadowed(const HostEntry& entry, const ServiceRecord& record,
                        const ServiceRecord& chosen, const std::string& verdict,
                        Trace& trace) const;
  // Returns whether the client sees a host below the name.  `looks`: as below.
  bool is_visible(const NonTerminal& entry, std::size_t& looks) const;
  // Returns whether the client's Sidecar may import a host below the name from a narrower egress
  // host than a namespace.  `looks`: number of services that may be examined, counted down.
  bool may_import_below(const NonTerminal& entry, const SidecarScope& scope,
                        std::size_t& looks) const;
  bool may_import_below(const NonTerminal& entry, const ListenerScope& listener,
                        const EgressHost& egress, bool is_narrower, std::size_t& looks) const;
  // Returns whether the service's host, found for `name`, stands back behind a Service of another
  // namespace that the client sees and that has `name` as its short name, or that its resolver
  // means by it.
  bool yields(const ServiceRecord& service, std::string_view name, Trace* trace) const;
  // Returns whether `owner`, which lookup_short() found, has `name` as a short form of one of its
  // names.
  bool is_short_form(std::string_view name, const Match& owner) const;
  // Whether a ready endpoint for which `is_meant(entry)` has the label.
  template <typename IsMeant>
  bool has_ready_endpoint(const ServiceRecord& service, std::string_view label,
                          const IsMeant& is_meant) const;
  // Returns whether any ready endpoint has the label.
  bool has_endpoint(const ServiceRecord& service, std::string_view label) const;
  // Returns whether one that the client reaches, itself or by a gateway, has it.
  bool reaches_endpoint(const ServiceRecord& service, std::string_view label) const;
  void note_read(std::string_view name) const {
    if (reads_ != nullptr) [[unlikely]]
      reads_->add(name);
  }
  const HostEntry* find_host(std::string_view name) const {
    note_read(name);
    return snapshot_.find_host(name);
  }
  void spend(std::size_t units) const { work_left_ -= std::min(units, work_left_); }
  // Notes that objects of `ns` have made work: a vote for the majority, which needs no table.
  void note_work(const Symbol* ns, std::size_t units) const {
    if (busiest_ == ns) {
      busiest_lead_ += units;
    } else if (busiest_lead_ >= units) {
      busiest_lead_ -= units;
    } else {
      busiest_ = ns;
      busiest_lead_ = units - busiest_lead_;
    }
  }
  // The chosen service, if `is_wanted(part of it)`.
  template <typename IsWanted>
  Match match_entry(const HostEntry* entry, Match::How how, Trace* trace,
                    const IsWanted& is_wanted) const;
  Match lookup_exact(std::string_view name, Trace* trace) const;
  Match lookup_below_service(std::string_view name, Trace* trace) const;
  Match lookup_wildcard(std::string_view name, Trace* trace) const;
  Match lookup_short(std::string_view name, Trace* trace) const;
  Match lookup_ports(std::string_view name, Trace* trace) const;

  const Snapshot& snapshot_;
  const Client& client_;
  const HostEntry* likely_;
  std::string_view endpoint_name_;  // leave_out_users_of()
  ReadNames* reads_ = nullptr;
  // The last result of whole() of parts: a query looks the same host up several times.
  mutable const ServiceParts* whole_of_ = nullptr;
  mutable const ServiceRecord* whole_ = nullptr;
  mutable std::size_t work_left_ = std::numeric_limits<std::size_t>::max();
  mutable const Symbol* busiest_ = nullptr;
  mutable std::size_t busiest_lead_ = 0;
};

}  // namespace meshdns::registry
