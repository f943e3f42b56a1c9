// SPDX-License-Identifier: Apache-2.0
// The names of an address, as PTR gives them.  An address may have thousands of services, and most
// of those may be a tenant's that wants the name: the walk begins with the address's owners and
// ends after a number of steps.
#include <algorithm>
#include <array>
#include <optional>

#include "registry/base/each_once.hpp"
#include "registry/base/hash.hpp"
#include "registry/model/claim_rules.hpp"
#include "registry/view/view.hpp"

namespace meshdns::registry {
namespace {

using UseKind = AddressUse::Kind;
using Audience = AddressUse::Audience;

// Addresses of a list that differs by client, which cost as much to look at as one host.
constexpr std::size_t kAddressesPerStep = 16;
// Parts of services, of which a client may see each or not, that cost as much.
constexpr std::size_t kPartsPerStep = 16;
// Units of work (View::limit_work) of a look at a host.
constexpr std::size_t kUnitsPerStep = 8;

bool has_address(const AddressView& view, const IpAddress& address) {
  if (address.is_v4())
    return std::ranges::any_of(view.v4, [&](const auto& o) { return IpAddress::v4(o) == address; });
  return std::ranges::any_of(view.v6, [&](const auto& o) { return o == address.octets(); });
}

// Returns the services that have the address; null if none has.
const ReverseEntry* find_reverse(const Snapshot& snapshot, const IpAddress& address) {
  const std::uint64_t hash = hash_of(address);
  return snapshot.reverse.find(hash,
                               [&](const ReverseEntry& e) { return e.address_hash() == hash; });
}

// Returns whether the namespaces may be the same one; if it matters the caller compares them.
bool is_by(const AddressUse& use, const Symbol& ns) {
  return use.ns_tag() == AddressUse::tag_of(ns.text());
}

// Calls `visit(host)` for each host that the use may mean.
template <typename Visit>
void for_each_host(const Snapshot& snapshot, const AddressUse& use, Visit&& visit) {
  snapshot.hosts.for_each_candidate(use.host_hash(), [&](const HostEntry& host) {
    if (use.is_of_host(hash_bytes(host.host()))) visit(host);
  });
}

// A few namespaces, each once.
class NamespaceTags {
 public:
  void add(std::string_view ns) {
    const std::uint32_t tag = AddressUse::tag_of(ns);
    if (count_ < tags_.size() && !has(tag)) tags_[count_++] = tag;
  }
  std::span<const std::uint32_t> tags() const { return {tags_.data(), count_}; }
  bool has(std::uint32_t tag) const { return std::ranges::find(tags(), tag) != tags().end(); }

 private:
  std::array<std::uint32_t, 8> tags_{};
  std::size_t count_ = 0;
};

// Uses of one kind and namespace that are looked at before the rest of any: no namespace moves the
// names of others out of reach.  Those of the first namespaces, and of others.
constexpr std::size_t kShareOfFirst = 32;
constexpr std::size_t kShareOfOthers = 8;

// Finds the uses of an address that a client may see.  Uses that their exports, its Sidecar or the
// claim rules hide by the namespace alone cost nothing, however many they are.
class SeenUses {
 public:
  SeenUses(const ReverseEntry& entry, const Client& client, const MeshSettings& settings)
      : entry_(entry) {
    if (client.scope) imported_ = client.scope->namespace_tags();
    if (client.ns) own_.add(client.ns->text());
    if (settings.claims == Claims::Istio) return;
    // With strict claims, a ServiceEntry has no reverse name for other namespaces.
    claimants_ = own_;
    claimants_->add(settings.root_namespace);
  }

  std::span<const AddressUse> of(UseKind kind, Audience audience, std::uint32_t tag) const {
    const auto among = namespaces(kind, audience);
    const bool is_passed_over = among && std::ranges::find(*among, tag) == among->end();
    return is_passed_over ? std::span<const AddressUse>() : entry_.uses(kind, audience, tag);
  }

