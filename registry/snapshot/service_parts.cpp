// SPDX-License-Identifier: Apache-2.0
#include "registry/snapshot/service_parts.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "registry/base/each_once.hpp"
#include "registry/snapshot/endpoint_addresses.hpp"
#include "registry/snapshot/service_record.hpp"

namespace meshdns::registry {
namespace {

using Parts = std::span<const Ref<const ServiceRecord>>;

// The kept services of one host may take so many times the memory of its parts, or this many
// addresses and endpoints.
constexpr std::size_t kShare = 16;
constexpr std::size_t kAlways = 4096;

std::size_t size_of(const ServiceRecord& record) {
  const AddressView addresses = record.addresses(nullptr, nullptr);
  const EndpointList* const endpoints = record.endpoints();
  std::size_t by_network = 0;
  if (record.details)
    for (const ScopedAddresses& scope : record.details->by_network)
      by_network += scope.addresses.v4.size() + scope.addresses.v6.size();
  return 1 + addresses.v4.size() + addresses.v6.size() + by_network +
         (endpoints == nullptr ? 0 : endpoints->entries.size());
}

Ref<const ExportSet> merge_exports(Parts parts) {
  auto* set = new ExportSet;
  Ref<const ExportSet> result(set);
  for (const auto& part : parts) {
    if (part->is_public()) return {};
    set->namespaces.insert(set->namespaces.end(), part->exports->namespaces.begin(),
                           part->exports->namespaces.end());
  }
  sort_each_once(set->namespaces, &SymbolRef::get);
  return result;
}

// The first port of each number, as in Istio.
Ref<const PortList> merge_ports(Parts parts) {
  std::vector<ServicePort> ports;
  std::bitset<65536> numbers;
  for (const auto& part : parts)
    if (part->ports)
      for (const ServicePort& port : part->ports->ports)
        if (!numbers.test(port.number)) {
          numbers.set(port.number);
          ports.push_back(port);
        }
  return ports.empty() ? Ref<const PortList>()
                       : Ref<const PortList>(new PortList(std::move(ports)));
}

class Merger {
 public:
  Merger(Parts parts, bool pod_names, const NetworkGateways* gateways)
      : parts_(parts), pod_names_(pod_names), gateways_(gateways) {}

  Ref<ServiceRecord> run() {
    const ServiceRecord& first = *parts_.front();
    record_->ns = first.ns;
    record_->provider = first.provider;
    record_->creation_time = first.creation_time;
    record_->source = first.source;
    record_->can_shadow = first.can_shadow;
    record_->partial = true;
    record_->exports = merge_exports(parts_);
    record_->ports = merge_ports(parts_);
    for (const auto& part : parts_) add_details(*part);
    if (first.provider == Provider::ServiceEntry)
      answer();
    else
      answer_as(first);
    record_->details = std::make_unique<const ServiceRecord::Details>(std::move(details_));
    return std::move(record_);
  }

 private:
  // A Kubernetes Service replaces the entries.
  void answer_as(const ServiceRecord& service) {
    record_->answer = service.answer;
    record_->ttl_class = service.ttl_class;
    record_->resolution = service.resolution;
    record_->headless = service.headless;
    record_->has_single_v4 = service.has_single_v4;
    record_->single_v4 = service.single_v4;
    details_.by_cluster = service.addresses_by_cluster();
    if (const ClusterIps* const ips = service.details.cluster_ips())
      details_.addresses.v4 = ips->v4;
    if (!service.details) return;
    details_.addresses = service.details->addresses;
    details_.by_network = service.details->by_network;
    details_.endpoints = service.details->endpoints;
    details_.alias = service.details->alias;
    details_.short_name = service.details->short_name;
  }

  void add_details(const ServiceRecord& part) {
    if (&part != parts_.front().get() && part.source) details_.more_sources.push_back(part.source);
    const auto append = [](auto& to, const auto& from) {
      to.insert(to.end(), from.begin(), from.end());
    };
    append(details_.more_sources, part.more_sources());
    if (!part.details) return;
    append(details_.resolved_names, part.details->resolved_names);
    append(details_.notes, part.details->notes);
    details_.name_links = std::max(details_.name_links, part.details->name_links);
    details_.has_ordered_names |= part.details->has_ordered_names;
  }

