#include "registry/derive/derive.hpp"

#include <algorithm>
#include <cassert>
#include <functional>
#include <tuple>

#include "registry/base/host_name.hpp"
#include "registry/derive/address_set_builder.hpp"

namespace meshdns::registry {
namespace {

using Details = ServiceRecord::Details;

// The decoded sources of one record, oldest first within each kind.
struct Sources {
  struct Item {
    StoredRef stored;
    Resource resource;
  };
  std::vector<Item> items;

  template <typename T>
  std::vector<std::pair<const T*, StoredRef>> all() const {
    std::vector<std::pair<const T*, StoredRef>> found;
    for (const auto& item : items)
      if (const T* value = std::get_if<T>(&item.resource)) found.emplace_back(value, item.stored);
    return found;
  }
};

Sources decode_sources(std::span<const StoredRef> stored) {
  Sources sources;
  sources.items.reserve(stored.size());
  for (const auto& s : stored) sources.items.push_back({s, s->decode()});
  std::ranges::sort(sources.items, [](const auto& a, const auto& b) {
    const ObjectMeta& x = meta_of(a.resource);
    const ObjectMeta& y = meta_of(b.resource);
    if (is_older(x, y)) return true;
    if (is_older(y, x)) return false;
    return kind_of(a.resource) < kind_of(b.resource);
  });
  return sources;
}

// Builds one record; a member function per kind of provider.
class Deriver {
 public:
  Deriver(const SymbolRef& ns, std::string_view host, const DeriveContext& context)
      : ns_(ns), host_(host), context_(context), settings_(*context.settings) {
    record_->ns = ns;
  }

  Ref<const ServiceRecord> run(std::span<const StoredRef> stored) {
    const Sources sources = decode_sources(stored);
    const auto services = sources.all<KubeService>();
    const auto entries = sources.all<ServiceEntry>();
    if (const auto imports = sources.all<ServiceImport>(); !imports.empty()) {
      from_imports(imports);
    } else if (const auto exports = sources.all<ServiceExport>(); !exports.empty()) {
      from_exports(exports);
    } else if (!services.empty()) {
      from_services(services, entries, sources.all<EndpointSlice>());
    } else if (const auto names = sources.all<NameTableEntry>(); !names.empty()) {
      from_name_table(names);
    } else if (!entries.empty()) {
      from_service_entries(entries);
    } else {
      record_->placeholder = true;
    }
    keep_sources(sources);
    return finish();
  }

 private:
  void keep_sources(const Sources& sources) {
    // The one that names the record comes first: a Service before the entries that decorate it, all
    // before endpoint objects.
    std::vector<StoredRef> order;
    for (const auto& item : sources.items) order.push_back(item.stored);
    const auto rank = [](const StoredRef& s) {
      switch (s->kind()) {
        case Kind::ServiceImport:
          return 0;
        case Kind::Service:
        case Kind::ServiceExport:
          return 1;
        case Kind::NameTableEntry:
          return 2;
        case Kind::ServiceEntry:
          return 3;
        default:
          return 4;
      }
    };
    std::ranges::stable_sort(order, {}, rank);
    record_->source = order.front();
    details_.more_sources.assign(order.begin() + 1, order.end());
    has_details_ |= order.size() > 1;
  }

  Ref<const ServiceRecord> finish() {
    if (has_details_) record_->details = std::make_unique<const Details>(std::move(details_));
    return Ref<const ServiceRecord>(record_.release());
  }

  Details& details() {
    has_details_ = true;
    return details_;
  }

  void set_addresses(AddressSet set) {
    if (set.v4.size() == 1 && set.v6.empty() && details_.by_network.empty() &&
        details_.by_cluster.empty()) {
      record_->has_single_v4 = true;
      record_->single_v4 = set.v4.front();
    } else if (!set.empty()) {
      details().addresses = std::move(set);
    }
  }

  void set_ports(const std::vector<ServicePort>& ports) {
    if (ports.empty()) return;
    record_->ports = context_.ports->intern(ports);
  }