  // Calls `visit(uses)` for the uses of each namespace, until it returns false.
  template <typename Visit>
  void for_each_namespace(UseKind kind, Audience audience, const Visit& visit) const {
    if (const auto among = namespaces(kind, audience)) {
      for (const std::uint32_t tag : *among)
        if (!visit(entry_.uses(kind, audience, tag))) return;
      return;
    }
    for (auto uses = entry_.uses(kind, audience); !uses.empty();) {
      const auto of_ns = entry_.uses(kind, audience, uses.front().ns_tag());
      uses = uses.subspan(of_ns.size());
      if (!visit(of_ns)) return;
    }
  }

 private:
  // The namespaces of which uses may be seen; nullopt: any.
  std::optional<std::span<const std::uint32_t>> namespaces(UseKind kind, Audience audience) const {
    if (audience == Audience::Own) return own_.tags();
    if (kind == UseKind::Claim && claimants_) return claimants_->tags();
    if (!imported_.empty()) return imported_;
    return std::nullopt;
  }

  const ReverseEntry& entry_;
  std::span<const std::uint32_t> imported_;
  NamespaceTags own_;
  std::optional<NamespaceTags> claimants_;
};

// Calls `visit(use)` in the order in which names are looked for, until it returns false: the share
// of the client's namespace and of those of the Pods that hold the address, then that of each other
// one, then as many again, until there are none.  Within each: cluster IPs, other addresses of
// Services, claims.  `is_open(audience)`: whether to go on with uses of that audience.
template <typename IsOpen, typename Visit>
void for_each_use(const SeenUses& seen, const NamespaceTags& first, const IsOpen& is_open,
                  const Visit& visit) {
  constexpr std::array kKinds = {UseKind::ClusterIp, UseKind::Service, UseKind::Claim};
  constexpr std::array kAudiences = {Audience::Everybody, Audience::Some, Audience::Own};
  bool go_on = true;
  const auto visit_all = [&](std::span<const AddressUse> uses, std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < std::min(end, uses.size()); ++i)
      if (go_on && is_open(uses[i].audience())) go_on = visit(uses[i]);
  };
  for (const UseKind kind : kKinds)
    for (const std::uint32_t tag : first.tags())
      for (const Audience audience : kAudiences)
        visit_all(seen.of(kind, audience, tag), 0, kShareOfFirst);
  bool has_more = true;
  for (std::size_t turn = 0; has_more && go_on; ++turn) {
    has_more = false;
    for (const UseKind kind : kKinds)
      for (const Audience audience : kAudiences)
        seen.for_each_namespace(kind, audience, [&](std::span<const AddressUse> uses) {
          if (!go_on || !is_open(audience)) return false;
          if (uses.empty()) return true;
          const bool is_of_first = first.has(uses.front().ns_tag());
          const std::size_t end =
              kShareOfOthers * turn + (is_of_first ? kShareOfFirst : kShareOfOthers);
          has_more |= end < uses.size();
          if (turn > 0 || !is_of_first) visit_all(uses, end - kShareOfOthers, end);
          return true;
        });
  }
}

}  // namespace

// The owners of an address, as far as the claim rules ask.  Computed once for all names of the
// address.
class View::AddressOwners {
 public:
  AddressOwners(const Snapshot& snapshot, const IpAddress& address, const ReverseEntry* entry)
      : pods_(snapshot.find_pod(address)) {
    is_cluster_address_ = pods_ != nullptr && pods_->has_pod;
    if (entry == nullptr) return;
    std::size_t hosts_left = kMaxReverseHosts;
    for (const UseKind kind : {UseKind::ClusterIp, UseKind::Service})
      for (const AddressUse& use : entry->uses(kind)) {
        // The uses by hosts cannot change the result for a cluster address.  Beyond the limit, the
        // address counts as one.
        if (kind == UseKind::Service && is_cluster_address_) return;
        if (hosts_left-- == 0) {
          is_cluster_address_ = true;
          has_several_ |= kind == UseKind::ClusterIp;
          return;
        }
        for_each_host(snapshot, use, [&](const HostEntry& host) { look_at(host, use); });
      }
  }

