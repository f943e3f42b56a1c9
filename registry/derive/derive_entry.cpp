// SPDX-License-Identifier: Apache-2.0
// Records of ServiceEntries and of name tables.
#include <algorithm>
#include <iterator>
#include <limits>

#include "registry/base/counted.hpp"
#include "registry/derive/deriver.hpp"

namespace meshdns::registry {
namespace {

// Names without addresses, and what else is left out, of which explanations tell; there may be
// thousands for each of 256 hosts.
constexpr std::size_t kMaxNotes = 16;
// Addresses that the endpoint names of one service give it: as many as an entry may have endpoints.
// A namespace may have 4,096 names of 256 addresses each.
constexpr std::size_t kMaxResolvedAddresses = 4'096;
// Ports in the port lists of endpoints with ports of their own: 4,096 endpoints of four ports each,
// or 64 of 256.  Each such list costs as much as all ports of the entry.
constexpr std::size_t kMaxOwnPorts = 16'384;

}  // namespace

void Deriver::from_name_table(const Stored<NameTableEntry>& names) {
  const NameTableEntry& first = *names.front().first;
  record_->provider = Provider::NameTable;
  record_->ttl_class = first.kubernetes ? TtlClass::Kubernetes : TtlClass::Vip;
  record_->resolution = Resolution::Static;
  // The table has data of a ServiceEntry, so the same rules apply.
  if (!first.kubernetes && is_refused_claim()) return;
  AddressSetBuilder builder;
  for (const auto& [name, stored] : names)
    for (const auto& ip : name->ips) builder.add(ip);
  record_->answer = builder.empty() ? AnswerKind::Forward : AnswerKind::Vips;
  if (first.kubernetes && !first.short_name.empty()) details().short_name = first.short_name;
  set_addresses(builder.take());
}

void Deriver::from_service_entries(const Entries& entries) {
  const ServiceEntry& first = *entries.front().first;
  record_->provider = Provider::ServiceEntry;
  record_->creation_time = first.meta.creation_time;
  record_->resolution = first.resolution;
  record_->exports = exports_of(first.export_to, entry_visibility());
  set_ports(entry_ports(entries));
  if (is_refused_claim()) return;
  if (answer_vips(entries)) return;
  answer_entry_endpoints(entries);
}

std::optional<Claim> Deriver::refused_claim() const {
  const Claim claim = claim_of(host_, ns_->text(), settings_, tables_.claimants.owners());
  if (ruling_of(claim, ns_->text(), settings_) != Ruling::Refused) return std::nullopt;
  return claim;
}

bool Deriver::is_refused_claim() {
  record_->can_shadow = can_be_short_name(host_, settings_) || tables_.members.is_member(host_);
  const std::optional<Claim> claim = refused_claim();
  if (!claim) return false;
  record_->placeholder = true;
  record_->refused = true;
  details().notes.push_back("refused by mesh.claims: strict: " +
                            std::string(rule_of(*claim).reason));
  return true;
}

std::vector<ServicePort> Deriver::entry_ports(const Entries& entries) {
  std::vector<ServicePort> ports;
  for (const auto& [entry, stored] : entries)
    for (const auto& port : entry->ports)
      if (std::ranges::none_of(ports,
                               [&](const ServicePort& p) { return p.number == port.number; }))
        ports.push_back(port);
  return ports;
}

bool Deriver::may_have(const IpAddress& address) {
  if (settings_.auto_allocate != AutoAllocate::Persistent ||
      ruling_of(Claim::VipRange, ns_->text(), settings_) != Ruling::Refused ||
      (!settings_.vip_cidr_v4.contains(address) && !settings_.vip_cidr_v6.contains(address)))
    return true;
  note_left_out(address.to_string() + " ignored: " + std::string(rule_of(Claim::VipRange).reason));
  return false;
}

bool Deriver::keeps(const IpAddress& address, const StoredRef& entry) {
  if (tables_.status_addresses.has(address, entry, host_)) return true;
  // Not which: the client may not see it.
  note_left_out(address.to_string() + " ignored: an older entry has it");
  return false;
}

Deriver::MissingVips Deriver::add_status_addresses(const ServiceEntry& entry,
                                                   const DecodedResource& decoded,
                                                   AddressSetBuilder& addresses) {
  MissingVips kept;
  MissingVips lost;
  for (const std::uint32_t i : decoded.statuses_of(host_)) {
    const IpAddress& address = entry.status_addresses[i].value;
    const bool keeps_it = keeps(address, decoded.stored());
    if (keeps_it) addresses.add(address);
    MissingVips& families = keeps_it ? kept : lost;
    (address.is_v4() ? families.v4 : families.v6) = true;
  }
  if (!kept.v4 && !kept.v6) return {.v4 = true, .v6 = true};
  return {.v4 = lost.v4 && !kept.v4, .v6 = lost.v6 && !kept.v6};
}

bool Deriver::answer_vips(const Entries& entries) {
  AddressSetBuilder addresses;
  bool is_declared = false;
  MissingVips missing;
  for (const auto& [entry, decoded] : entries) {
    for (const auto& prefix : entry->addresses) {
      if (!prefix.is_single() || prefix.address.is_unspecified() || !may_have(prefix.address))
        continue;
      addresses.add(prefix.address);
      is_declared = true;
    }
    if (!has_status_vips(*entry)) continue;
    const MissingVips of_entry = add_status_addresses(*entry, *decoded, addresses);
    if (!wants_vip(*entry, host_)) continue;
    missing.v4 |= of_entry.v4;
    missing.v6 |= of_entry.v6;
  }
  if (missing.v4 || missing.v6)
    for (const auto& ip : tables_.vips.addresses_of({ns_, std::string(host_)}))
      if (ip.is_v4() ? missing.v4 : missing.v6) addresses.add(ip);
  if (addresses.empty()) return false;
  record_->answer = AnswerKind::Vips;
  record_->auto_allocated = !is_declared;
  add_entry_endpoints(entries, false);
  set_addresses(addresses.take());
  return true;
}

// Returns whether the entry's endpoints are answers.
bool Deriver::gives_endpoints(const ServiceEntry& entry) const {
  // NONE with a selector is answered with its workloads in Istio, too, when it has a port.
  if (entry.resolution == Resolution::None)
    return entry.workload_selector.has_value() && !entry.ports.empty();
  return entry.resolution != Resolution::DynamicDns && settings_.endpoint_answers;
}

void Deriver::answer_entry_endpoints(const Entries& entries) {
  Entries giving;
  std::ranges::copy_if(entries, std::back_inserter(giving),
                       [&](const auto& item) { return gives_endpoints(*item.first); });
  add_entry_endpoints(giving.empty() ? entries : giving, settings_.endpoint_answers);
  record_->ttl_class = TtlClass::Endpoint;
  if (giving.empty()) return;  // forwarded
  record_->resolution = giving.front().first->resolution;
  if (pending_ && !context_.was_answered) {
    record_->answer = AnswerKind::Pending;
    return;
  }
  answer_endpoints();
  if (record_->answer == AnswerKind::Endpoints) return;
  if (pending_)
    record_->answer = AnswerKind::Pending;
  else if (failed_)
    record_->answer = AnswerKind::Unresolvable;
  else if (resolved_without_addresses_)
    record_->answer = AnswerKind::NoAddress;
}

void Deriver::add_entry_endpoints(const Entries& entries, bool with_names) {
  with_names_ = with_names;
  set_distribution(entries.front().first->traffic_distribution);
  // Entries without names often have the endpoints of others: those of one selector, or of all
  // hosts of one entry.
  std::string key;
  if (entries.size() == 1 && EndpointLists::may_keep(*entries.front().first)) {
    key = EndpointLists::key_of(*entries.front().first, distribution_);
    details_.endpoints = context_.lists.kept(key);
    has_details_ |= !!details_.endpoints;
    if (details_.endpoints) return note_limits();
  }
  const std::size_t left_out = left_out_;
  auto list = std::make_unique<EndpointList>();
  CountedEntries counted;
  for (const auto& [entry, stored] : entries)
    if (counted.counts(*entry)) add_endpoints_of(*entry, *list);
  note_limits();
  if (list->entries.empty()) return;
  list->near = near_rule(*list);
  details().endpoints = context_.lists.complete(std::move(list), settings_.endpoint_pod_names);
  if (!key.empty() && left_out_ == left_out && own_ports_ <= kMaxOwnPorts)
    context_.lists.keep(std::move(key), details_.endpoints);
}

void Deriver::add_endpoints_of(const ServiceEntry& entry, EndpointList& list) {
  const std::size_t first = list.entries.size();
  own_subsets_.clear();
  subset_ = entry_subset_ = subset_of(entry, {}, list);
  const auto for_each_selected = [&](const Labels& selector, const auto& visit) {
    for (const DecodedRef& workload : tables_.selections.of(ns_, selector))
      visit(workload->resource());
  };
  for_each_endpoint(entry, host_, for_each_selected, [&](const EntryEndpoint& endpoint) {
    if (endpoint.pod != nullptr)
      add_pod(*endpoint.pod, list);
    else if (endpoint.spec != nullptr)
      add_spec(endpoint, entry, list);
    else  // looked up outside of the mesh, so in none of its networks, as in Istio
      add_name(host_, entry, 1, {.network = {}, .cluster = entry.meta.cluster, .is_inside = false},
               list);
    place_ = {};
  });
  for (std::size_t i = first; i < list.entries.size(); ++i)
    list.entries[i].resolved = has_endpoint_names(entry);
}

std::uint16_t Deriver::own_subset_of(const ServiceEntry& entry, const PortNumbers& own,
                                     EndpointList& list) {
  const auto [it, is_new] = own_subsets_.try_emplace(own, entry_subset_);
  if (!is_new) return it->second;
  own_ports_ += entry.ports.size();
  if (own_ports_ <= kMaxOwnPorts) it->second = subset_of(entry, own, list);
  return it->second;
}

void Deriver::note_left_out(std::string text) {
  if (++left_out_ <= kMaxNotes) details().notes.push_back(std::move(text));
}

void Deriver::note_limits() {
  if (left_out_ > kMaxNotes)
    details().notes.push_back(
        counted(left_out_ - kMaxNotes, "more address") +
        (left_out_ - kMaxNotes == 1 ? " or endpoint ignored" : " or endpoints ignored"));
  if (own_ports_ > kMaxOwnPorts)
    details().notes.push_back(
        "the endpoints have too many different ports: some have the ports of the entry");
  if (resolved_addresses_ > kMaxResolvedAddresses)
    details().notes.push_back(counted(resolved_addresses_ - kMaxResolvedAddresses, "address") +
                              " of endpoint names ignored: a service has at most " +
                              std::to_string(kMaxResolvedAddresses));
}

// The port of an endpoint: its own for the service port's name, else the target port, else the
// service port.
std::vector<ServicePort> Deriver::ports_at(std::vector<ServicePort> ports, const PortNumbers& own) {
  for (ServicePort& port : ports) {
    const auto named = std::ranges::find(own, port.name, &PortNumbers::value_type::first);
    if (named != own.end())
      port.number = named->second;
    else if (port.target_port != 0)
      port.number = port.target_port;
    port.target_port = 0;
  }
  return ports;
}

std::uint16_t Deriver::subset_of(const ServiceEntry& entry, const PortNumbers& own,
                                 EndpointList& list) {
  const Ref<const PortList> interned = tables_.ports.intern(ports_at(entry.ports, own));
  const auto [it, is_new] =
      subsets_.try_emplace(interned.get(), static_cast<std::uint16_t>(list.ports.size()));
  // More lists than an index counts: the rest has the ports of the first.
  if (is_new && list.ports.size() > std::numeric_limits<std::uint16_t>::max())
    it->second = 0;
  else if (is_new)
    list.ports.push_back(interned);
  return it->second;
}

void Deriver::add_pod(const Pod& pod, EndpointList& list) {
  for (const auto& ip : pod.ips) {
    EndpointEntry& added =
        add_address(ip, {.network = pod.meta.network, .cluster = pod.meta.cluster}, list);
    added.ready = pod.ready;
    added.pod_name = pod.meta.name;
    added.node_name = pod.node_name;
    added.subset = entry_subset_;
    added.place = place_of_pod(pod);
  }
}

void Deriver::add_spec(const EntryEndpoint& endpoint, const ServiceEntry& entry,
                       EndpointList& list) {
  const WorkloadSpec& spec = *endpoint.spec;
  std::string why;
  const std::optional<Reached> how = reached(spec, entry, &why);
  if (how == Reached::BySocket) why = "endpoint " + spec.address + " ignored: it is a Unix socket";
  if (!why.empty()) return note_left_out(std::move(why));
  const std::uint32_t weight = spec.weight == 0 ? 1 : spec.weight;
  subset_ = spec.ports.empty() ? entry_subset_ : own_subset_of(entry, spec.ports, list);
  place_ = place_of_spec(spec);
  // A selected workload may come from another source than the entry.
  const ObjectMeta& meta = endpoint.workload == nullptr ? entry.meta : *endpoint.workload;
  const NetworkScope scope{.network = spec.network.empty() ? meta.network : spec.network,
                           .cluster = meta.cluster};
  if (how == Reached::ByName) return add_name(spec.address, entry, weight, scope, list);
  EndpointEntry& added = add_address(*IpAddress::parse(spec.address), scope, list);
  added.weight = weight;
  added.ready = endpoint.healthy;
}

EndpointEntry& Deriver::add_address(const IpAddress& ip, const NetworkScope& scope,
                                    EndpointList& list) {
  EndpointEntry& added = list.entries.emplace_back();
  added.address = ip;
  added.network = network_at(scope, ip);
  added.cluster = symbol_or_null(scope.cluster);
  added.subset = subset_;
  added.place = place_;
  return added;
}

void Deriver::note_resolved(const ResolvedName& name) {
  if (name.links > details_.name_links) details().name_links = name.links;
  if (!name.reason.empty() && details_.notes.size() < kMaxNotes)
    details().notes.push_back("endpoint " + name.host + ": " + name.reason);
}

void Deriver::add_name(std::string_view name, const ServiceEntry& entry, std::uint32_t weight,
                       const NetworkScope& scope, EndpointList& list) {
  if (!with_names_) return;
  if (seen_names_.emplace(name).second) details().resolved_names.emplace_back(name);
  details().has_ordered_names |= entry.resolution == Resolution::DnsRoundRobin;
  const ResolvedName* resolved = tables_.endpoint_names.find(ns_->text(), name);
  if (resolved != nullptr) note_resolved(*resolved);
  if (resolved == nullptr || resolved->state == ResolvedName::State::Pending) {
    pending_ = true;
    return;
  }
  failed_ |= resolved->state == ResolvedName::State::Failed;
  resolved_without_addresses_ |= resolved->state == ResolvedName::State::NoAddresses;
  // Round robin takes the first address of the latest answer; of each family, since a client asks
  // for one.
  bool has_v4 = false;
  bool has_v6 = false;
  for (const auto& address : resolved->addresses) {
    bool& has = address.is_v4() ? has_v4 : has_v6;
    if (has && entry.resolution == Resolution::DnsRoundRobin) continue;
    has = true;
    if (++resolved_addresses_ > kMaxResolvedAddresses) continue;
    add_address(address, scope, list).weight = weight;
  }
}

}  // namespace meshdns::registry