  void set_exports(const ExportTo& declared, Visibility narrowed) {
    const ExportTo& effective = declared.empty() ? settings_.default_export_to : declared;
    const auto has = [&](std::string_view word) {
      return std::ranges::find(effective, word) != effective.end();
    };
    const std::string_view own = ns_->text();
    const bool nobody = has("~") || narrowed == Visibility::None;
    if (has("*") && narrowed == Visibility::Public) return;  // "*" anywhere: the rest is ignored
    auto* set = new ExportSet;
    record_->exports = Ref<const ExportSet>(set);
    if (has("*")) {
      // Narrowed: "*" has become the own namespace, or nobody.
      if (narrowed == Visibility::Namespace) set->namespaces.push_back(ns_);
      return;
    }
    if (nobody) return;
    for (const auto& word : effective) {
      const std::string_view name = word == "." ? own : std::string_view(word);
      if (narrowed == Visibility::Namespace && name != own) continue;
      set->namespaces.push_back(context_.symbols->intern(name));
    }
    std::ranges::sort(set->namespaces, {}, [](const SymbolRef& s) { return s.get(); });
    const auto duplicates = std::ranges::unique(set->namespaces);
    set->namespaces.erase(duplicates.begin(), duplicates.end());
  }

  // MeshConfig.serviceEntryVisibility for this namespace.
  Visibility entry_visibility() const {
    const auto& policy_list = settings_.service_entry_visibility;
    if (policy_list.policies.empty() && policy_list.default_visibility == Visibility::Public)
      return Visibility::Public;
    const Labels* labels = context_.namespace_labels(ns_->text());
    static const Labels kNone;
    for (const auto& policy : policy_list.policies)
      if (std::ranges::all_of(policy.namespace_selectors, [&](const LabelSelector& selector) {
            return selects(selector, labels == nullptr ? kNone : *labels);
          }))
        return policy.visibility;
    return policy_list.default_visibility;
  }

  // --- Kubernetes Services -----------------------------------------------------------------------

  void from_services(const std::vector<std::pair<const KubeService*, StoredRef>>& services,
                     const std::vector<std::pair<const ServiceEntry*, StoredRef>>& decorators,
                     const std::vector<std::pair<const EndpointSlice*, StoredRef>>& slices) {
    const KubeService& first = *services.front().first;
    record_->provider = Provider::Kubernetes;
    record_->ttl_class = TtlClass::Kubernetes;
    record_->creation_time = first.meta.creation_time;
    set_exports(first.export_to, Visibility::Public);
    set_ports(merged_ports(services));
    if (!decorators.empty())
      details().notes.push_back("decorated by " + decorators.front().second->label());
    add_slices(slices, first.meta.cluster);
    if (first.type == ServiceType::ExternalName) return set_alias(first);
    record_->headless =
        std::ranges::all_of(services, [](const auto& s) { return s.first->headless; });
    if (record_->headless) return answer_endpoints_of_headless();
    answer_cluster_ips(services);
  }

  static std::vector<ServicePort> merged_ports(
      const std::vector<std::pair<const KubeService*, StoredRef>>& services) {
    std::vector<ServicePort> ports;
    for (const auto& [service, stored] : services)
      for (const auto& port : service->ports)
        if (std::ranges::none_of(ports, [&](const ServicePort& p) {
              return p.number == port.number && p.protocol == port.protocol && p.name == port.name;
            }))
          ports.push_back(port);
    return ports;
  }

  void set_alias(const KubeService& service) {
    if (service.external_name.empty() || IpAddress::parse(service.external_name)) {
      // CoreDNS skips such a Service; `check` warns.
      record_->placeholder = true;
      return;
    }
    record_->answer = AnswerKind::Alias;
    details().alias = service.external_name;
  }

  void answer_cluster_ips(const std::vector<std::pair<const KubeService*, StoredRef>>& services) {
    AddressSetBuilder all;
    const std::string_view first_cluster = services.front().first->meta.cluster;
    const bool several_clusters = std::ranges::any_of(
        services, [&](const auto& s) { return s.first->meta.cluster != first_cluster; });
    for (const auto& [service, stored] : services) {
      AddressSetBuilder own;
      for (const auto& ip : service->cluster_ips) {
        all.add(ip);
        own.add(ip);
      }
      if (several_clusters && !own.empty())
        details().by_cluster.push_back(
            {nullptr, context_.symbols->intern(service->meta.cluster), own.take()});
    }
    record_->answer = all.empty() ? AnswerKind::NoAddress : AnswerKind::Vips;
    if (settings_.ignore_empty_service && !has_ready_endpoint())
      record_->answer = AnswerKind::NoReadyEndpoints;
    set_addresses(all.take());
  }