  const PodEntry* pods() const { return pods_; }
  // A Pod has the address, or the API server gave it to a Service: nobody else's word counts.
  bool is_assigned() const {
    return (pods_ != nullptr && pods_->has_pod) || holder_ != nullptr || has_several_;
  }
  // The address is one of a Service, of its endpoints or of a Pod.
  bool is_cluster_address() const { return is_cluster_address_; }
  // A Pod or a Service of another namespace has the address, and none of the service's own.
  bool has_other(const ServiceRecord& service) const {
    if (pods_ != nullptr && !pods_->holders.empty() &&
        std::ranges::find(pods_->holders, service.ns) == pods_->holders.end())
      return true;
    return has_several_ || (holder_ != nullptr && holder_ != service.ns.get());
  }

 private:
  void look_at(const HostEntry& host, const AddressUse& use) {
    const auto records = host.records();
    for (const ServiceRecord* record : records.first(std::min(records.size(), kMaxReverseHosts))) {
      // The address of a name table's host is what istiod says it is.
      if (record->placeholder || record->is_claim() || record->provider == Provider::NameTable ||
          !is_by(use, *record->ns))
        continue;
      is_cluster_address_ = true;
      if (use.kind() != UseKind::ClusterIp) continue;
      has_several_ |= holder_ != nullptr && holder_ != record->ns.get();
      holder_ = record->ns.get();
    }
  }

  const PodEntry* const pods_;
  bool is_cluster_address_ = false;
  const Symbol* holder_ = nullptr;  // the namespace of a Service whose cluster IP it is
  bool has_several_ = false;        // Services of several namespaces have it
};

bool View::is_assigned_address(const IpAddress& address) const {
  return AddressOwners(snapshot_, address, find_reverse(snapshot_, address)).is_assigned();
}

bool View::is_cluster_address(const IpAddress& address) const {
  return AddressOwners(snapshot_, address, find_reverse(snapshot_, address)).is_cluster_address();
}

// The claim rules for reverse names.
bool View::may_name(const ServiceRecord& service, const AddressUse& use,
                    const AddressOwners& owners) const {
  if (settings().claims == Claims::Istio ||
      (use.kind() == AddressUse::Kind::ClusterIp && !service.is_claim()))
    return true;
  const std::string_view ns = service.ns->text();
  const auto is_allowed = [&](Claim claim) {
    return ruling_of(claim, ns, settings()) != Ruling::Refused;
  };
  if (service.is_claim())
    // A namespace keeps its own names, whatever others write into their slices.
    return client_.ns == service.ns
               ? is_allowed(Claim::ReverseOfClusterAddress) || !owners.is_assigned()
               : (is_allowed(Claim::ReverseOfClusterAddress) || !owners.is_cluster_address()) &&
                     is_allowed(Claim::ReverseForOthers);
  return is_allowed(Claim::ReverseOfOthersAddress) || !owners.has_other(service);
}

// How a service that may name an address does it.
View::Naming View::naming_of(const HostEntry& host, const ServiceRecord& service,
                             const AddressUse& use, const IpAddress& address,
                             std::size_t& steps_left) const {
  if (yields(service, host.host(), nullptr)) return Naming::None;
  // The endpoints of other clusters have names below that of the client's cluster.
  const ServiceRecord* const all = cluster_parts(host, service).all;
  const bool has_others =
      all != nullptr && all->answer != AnswerKind::Alias && all->endpoints() != nullptr;
  // A name that is denied, or an alias, has no addresses of its own.
  if (service.answer == AnswerKind::NoReadyEndpoints || service.answer == AnswerKind::Alias)
    return has_others ? Naming::Endpoints : Naming::None;
  if (has_virtual_address(service, use, address, steps_left))
    return service.is_claim() ? Naming::Claim : Naming::Vip;
  const bool has_endpoints =
      service.provider != Provider::ServiceEntry && service.endpoints() != nullptr;
  return has_endpoints || has_others ? Naming::Endpoints : Naming::None;
}