  // An entry that would only be forwarded takes nothing away from one with an answer.
  void answer() {
    const AnswerKind kinds[] = {AnswerKind::Vips, AnswerKind::Endpoints, AnswerKind::Pending,
                                AnswerKind::Unresolvable, AnswerKind::NoAddress};
    const auto with = [&](AnswerKind kind) {
      return std::ranges::find(parts_, kind, [](const auto& part) { return part->answer; });
    };
    const auto* const kind =
        std::ranges::find_if(kinds, [&](AnswerKind each) { return with(each) != parts_.end(); });
    const ServiceRecord& part = kind == std::end(kinds) ? *parts_.front() : **with(*kind);
    record_->answer = part.answer;
    record_->resolution = part.resolution;
    record_->ttl_class = part.ttl_class;
    unite_names();
    if (part.answer == AnswerKind::Vips) return answer_vips();
    merge_endpoints(part.answer == AnswerKind::Endpoints);
  }

  void unite_names() { sort_each_once(details_.resolved_names); }

  void answer_vips() {
    AddressSetBuilder builder;
    record_->auto_allocated = true;
    for (const auto& part : parts_) {
      if (part->answer != AnswerKind::Vips) continue;
      record_->auto_allocated &= part->auto_allocated;
      const AddressView addresses = part->addresses(nullptr, nullptr);
      for (const auto& octets : addresses.v4) builder.add(IpAddress::v4(octets));
      for (const auto& octets : addresses.v6) builder.add(IpAddress::v6(octets));
    }
    details_.addresses = builder.take();
    merge_endpoints(false);
  }

  // `are_answers`: only those of parts that are answered with endpoints.
  void merge_endpoints(bool are_answers) {
    auto list = std::make_unique<EndpointList>();
    bool has_round_robin = false;
    for (const auto& part : parts_) {
      const EndpointList* const own = part->endpoints();
      if (own == nullptr || (are_answers && part->answer != AnswerKind::Endpoints)) continue;
      // Only the oldest entry's endpoint counts, as in Istio.
      if (part->resolution == Resolution::DnsRoundRobin && std::exchange(has_round_robin, true))
        continue;
      if (!list->near.is_active()) list->near = own->near;
      const auto subsets = static_cast<std::uint16_t>(list->ports.size());
      list->ports.insert(list->ports.end(), own->ports.begin(), own->ports.end());
      for (EndpointEntry entry : own->entries) {
        entry.subset = static_cast<std::uint16_t>(entry.subset + subsets);
        list->entries.push_back(std::move(entry));
      }
    }
    if (list->entries.empty()) return;
    list->index = EndpointIndex::of_large(list->entries, pod_names_);
    if (are_answers) {
      EndpointAddresses addresses = addresses_of(*list, gateways_);
      details_.addresses = std::move(addresses.all);
      details_.by_network = std::move(addresses.by_network);
    }
    details_.endpoints = Ref<const EndpointList>(list.release());
  }

  const Parts parts_;
  const bool pod_names_;
  const NetworkGateways* const gateways_;
  Ref<ServiceRecord> record_{new ServiceRecord};
  ServiceRecord::Details details_;
};

}  // namespace

Ref<ServiceRecord> merge_services(std::span<const Ref<const ServiceRecord>> parts, bool pod_names,
                                  const NetworkGateways* gateways) {
  assert(!parts.empty());
  return Merger(parts, pod_names, gateways).run();
}

ServiceParts::ServiceParts(std::vector<Ref<const ServiceRecord>> parts, bool pod_names,
                           Ref<const NetworkGateways> gateways, std::vector<SymbolRef> clusters)
    : parts_(std::move(parts)),
      pod_names_(pod_names),
      gateways_(std::move(gateways)),
      clusters_(std::move(clusters)) {
  std::size_t size = 0;
  for (const auto& part : parts_) size += size_of(*part);
  room_ = std::max(kAlways, kShare * size);
  find_first_parts();
  if (are_many()) sort_by_port();
}

void ServiceParts::find_first_parts() {
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const ServiceRecord& part = *parts_[i];
    if (part.provider != Provider::ServiceEntry || part.placeholder) continue;
    if (part.is_public()) {
      first_public_ = std::min(first_public_, i);
      public_.set(i);
      continue;
    }
    for (const SymbolRef& ns : part.exports->namespaces) exported_.push_back({ns.get(), i});
  }
  std::ranges::stable_sort(exported_, {}, &Exported::ns);
}

