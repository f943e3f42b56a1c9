// SPDX-License-Identifier: Apache-2.0
// The encoding: kind, then cluster, namespace and name (so that the key is read without the rest),
// then the fields in the order of the structs.  Integers are LEB128, texts and lists carry their
// length first. Nothing outside this program reads it; a snapshot file says which version wrote it.
#include "registry/snapshot/stored_resource.hpp"

#include <array>
#include <cassert>
#include <cstdlib>
#include <cstring>
#include <new>
#include <tuple>
#include <type_traits>

#include "registry/base/durable_file.hpp"
#include "registry/base/hash.hpp"
#include "registry/snapshot/octets.hpp"

namespace meshdns::registry {
namespace {

// The fields of each struct in the order of the encoding; those of a resource without its meta.
auto members_of(IpPrefix& v) { return std::tie(v.address, v.length); }
auto members_of(ServicePort& v) {
  return std::tie(v.number, v.target_port, v.name, v.protocol, v.app_protocol);
}
auto members_of(WorkloadSpec& v) {
  return std::tie(v.address, v.ports, v.labels, v.network, v.locality, v.service_account, v.weight);
}
auto members_of(StatusAddress& v) { return std::tie(v.host, v.value); }
auto members_of(EgressListener& v) { return std::tie(v.port, v.protocol, v.hosts); }
auto members_of(Endpoint& v) {
  return std::tie(v.addresses, v.ready, v.hostname, v.target_name, v.node_name, v.zone,
                  v.hinted_zones, v.hinted_nodes);
}
auto members_of(EndpointSubset& v) { return std::tie(v.endpoints, v.ports); }
auto members_of(RouteMatch& v) {
  return std::tie(v.port, v.sni_hosts, v.subnets, v.source_namespace, v.source_labels, v.request);
}
auto members_of(RouteTarget& v) { return std::tie(v.host, v.subset, v.port, v.weight); }
auto members_of(TrafficRoute& v) {
  return std::tie(v.layer, v.position, v.name, v.matches, v.targets, v.action);
}
auto members_of(LabelRequirement& v) { return std::tie(v.key, v.op, v.values); }
auto members_of(LabelSelector& v) { return std::tie(v.match_labels, v.match_expressions); }
auto members_of(VisibilityPolicy& v) { return std::tie(v.visibility, v.namespace_selectors); }
auto members_of(ServiceEntryVisibility& v) { return std::tie(v.default_visibility, v.policies); }
auto members_of(MeshNetwork& v) {
  return std::tie(v.name, v.registries, v.prefixes, v.gateways, v.gateway_services);
}
auto members_of(DnsAnnotations& v) { return std::tie(v.hostnames, v.targets, v.ttl); }
auto members_of(GatewayListener& v) {
  return std::tie(v.name, v.hostname, v.port, v.kinds, v.from, v.namespaces);
}
auto members_of(GatewayRef& v) { return std::tie(v.ns, v.name, v.section, v.port); }
auto members_of(ObjectMeta& v) {
  return std::tie(v.cluster, v.ns, v.name, v.network, v.labels, v.creation_time);
}
auto members_of(ServiceEntry& v) {
  return std::tie(v.hosts, v.addresses, v.ports, v.location, v.resolution, v.endpoints,
                  v.workload_selector, v.export_to, v.subject_alt_names, v.status_addresses,
                  v.auto_allocate, v.traffic_distribution);
}
auto members_of(WorkloadEntry& v) { return std::tie(v.spec, v.healthy); }
auto members_of(Sidecar& v) { return std::tie(v.workload_selector, v.egress); }
auto members_of(KubeService& v) {
  return std::tie(v.type, v.headless, v.cluster_ips, v.external_name, v.ports, v.selector,
                  v.publish_not_ready_addresses, v.export_to, v.is_manifest, v.traffic_distribution,
                  v.external_addresses, v.dns);
}
// The trigger time is left out: it changes without a change of what DNS shows.
auto members_of(EndpointSlice& v) {
  return std::tie(v.service, v.imported_service, v.source_cluster, v.subsets, v.headless_only);
}
auto members_of(Pod& v) {
  return std::tie(v.ips, v.host_network, v.running, v.leaving, v.ready, v.node_name,
                  v.service_account, v.dns_policy_none, v.searches, v.is_gateway);
}
auto members_of(Namespace& v) { return std::tie(v.traffic_distribution); }
auto members_of(KubeNode&) { return std::tie(); }
auto members_of(ServiceExport&) { return std::tie(); }
auto members_of(ServiceImport& v) { return std::tie(v.headless, v.ips, v.ports); }
auto members_of(NameTableEntry& v) {
  return std::tie(v.ips, v.kubernetes, v.short_name, v.alt_hosts);
}
auto members_of(VirtualService& v) { return std::tie(v.hosts, v.routes, v.export_to); }
auto members_of(MeshConfig& v) {
  return std::tie(v.root_namespace, v.default_service_export_to, v.service_entry_visibility,
                  v.networks);
}
auto members_of(Gateway& v) {
  return std::tie(v.class_name, v.listeners, v.spec_hosts, v.addresses, v.remote_addresses, v.dns);
}
auto members_of(GatewayRoute& v) { return std::tie(v.hostnames, v.parents, v.dns); }
auto members_of(Ingress& v) { return std::tie(v.class_name, v.hosts, v.addresses, v.dns); }

// A type of this file, so that the visitors of fields below are found for it.
struct Writer : Encoder {
  using Encoder::Encoder;
  static constexpr bool kReading = false;
};
struct Reader : Decoder {
  using Decoder::Decoder;
  static constexpr bool kReading = true;
};

// Writes the types of the fields instead of their values.
class Describer {
 public:
  static constexpr bool kReading = false;
  void number(std::uint64_t) { out_ += 'n'; }
  void text(std::string_view) { out_ += 't'; }
  void octets(const void*, std::size_t n) { out_.append(n, 'o'); }
  void note(char what, std::size_t size) { (out_ += what) += static_cast<char>('0' + size); }
  const std::string& description() const { return out_; }