// A headless Service's addresses are its endpoints', which have names of their own.
bool View::has_virtual_address(const ServiceRecord& service, const AddressUse& use,
                               const IpAddress& address, std::size_t& steps_left) const {
  const bool headless =
      service.answer == AnswerKind::Endpoints && service.provider != Provider::ServiceEntry;
  if (headless) return false;
  const bool differs_by_client = service.partial || service.differs_by_cluster() ||
                                 (service.details && !service.details->by_network.empty());
  if (!differs_by_client && use.kind() != AddressUse::Kind::Service) return true;
  const AddressView view = addresses(service);
  steps_left -= std::min(steps_left, (view.v4.size() + view.v6.size()) / kAddressesPerStep);
  return has_address(view, address);
}

// Calls `visit(host, service, naming)` for each visible service that may name the address, until it
// returns false or the looks are spent.
template <typename Visit>
void View::for_each_name(const IpAddress& address, ReverseLooks& looks, const Visit& visit) const {
  const ReverseEntry* entry = find_reverse(snapshot_, address);
  if (entry == nullptr) return;
  if (is_exhausted()) return;
  spend(kUnitsPerStep);
  const AddressOwners owners(snapshot_, address, entry);
  NamespaceTags first;
  if (client_.ns) first.add(client_.ns->text());
  if (owners.pods() != nullptr)
    for (const SymbolRef& ns : owners.pods()->holders) first.add(ns->text());
  const SeenUses uses(*entry, client_, settings());
  bool go_on = true;
  const auto hidden_looks = [&](Audience audience) -> std::size_t& {
    return looks.hidden[static_cast<std::size_t>(audience)];
  };
  const auto is_open = [&](Audience audience) { return hidden_looks(audience) != 0; };
  for_each_use(uses, first, is_open, [&](const AddressUse& use) {
    std::size_t& hidden = hidden_looks(use.audience());
    for_each_host(snapshot_, use, [&](const HostEntry& host) {
      if (!go_on || looks.seen == 0 || hidden == 0 || is_exhausted()) return;
      spend(kUnitsPerStep);
      if (!host.records().empty()) note_work(host.records()[0]->ns.get(), kUnitsPerStep);
      const Seen seen = choose(host);
      if (!seen || !is_by(use, *seen.service->ns) || !may_name(*seen.service, use, owners)) {
        --hidden;
        return;
      }
      --looks.seen;
      if (seen.parts != nullptr)
        looks.seen -= std::min(looks.seen, seen.parts->all().size() / kPartsPerStep);
      const ServiceRecord* const service = whole(host, seen);
      if (service == nullptr) return;
      const Naming naming = naming_of(host, *service, use, address, looks.seen);
      if (naming != Naming::None) go_on = visit(host, *service, naming);
    });
    return go_on && looks.seen != 0 && !is_exhausted();
  });
}

template <typename Visit>
void View::for_each_endpoint_at(const HostEntry& host, const ServiceRecord& service,
                                const IpAddress& address, const Visit& visit) const {
  const ClusterParts of = cluster_parts(host, service);
  const EndpointList* const list = of.all != nullptr && of.all->endpoints() != nullptr
                                       ? of.all->endpoints()
                                       : service.endpoints();
  if (service.provider == Provider::ServiceEntry || list == nullptr) return;
  // Anybody may write a slice with an address of the outside.
  const PodEntry* const pods = snapshot_.find_pod(address);
  const bool needs_pod =
      settings().claims == Claims::Strict && service.provider == Provider::Kubernetes &&
      client_.ns != service.ns && (pods == nullptr || !pods->has_pod) &&
      ruling_of(Claim::ReverseOfOutsideAddress, service.ns->text(), settings()) == Ruling::Refused;
  // A name that the client's cluster has, too, leads to the endpoint there.
  const auto is_others_name = [&](const EndpointEntry& endpoint) {
    return of.own != nullptr && of.all != nullptr &&
           has_endpoint(*of.own, EndpointList::label_of(endpoint, settings().endpoint_pod_names)) &&
           endpoint.cluster != of.own->endpoints()->entries.front().cluster;
  };
  const auto is_it = [&](const EndpointEntry& endpoint) {
    return endpoint.address == address && endpoint.ready && reaches(endpoint) &&
           (!needs_pod || !endpoint.pod_name.empty()) && !is_others_name(endpoint);
  };
  if (!list->index.is_made()) {
    for (const EndpointEntry& endpoint : list->entries)
      if (is_it(endpoint) && !visit(endpoint)) return;
    return;
  }
  const auto places = list->index.at(address);
  for (const EndpointIndex::At& at : places.first(std::min(places.size(), kMaxReverseHosts)))
    if (is_it(list->entries[at.entry]) && !visit(list->entries[at.entry])) return;
}