  bool has_ready_endpoint() const {
    return details_.endpoints &&
           std::ranges::any_of(details_.endpoints->entries,
                               [](const EndpointEntry& e) { return e.ready; });
  }

  void answer_endpoints_of_headless() {
    answer_endpoints();
    if (record_->answer != AnswerKind::Endpoints) record_->answer = AnswerKind::NoReadyEndpoints;
  }

  // EndpointSlices win over the Endpoints object of the same Service and cluster, which mirrors
  // them.
  void add_slices(const std::vector<std::pair<const EndpointSlice*, StoredRef>>& slices,
                  std::string_view) {
    if (slices.empty()) return;
    auto* list = new EndpointList;
    details().endpoints = Ref<const EndpointList>(list);
    for (const auto& [slice, stored] : slices) {
      const bool mirrored =
          slice->kind == Kind::Endpoints && std::ranges::any_of(slices, [&](const auto& other) {
            return other.first->kind == Kind::EndpointSlice &&
                   other.first->meta.cluster == slice->meta.cluster;
          });
      if (!mirrored) add_slice(*slice, *list);
    }
  }

  void add_slice(const EndpointSlice& slice, EndpointList& list) {
    const SymbolRef network = symbol_or_null(slice.meta.network);
    const SymbolRef cluster = symbol_or_null(slice.meta.cluster);
    for (const auto& subset : slice.subsets) {
      const auto index = static_cast<std::uint16_t>(list.ports.size());
      list.ports.push_back(context_.ports->intern(subset.ports));
      for (const auto& endpoint : subset.endpoints)
        for (const auto& address : endpoint.addresses) {
          if (address.is_unspecified()) continue;
          EndpointEntry entry;
          entry.address = address;
          entry.ready = endpoint.ready;
          entry.network = network;
          entry.cluster = cluster;
          entry.hostname = to_lower(endpoint.hostname);
          entry.pod_name = endpoint.target_name;
          entry.node_name = endpoint.node_name;
          entry.subset = index;
          list.entries.push_back(std::move(entry));
        }
    }
  }

  SymbolRef symbol_or_null(std::string_view text) const {
    return text.empty() ? SymbolRef() : context_.symbols->intern(text);
  }

  // The ready endpoints' addresses, for everybody and per network.
  void answer_endpoints() {
    if (!details_.endpoints) return;
    AddressSetBuilder all;
    std::vector<std::pair<SymbolRef, AddressSetBuilder>> by_network;
    bool any_network = false;
    for (const auto& entry : details_.endpoints->entries) {
      if (!entry.ready) continue;
      all.add(entry.address, entry.weight);
      any_network |= static_cast<bool>(entry.network);
    }
    if (any_network) {
      for (const auto& entry : details_.endpoints->entries)
        if (entry.ready && entry.network)
          builder_for(by_network, entry.network).add(entry.address, entry.weight);
      for (const auto& entry : details_.endpoints->entries) {
        // An endpoint without a network is reachable from every one.
        if (!entry.ready || entry.network) continue;
        for (auto& [network, builder] : by_network) builder.add(entry.address, entry.weight);
      }
      AddressSetBuilder unnamed;
      for (const auto& entry : details_.endpoints->entries)
        if (entry.ready && !entry.network) unnamed.add(entry.address, entry.weight);
      for (auto& [network, builder] : by_network)
        details().by_network.push_back({network, nullptr, builder.take()});
      // Clients of a network without endpoints of its own.
      details().by_network.push_back({nullptr, nullptr, unnamed.take()});
    }
    if (!all.empty()) record_->answer = AnswerKind::Endpoints;
    set_addresses(all.take());
  }

  static AddressSetBuilder& builder_for(std::vector<std::pair<SymbolRef, AddressSetBuilder>>& list,
                                        const SymbolRef& network) {
    for (auto& [symbol, builder] : list)
      if (symbol == network) return builder;
    return list.emplace_back(network, AddressSetBuilder()).second;
  }

  // --- ServiceImports (clusterset.local)
  // -----------------------------------------------------------

  void from_imports(const std::vector<std::pair<const ServiceImport*, StoredRef>>& imports) {
    const ServiceImport& first = *imports.front().first;
    record_->provider = Provider::MultiCluster;
    record_->ttl_class = TtlClass::Kubernetes;
    record_->creation_time = first.meta.creation_time;
    record_->headless = first.headless;
    set_exports({}, Visibility::Public);
    set_ports(first.ports);
    if (first.headless) {
      const Sources service = sources_of_service(first.meta);
      add_slices(service.all<EndpointSlice>(), {});
      return answer_endpoints_of_headless();
    }
    AddressSetBuilder builder;
    for (const auto& [import, stored] : imports)
      for (const auto& ip : import->ips) builder.add(ip);
    record_->answer = builder.empty() ? AnswerKind::NoAddress : AnswerKind::Vips;
    set_addresses(builder.take());
  }