 private:
  std::string out_;
};

template <typename A, typename T>
  requires std::is_integral_v<T> || std::is_enum_v<T>
void field(A& a, T& v) {
  if constexpr (A::kReading)
    v = static_cast<T>(a.number());
  else
    a.number(static_cast<std::uint64_t>(v));
}
template <typename T>
  requires std::is_integral_v<T> || std::is_enum_v<T>
void field(Describer& a, T&) {
  a.note(std::is_enum_v<T> ? 'e' : 'i', sizeof(T));
}
template <typename A>
void field(A& a, std::string& v) {
  if constexpr (A::kReading)
    v = a.text();
  else
    a.text(v);
}
template <typename A>
void field(A& a, IpAddress& v) {
  if constexpr (A::kReading) {
    std::array<std::uint8_t, 16> o{};
    if (a.number() == 4) {
      std::array<std::uint8_t, 4> o4{};
      a.octets(o4.data(), 4);
      v = IpAddress::v4(o4);
    } else {
      a.octets(o.data(), 16);
      v = IpAddress::v6(o);
    }
  } else if (v.is_v4()) {
    a.number(4);
    a.octets(v.octets().data() + 12, 4);
  } else {
    a.number(6);
    a.octets(v.octets().data(), 16);
  }
}

template <typename A, typename T>
void field(A& a, std::vector<T>& v);
template <typename A, typename T>
void field(A& a, std::optional<T>& v);
template <typename T>
void field(Describer& a, std::vector<T>& v);
template <typename T>
void field(Describer& a, std::optional<T>& v);
template <typename A, typename T, typename U>
void field(A& a, std::pair<T, U>& v) {
  field(a, v.first);
  field(a, v.second);
}

// Visits the members of a struct.
template <typename A, typename T>
  requires requires(T& v) { members_of(v); }
void field(A& a, T& v) {
  std::apply([&](auto&... member) { (field(a, member), ...); }, members_of(v));
}
template <typename A, typename T>
void field(A& a, std::vector<T>& v) {
  if constexpr (A::kReading) {
    v.resize(a.length());
  } else {
    a.number(v.size());
  }
  for (auto& element : v) field(a, element);
}
template <typename A, typename T>
void field(A& a, std::optional<T>& v) {
  if constexpr (A::kReading) {
    if (a.number() != 0) field(a, v.emplace());
  } else {
    a.number(v ? 1 : 0);
    if (v) field(a, *v);
  }
}

template <typename T>
void field(Describer& a, std::vector<T>&) {
  T element{};
  a.note('[', 0);
  field(a, element);
  a.note(']', 0);
}
template <typename T>
void field(Describer& a, std::optional<T>&) {
  T value{};
  a.note('?', 0);
  field(a, value);
}

template <typename T>
void make_empty(Kind kind, Resource& resource) {
  auto& made = resource.emplace<T>();
  if constexpr (requires { made.kind; }) made.kind = kind;
}
// In the order of Kind.
constexpr std::array kMakers = {
    make_empty<ServiceEntry>,  make_empty<WorkloadEntry>,  make_empty<Sidecar>,
    make_empty<KubeService>,   make_empty<EndpointSlice>,  make_empty<EndpointSlice>,
    make_empty<Pod>,           make_empty<Namespace>,      make_empty<ServiceExport>,
    make_empty<ServiceImport>, make_empty<NameTableEntry>, make_empty<VirtualService>,
    make_empty<MeshConfig>,    make_empty<KubeNode>,       make_empty<Gateway>,
    make_empty<GatewayRoute>,  make_empty<GatewayRoute>,   make_empty<GatewayRoute>,
    make_empty<Ingress>};
static_assert(kMakers.size() == static_cast<std::size_t>(Kind::Ingress));

// False when there is no such kind.
bool make_empty(std::uint64_t kind, Resource& resource) {
  if (kind == 0 || kind > kMakers.size()) return false;
  kMakers[kind - 1](static_cast<Kind>(kind), resource);
  return true;
}

template <typename A>
void fields_of(A& a, Resource& resource) {
  std::visit(
      [&](auto& r) {
        field(a, r.meta);
        field(a, r);
      },
      resource);
}

bool decode_octets(std::string_view encoded, Resource& resource) {
  if (encoded.empty() || !make_empty(static_cast<unsigned char>(encoded[0]), resource))
    return false;
  Reader decoder(encoded.substr(1));
  fields_of(decoder, resource);
  return !decoder.bad() && decoder.at_end();
}

std::uint64_t hash_key(Kind kind, std::string_view cluster, std::string_view ns,
                       std::string_view name) {
  using hash_detail::mix;
  return mix(hash_bytes(name) ^ static_cast<std::uint64_t>(kind),
             mix(hash_bytes(ns), hash_bytes(cluster) | 1) | 1);
}

}  // namespace

std::uint32_t encoding_layout() {
  Describer describer;
  for (unsigned kind = 1; kind <= kMakers.size(); ++kind) {
    Resource resource;
    make_empty(kind, resource);
    describer.note('k', kind);
    fields_of(describer, resource);
  }
  return stable_hash32(describer.description());
}

void encode_resource(const Resource& resource, std::string& out) {
  Writer encoder(out);
  encoder.number(static_cast<std::uint64_t>(kind_of(resource)));
  // The visitors serve both directions and so take what they could change; encoding does not.
  fields_of(encoder,
            const_cast<Resource&>(resource));  // NOLINT(cppcoreguidelines-pro-type-const-cast)
}

StoredRef StoredResource::encode(const Resource& resource, OriginId origin, std::uint32_t line) {
  std::string octets;
  encode_resource(resource, octets);
  return of_encoded(octets, origin, line);
}

StoredRef StoredResource::of_encoded(std::string_view encoded, OriginId origin,
                                     std::uint32_t line) {
  void* memory = std::malloc(sizeof(StoredResource) + encoded.size());
  if (memory == nullptr) throw std::bad_alloc();
  auto* stored =
      new (memory) StoredResource(origin, line, static_cast<std::uint32_t>(encoded.size()));
  std::memcpy(static_cast<void*>(stored + 1), encoded.data(), encoded.size());
  return StoredRef(stored);
}

Result<StoredRef> StoredResource::from_encoded(std::string_view encoded, OriginId origin,
                                               std::uint32_t line) {
  Resource resource;
  if (!decode_octets(encoded, resource)) return fail("not a resource of this version");
  return of_encoded(encoded, origin, line);
}

void StoredResource::destroy(const StoredResource* resource) {
  resource->~StoredResource();
  std::free(
      const_cast<StoredResource*>(resource));  // NOLINT(cppcoreguidelines-pro-type-const-cast)
}

Resource StoredResource::decode() const {
  Resource resource;
  [[maybe_unused]] const bool is_good = decode_octets(encoded(), resource);
  assert(is_good);
  return resource;
}

std::string_view StoredResource::key_part(int index) const {
  Reader decoder(encoded().substr(1));
  for (int i = 0; i < index; ++i) decoder.text();
  return decoder.text();
}
std::string_view StoredResource::cluster() const { return key_part(0); }
std::string_view StoredResource::ns() const { return key_part(1); }
std::string_view StoredResource::name() const { return key_part(2); }

bool StoredResource::has_key(const ResourceKey& key) const {
  return kind() == key.kind && name() == key.name && ns() == key.ns && cluster() == key.cluster;
}

// The key is the beginning of the encoding, and its lengths are part of it.
bool StoredResource::has_key_of(const StoredResource& other) const {
  const std::string_view name = other.name();
  const auto size = static_cast<std::size_t>(name.data() + name.size() - other.encoded().data());
  return encoded().starts_with(other.encoded().substr(0, size));
}

ResourceKey StoredResource::key() const {
  return {kind(), std::string(cluster()), std::string(ns()), std::string(name())};
}

std::uint64_t StoredResource::key_hash() const { return hash_key(kind(), cluster(), ns(), name()); }

std::string StoredResource::label() const { return key().to_string(); }

std::uint64_t hash_of(const ResourceKey& key) {
  return hash_key(key.kind, key.cluster, key.ns, key.name);
}

}  // namespace meshdns::registry