bool View::has_reverse(const IpAddress& address, ReverseLooks& looks) const {
  bool found = false;
  for_each_name(address, looks,
                [&](const HostEntry& host, const ServiceRecord& service, Naming naming) {
                  found = naming != Naming::Endpoints;
                  if (!found)
                    for_each_endpoint_at(host, service, address, [&](const EndpointEntry&) {
                      found = true;
                      return false;
                    });
                  return !found;
                });
  return found;
}

std::vector<View::Claimed> View::claims_of(const IpAddress& address) const {
  std::vector<Claimed> claims;
  const ReverseEntry* const entry = find_reverse(snapshot_, address);
  if (entry == nullptr) return claims;
  const auto look_at = [&](const HostEntry& host, const ServiceRecord& service) {
    if (!service.placeholder && has_address(service.addresses(nullptr, nullptr), address))
      claims.push_back({&host, &service, sees(host.host(), service)});
  };
  const auto uses = entry->uses(UseKind::Claim);
  for (const AddressUse& use : uses.first(std::min(uses.size(), kMaxReverseHosts)))
    for_each_host(snapshot_, use, [&](const HostEntry& host) {
      const auto records = host.records();
      for (const ServiceRecord* record :
           records.first(std::min(records.size(), kMaxReverseHosts))) {
        if (!is_by(use, *record->ns) || claims.size() >= kMaxReverseHosts) continue;
        if (const ServiceParts* const parts = record->parts())
          for (const auto& part : parts->all()) look_at(host, *part);
        else
          look_at(host, *record);
      }
    });
  return claims;
}

std::vector<View::ReverseName> View::reverse(const IpAddress& address) const {
  std::vector<ReverseName> vips;
  std::vector<ReverseName> endpoints;
  std::vector<ReverseName> claimed;  // by ServiceEntries
  const bool pod_names = settings().endpoint_pod_names;
  ReverseLooks looks;
  for_each_name(
      address, looks, [&](const HostEntry& host, const ServiceRecord& service, Naming naming) {
        if (naming == Naming::Endpoints)
          for_each_endpoint_at(host, service, address, [&](const EndpointEntry& endpoint) {
            endpoints.push_back(
                {EndpointList::label_of(endpoint, pod_names) + "." + std::string(host.host()),
                 &service});
            return endpoints.size() < kMaxReverseNames;
          });
        else
          (naming == Naming::Vip ? vips : claimed).push_back({std::string(host.host()), &service});
        return vips.size() + endpoints.size() + claimed.size() < kMaxReverseNames;
      });
  // A cluster IP hides endpoints that have the same address; a ServiceEntry hides no other name.
  auto& names = vips.empty() ? endpoints : vips;
  sort_each_once(names, &ReverseName::name);
  sort_each_once(claimed, &ReverseName::name);
  // The owner's names stay in front, so that no crowd of claims moves them out of a short reply.
  std::erase_if(claimed, [&](const ReverseName& claim) {
    return std::ranges::binary_search(names, claim.name, {}, &ReverseName::name);
  });
  names.insert(names.end(), claimed.begin(), claimed.end());
  return names;
}

}  // namespace meshdns::registry