  // Without a controller that makes imports of them, exports speak for themselves: the name has
  // what the exporting clusters' Services have.
  void from_exports(const std::vector<std::pair<const ServiceExport*, StoredRef>>& exports) {
    const auto is_exported = [&](const auto& item) {
      return std::ranges::any_of(exports, [&](const auto& exporting) {
        return exporting.first->meta.cluster == item.first->meta.cluster;
      });
    };
    const Sources sources = sources_of_service(exports.front().first->meta);
    auto services = sources.all<KubeService>();
    auto slices = sources.all<EndpointSlice>();
    std::erase_if(services, std::not_fn(is_exported));
    std::erase_if(slices, std::not_fn(is_exported));
    // The specification does not let an ExternalName be exported.
    std::erase_if(services,
                  [](const auto& s) { return s.first->type == ServiceType::ExternalName; });
    if (services.empty()) {
      record_->placeholder = true;
      return;
    }
    from_services(services, {}, slices);
    record_->provider = Provider::MultiCluster;
  }

  // What the cluster domain's Service of that name is made of.
  Sources sources_of_service(const ObjectMeta& meta) const {
    std::vector<StoredRef> stored;
    context_.for_each_source(service_host(meta.name, meta.ns, settings_.cluster_domain), meta.ns,
                             [&](const StoredRef& s) { stored.push_back(s); });
    return decode_sources(stored);
  }

  // --- NameTable ---------------------------------------------------------------------------------

  void from_name_table(const std::vector<std::pair<const NameTableEntry*, StoredRef>>& names) {
    const NameTableEntry& first = *names.front().first;
    record_->provider = Provider::NameTable;
    record_->ttl_class = first.kubernetes ? TtlClass::Kubernetes : TtlClass::Vip;
    record_->resolution = Resolution::Static;
    AddressSetBuilder builder;
    for (const auto& [name, stored] : names)
      for (const auto& ip : name->ips) builder.add(ip);
    record_->answer = builder.empty() ? AnswerKind::Forward : AnswerKind::Vips;
    if (first.kubernetes && !first.short_name.empty()) details().short_name = first.short_name;
    set_addresses(builder.take());
  }

  // --- ServiceEntries
  // ------------------------------------------------------------------------------

  using Entries = std::vector<std::pair<const ServiceEntry*, StoredRef>>;

  void from_service_entries(const Entries& entries) {
    const ServiceEntry& first = *entries.front().first;
    record_->provider = Provider::ServiceEntry;
    record_->creation_time = first.meta.creation_time;
    record_->resolution = first.resolution;
    set_exports(first.export_to, entry_visibility());
    set_ports(entry_ports(entries));
    if (settings_.claims == Claims::Strict && is_forbidden_claim()) {
      record_->placeholder = true;
      details().notes.push_back("refused: with claims: strict a namespace other than " +
                                settings_.root_namespace + " may not claim this host");
      return;
    }
    if (answer_vips(entries)) return;
    answer_entry_endpoints(entries);
  }

  // reliability.md, R21.
  bool is_forbidden_claim() const {
    if (ns_->text() == settings_.root_namespace) return false;
    const std::string_view claimed = host_.starts_with("*.") ? host_.substr(2) : host_;
    if (count_labels(claimed) < 2) return true;
    for (const std::string_view zone :
         {std::string_view(settings_.cluster_domain), kClusterSetDomain,
          std::string_view("localhost"), std::string_view("in-addr.arpa"),
          std::string_view("ip6.arpa")})
      if (is_at_or_below(claimed, zone)) return true;
    return false;
  }

  static std::vector<ServicePort> entry_ports(const Entries& entries) {
    std::vector<ServicePort> ports;
    for (const auto& [entry, stored] : entries)
      for (const auto& port : entry->ports)
        if (std::ranges::none_of(ports,
                                 [&](const ServicePort& p) { return p.number == port.number; }))
          ports.push_back(port);
    return ports;
  }