void ServiceParts::sort_by_port() {
  for (const auto& part : parts_)
    if (part->ports)
      ports_.insert(ports_.end(), part->ports->numbers.begin(), part->ports->numbers.end());
  sort_each_once(ports_);
  ports_.shrink_to_fit();
  with_port_.resize(ports_.size());
  for (std::size_t i = 0; i < parts_.size(); ++i)
    if (parts_[i]->ports)
      for (const std::uint16_t port : parts_[i]->ports->numbers)
        with_port_[static_cast<std::size_t>(std::ranges::lower_bound(ports_, port) -
                                            ports_.begin())]
            .set(i);
}

std::size_t ServiceParts::first_exported_to(const Symbol* client_ns) const {
  const auto found = std::ranges::lower_bound(exported_, client_ns, {}, &Exported::ns);
  return found != exported_.end() && found->ns == client_ns ? found->part : kNone;
}

ServiceParts::Set ServiceParts::all_exported_to(const Symbol* client_ns) const {
  Set parts;
  for (const Exported& each : std::ranges::equal_range(exported_, client_ns, {}, &Exported::ns))
    parts.set(each.part);
  return parts;
}

const ServiceParts::Set* ServiceParts::all_with_port(std::uint16_t port) const {
  const auto found = std::ranges::lower_bound(ports_, port);
  if (found == ports_.end() || *found != port) return nullptr;
  return &with_port_[static_cast<std::size_t>(found - ports_.begin())];
}

ServiceParts::~ServiceParts() {
  for (const auto& list : lists_) {
    const Kept* kept = list.load(std::memory_order_relaxed);
    while (kept != nullptr) delete std::exchange(kept, kept->next);
  }
}

const ServiceRecord& ServiceParts::merged(const Set& visible) const {
  const std::size_t first = visible._Find_first();
  if (parts_[first]->provider != Provider::ServiceEntry ||
      visible._Find_next(first) == visible.size())
    return *parts_[first];
  const std::size_t list = std::hash<Set>()(visible) % kLists;
  if (const Kept* kept = find(list, visible)) return *kept->record;
  return keep(list, visible);
}

const ServiceParts::Kept* ServiceParts::find(std::size_t list, const Set& visible) const {
  const Kept* kept = lists_[list].load(std::memory_order_acquire);
  while (kept != nullptr && kept->visible != visible) kept = kept->next;
  return kept;
}

const ServiceRecord& ServiceParts::keep(std::size_t list, const Set& visible) const {
  std::size_t size = 0;
  for (std::size_t i = visible._Find_first(); i < visible.size(); i = visible._Find_next(i))
    size += size_of(*parts_[i]);
  const std::scoped_lock lock(mutex_);
  if (const Kept* kept = find(list, visible)) return *kept->record;
  if (size > room_) return first_with_answer(visible);
  room_ -= size;
  std::vector<Ref<const ServiceRecord>> parts;
  for (std::size_t i = visible._Find_first(); i < visible.size(); i = visible._Find_next(i))
    parts.push_back(parts_[i]);
  const auto* kept = new Kept{visible, merge_services(parts, pod_names_, gateways_.get()),
                              lists_[list].load(std::memory_order_relaxed)};
  lists_[list].store(kept, std::memory_order_release);
  return *kept->record;
}

const ServiceRecord& ServiceParts::first_with_answer(const Set& visible) const {
  for (std::size_t i = visible._Find_first(); i < visible.size(); i = visible._Find_next(i))
    if (parts_[i]->answer == AnswerKind::Vips || parts_[i]->answer == AnswerKind::Endpoints)
      return *parts_[i];
  return *parts_[visible._Find_first()];
}

bool ServiceParts::has(const ServiceRecord& record) const {
  if (std::ranges::find(parts_, &record, &Ref<const ServiceRecord>::get) != parts_.end())
    return true;
  return std::ranges::any_of(lists_, [&](const auto& list) {
    const Kept* kept = list.load(std::memory_order_acquire);
    while (kept != nullptr && kept->record.get() != &record) kept = kept->next;
    return kept != nullptr;
  });
}

}  // namespace meshdns::registry