  bool answer_vips(const Entries& entries) {
    AddressSetBuilder declared;
    for (const auto& [entry, stored] : entries)
      for (const auto& prefix : entry->addresses)
        if (prefix.is_single() && !prefix.address.is_unspecified()) declared.add(prefix.address);
    bool allocated = false;
    if (declared.empty()) {
      allocated = true;
      for (const auto& [entry, stored] : entries)
        if (wants_vip(*entry, host_))
          for (const auto& status : entry->status_addresses)
            if (status.host.empty() || status.host == host_) declared.add(status.value);
      if (declared.empty())
        for (const auto& ip : context_.vips(ns_->text(), host_)) declared.add(ip);
    }
    if (declared.empty()) return false;
    record_->answer = AnswerKind::Vips;
    record_->auto_allocated = allocated;
    add_entry_endpoints(entries, false);
    set_addresses(declared.take());
    return true;
  }

  void answer_entry_endpoints(const Entries& entries) {
    // NONE with a selector is answered with its workloads in Istio, too, when it has a port.
    const ServiceEntry& first = *entries.front().first;
    const bool as_headless =
        first.resolution == Resolution::None && first.workload_selector.has_value();
    add_entry_endpoints(entries, settings_.endpoint_answers);
    record_->ttl_class = TtlClass::Endpoint;
    if (first.resolution == Resolution::None && !as_headless) return;  // forwarded
    if (first.resolution == Resolution::DynamicDns) return;
    if (!as_headless && !settings_.endpoint_answers) return;
    if (as_headless && first.ports.empty()) return;
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

  // `with_names`: also the endpoints that are names, which the resolver engine then keeps resolved.
  void add_entry_endpoints(const Entries& entries, bool with_names) {
    with_names_ = with_names;
    auto list = std::make_unique<EndpointList>();
    bool has_round_robin = false;
    for (const auto& [entry, stored] : entries) {
      if (entry->resolution == Resolution::DnsRoundRobin) {
        // Only the first entry's endpoint counts (istio-semantics.md, section 7.1).
        if (has_round_robin) continue;
        has_round_robin = true;
      }
      add_endpoints_of(*entry, *list);
    }
    if (!list->entries.empty()) details().endpoints = Ref<const EndpointList>(list.release());
  }

  void add_endpoints_of(const ServiceEntry& entry, EndpointList& list) {
    const bool by_name =
        entry.resolution == Resolution::Dns || entry.resolution == Resolution::DnsRoundRobin;
    list.ports.push_back(context_.ports->intern(entry.ports));
    if (entry.workload_selector) return add_selected(entry, by_name, list);
    for (const auto& endpoint : entry.endpoints) add_spec(endpoint, entry, by_name, true, list);
    if (entry.endpoints.empty() && by_name && !host_.starts_with("*"))
      add_name(host_, entry, 1, {}, list);
  }

  void add_selected(const ServiceEntry& entry, bool by_name, EndpointList& list) {
    context_.for_each_workload(*ns_, [&](const StoredRef& stored) {
      const Resource resource = stored->decode();
      if (const auto* pod = std::get_if<Pod>(&resource)) {
        if (!selects(*entry.workload_selector, pod->meta.labels)) return;
        add_pod(*pod, list);
      } else if (const auto* workload = std::get_if<WorkloadEntry>(&resource)) {
        if (!selects(*entry.workload_selector, selectable_labels(*workload))) return;
        add_spec(workload->spec, entry, by_name, workload->healthy, list);
      }
    });
  }

  void add_pod(const Pod& pod, EndpointList& list) {
    if (!pod.running) return;
    for (const auto& ip : pod.ips) {
      EndpointEntry e;
      e.address = ip;
      e.ready = pod.ready;
      e.network = symbol_or_null(pod.meta.network);
      e.cluster = symbol_or_null(pod.meta.cluster);
      e.pod_name = pod.meta.name;
      e.node_name = pod.node_name;
      e.subset = static_cast<std::uint16_t>(list.ports.size() - 1);
      list.entries.push_back(std::move(e));
    }
  }

  void add_spec(const WorkloadSpec& spec, const ServiceEntry& entry, bool by_name, bool healthy,
                EndpointList& list) {
    if (spec.address.empty()) {
      details().notes.push_back("endpoint of network " + spec.network +
                                " without address left out");
      return;
    }
    if (spec.address.starts_with("unix://")) {
      details().notes.push_back("endpoint " + spec.address +
                                " left out: a Unix socket is no answer");
      return;
    }
    const std::uint32_t weight = spec.weight == 0 ? 1 : spec.weight;
    if (const auto ip = IpAddress::parse(spec.address)) {
      if (!ip->is_unspecified()) add_address(*ip, weight, spec.network, entry, healthy, list);
    } else if (by_name) {
      add_name(spec.address, entry, weight, spec.network, list);
    } else {
      details().notes.push_back("endpoint " + spec.address +
                                " left out: a name needs resolution DNS");
    }
  }

  void add_address(const IpAddress& ip, std::uint32_t weight, std::string_view network,
                   const ServiceEntry& entry, bool ready, EndpointList& list) {
    EndpointEntry e;
    e.address = ip;
    e.ready = ready;
    e.weight = weight;
    e.network = symbol_or_null(network.empty() ? std::string_view(entry.meta.network) : network);
    e.cluster = symbol_or_null(entry.meta.cluster);
    e.subset = static_cast<std::uint16_t>(list.ports.size() - 1);
    list.entries.push_back(std::move(e));
  }

  void add_name(std::string_view name, const ServiceEntry& entry, std::uint32_t weight,
                std::string_view network, EndpointList& list) {
    if (!with_names_) return;
    auto& names = details().resolved_names;
    if (std::ranges::find(names, name) == names.end()) names.emplace_back(name);
    const ResolvedName* resolved = context_.resolved(name);
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
      add_address(address, weight, network, entry, true, list);
    }
  }

  const SymbolRef& ns_;
  const std::string_view host_;
  const DeriveContext& context_;
  const MeshSettings& settings_;
  std::unique_ptr<ServiceRecord> record_ = std::make_unique<ServiceRecord>();
  Details details_;
  bool has_details_ = false;
  bool with_names_ = true;
  bool pending_ = false;
  bool failed_ = false;
  bool resolved_without_addresses_ = false;
};

}  // namespace

std::string service_host(std::string_view name, std::string_view ns,
                         std::string_view cluster_domain) {
  std::string host;
  host.reserve(name.size() + ns.size() + cluster_domain.size() + 6);
  host.append(name).append(1, '.').append(ns).append(".svc.").append(cluster_domain);
  return to_lower(host);
}

bool is_older(const ObjectMeta& a, const ObjectMeta& b) {
  return std::tie(a.creation_time, a.ns, a.name, a.cluster) <
         std::tie(b.creation_time, b.ns, b.name, b.cluster);
}

bool wants_vip(const ServiceEntry& entry, std::string_view host) {
  return entry.auto_allocate && entry.addresses.empty() && entry.resolution != Resolution::None &&
         (!host.starts_with("*") || entry.resolution == Resolution::DynamicDns);
}

std::vector<std::string> hosts_of(const Resource& resource, const MeshSettings& settings) {
  const std::string& domain = settings.cluster_domain;
  if (const auto* entry = std::get_if<ServiceEntry>(&resource)) {
    std::vector<std::string> hosts = entry->hosts;
    std::ranges::sort(hosts);
    const auto duplicates = std::ranges::unique(hosts);
    hosts.erase(duplicates.begin(), duplicates.end());
    return hosts;
  }
  if (const auto* service = std::get_if<KubeService>(&resource))
    return {service_host(service->meta.name, service->meta.ns, domain)};
  if (const auto* slice = std::get_if<EndpointSlice>(&resource)) {
    if (slice->service.empty()) return {};
    return {service_host(slice->service, slice->meta.ns, domain)};
  }
  if (const auto* import = std::get_if<ServiceImport>(&resource))
    return {service_host(import->meta.name, import->meta.ns, kClusterSetDomain)};
  if (const auto* exported = std::get_if<ServiceExport>(&resource))
    return {service_host(exported->meta.name, exported->meta.ns, kClusterSetDomain)};
  if (const auto* name = std::get_if<NameTableEntry>(&resource)) {
    std::vector<std::string> hosts{name->meta.name};
    hosts.insert(hosts.end(), name->alt_hosts.begin(), name->alt_hosts.end());
    return hosts;
  }
  return {};
}

Ref<const ServiceRecord> derive_record(const SymbolRef& ns, std::string_view host,
                                       std::span<const StoredRef> sources,
                                       const DeriveContext& context) {
  assert(!sources.empty());
  return Deriver(ns, host, context).run(sources);
}

}  // namespace meshdns::registry
