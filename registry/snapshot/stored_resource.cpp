// SPDX-License-Identifier: Apache-2.0
// The encoding: kind, then cluster, namespace and name (so that the key is read without the rest),
// then the fields in the order of the structs.  Integers are LEB128, texts and lists carry their
// length first. Nothing outside this program reads it; a snapshot file says which version wrote it.
#include "registry/snapshot/stored_resource.hpp"

#include <cassert>
#include <cstdlib>
#include <cstring>
#include <new>
#include <type_traits>

#include "registry/base/durable_file.hpp"
#include "registry/base/hash.hpp"
#include "registry/snapshot/octets.hpp"

namespace meshdns::registry {
namespace {

// Of this file, so that the fields' visitors below are found for them.
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

template <typename A, typename... F>
void fields(A& a, F&... f) {
  (field(a, f), ...);
}

template <typename A>
void field(A& a, IpPrefix& v) {
  fields(a, v.address, v.length);
}
template <typename A>
void field(A& a, ServicePort& v) {
  fields(a, v.number, v.target_port, v.name, v.protocol, v.app_protocol);
}
template <typename A>
void field(A& a, WorkloadSpec& v) {
  fields(a, v.address, v.ports, v.labels, v.network, v.locality, v.service_account, v.weight);
}
template <typename A>
void field(A& a, StatusAddress& v) {
  fields(a, v.host, v.value);
}
template <typename A>
void field(A& a, EgressListener& v) {
  fields(a, v.port, v.protocol, v.hosts);
}
template <typename A>
void field(A& a, Endpoint& v) {
  fields(a, v.addresses, v.ready, v.hostname, v.target_name, v.node_name, v.zone, v.hinted_zones,
         v.hinted_nodes);
}
template <typename A>
void field(A& a, EndpointSubset& v) {
  fields(a, v.endpoints, v.ports);
}
template <typename A>
void field(A& a, RouteMatch& v) {
  fields(a, v.port, v.sni_hosts, v.subnets, v.source_namespace, v.source_labels, v.request);
}
template <typename A>
void field(A& a, RouteTarget& v) {
  fields(a, v.host, v.subset, v.port, v.weight);
}
template <typename A>
void field(A& a, TrafficRoute& v) {
  fields(a, v.layer, v.position, v.name, v.matches, v.targets, v.action);
}
template <typename A>
void field(A& a, LabelRequirement& v) {
  fields(a, v.key, v.op, v.values);
}
template <typename A>
void field(A& a, LabelSelector& v) {
  fields(a, v.match_labels, v.match_expressions);
}
template <typename A>
void field(A& a, VisibilityPolicy& v) {
  fields(a, v.visibility, v.namespace_selectors);
}
template <typename A>
void field(A& a, ServiceEntryVisibility& v) {
  fields(a, v.default_visibility, v.policies);
}
template <typename A>
void field(A& a, MeshNetwork& v) {
  fields(a, v.name, v.registries, v.prefixes, v.gateways, v.gateway_services);
}
template <typename A>
void field(A& a, DnsAnnotations& v) {
  fields(a, v.hostnames, v.targets, v.ttl);
}
template <typename A>
void field(A& a, GatewayListener& v) {
  fields(a, v.name, v.hostname, v.port, v.kinds, v.from, v.namespaces);
}
template <typename A>
void field(A& a, GatewayRef& v) {
  fields(a, v.ns, v.name, v.section, v.port);
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

template <typename A>
void meta(A& a, ObjectMeta& m) {
  fields(a, m.cluster, m.ns, m.name, m.network, m.labels, m.creation_time);
}
template <typename A>
void body(A& a, ServiceEntry& v) {
  fields(a, v.hosts, v.addresses, v.ports, v.location, v.resolution, v.endpoints,
         v.workload_selector, v.export_to, v.subject_alt_names, v.status_addresses, v.auto_allocate,
         v.traffic_distribution);
}
template <typename A>
void body(A& a, WorkloadEntry& v) {
  fields(a, v.spec, v.healthy);
}
template <typename A>
void body(A& a, Sidecar& v) {
  fields(a, v.workload_selector, v.egress);
}
template <typename A>
void body(A& a, KubeService& v) {
  fields(a, v.type, v.headless, v.cluster_ips, v.external_name, v.ports, v.selector,
         v.publish_not_ready_addresses, v.export_to, v.is_manifest, v.traffic_distribution,
         v.external_addresses, v.dns);
}
template <typename A>
void body(A& a, EndpointSlice& v) {
  // The trigger time is left out: it changes without a change of what DNS shows.
  fields(a, v.service, v.imported_service, v.source_cluster, v.subsets, v.headless_only);
}
template <typename A>
void body(A& a, Pod& v) {
  fields(a, v.ips, v.host_network, v.running, v.leaving, v.ready, v.node_name, v.service_account,
         v.dns_policy_none, v.searches, v.is_gateway);
}
template <typename A>
void body(A& a, Namespace& v) {
  field(a, v.traffic_distribution);
}
template <typename A>
void body(A&, KubeNode&) {}
template <typename A>
void body(A&, ServiceExport&) {}
template <typename A>
void body(A& a, ServiceImport& v) {
  fields(a, v.headless, v.ips, v.ports);
}
template <typename A>
void body(A& a, NameTableEntry& v) {
  fields(a, v.ips, v.kubernetes, v.short_name, v.alt_hosts);
}
template <typename A>
void body(A& a, VirtualService& v) {
  fields(a, v.hosts, v.routes, v.export_to);
}
template <typename A>
void body(A& a, MeshConfig& v) {
  fields(a, v.root_namespace, v.default_service_export_to, v.service_entry_visibility, v.networks);
}
template <typename A>
void body(A& a, Gateway& v) {
  fields(a, v.class_name, v.listeners, v.spec_hosts, v.addresses, v.remote_addresses, v.dns);
}
template <typename A>
void body(A& a, GatewayRoute& v) {
  fields(a, v.hostnames, v.parents, v.dns);
}
template <typename A>
void body(A& a, Ingress& v) {
  fields(a, v.class_name, v.hosts, v.addresses, v.dns);
}

// False when there is no such kind.
bool make_empty(Kind kind, Resource& resource) {
  switch (kind) {
    case Kind::ServiceEntry:
      resource.emplace<ServiceEntry>();
      return true;
    case Kind::WorkloadEntry:
      resource.emplace<WorkloadEntry>();
      return true;
    case Kind::Sidecar:
      resource.emplace<Sidecar>();
      return true;
    case Kind::Service:
      resource.emplace<KubeService>();
      return true;
    case Kind::EndpointSlice:
    case Kind::Endpoints:
      resource.emplace<EndpointSlice>().kind = kind;
      return true;
    case Kind::Pod:
      resource.emplace<Pod>();
      return true;
    case Kind::Namespace:
      resource.emplace<Namespace>();
      return true;
    case Kind::ServiceExport:
      resource.emplace<ServiceExport>();
      return true;
    case Kind::ServiceImport:
      resource.emplace<ServiceImport>();
      return true;
    case Kind::NameTableEntry:
      resource.emplace<NameTableEntry>();
      return true;
    case Kind::VirtualService:
      resource.emplace<VirtualService>();
      return true;
    case Kind::ConfigMap:
      resource.emplace<MeshConfig>();
      return true;
    case Kind::Node:
      resource.emplace<KubeNode>();
      return true;
    case Kind::Gateway:
      resource.emplace<Gateway>();
      return true;
    case Kind::HttpRoute:
    case Kind::TlsRoute:
    case Kind::GrpcRoute:
      resource.emplace<GatewayRoute>().kind = kind;
      return true;
    case Kind::Ingress:
      resource.emplace<Ingress>();
      return true;
  }
  return false;
}

bool decode_octets(std::string_view encoded, Resource& resource) {
  if (encoded.empty() || !make_empty(static_cast<Kind>(encoded[0]), resource)) return false;
  Reader decoder(encoded.substr(1));
  std::visit(
      [&](auto& r) {
        meta(decoder, r.meta);
        body(decoder, r);
      },
      resource);
  return !decoder.bad() && decoder.at_end();
}

constexpr unsigned kLastKind = static_cast<unsigned>(Kind::Ingress);

std::uint64_t hash_key(Kind kind, std::string_view cluster, std::string_view ns,
                       std::string_view name) {
  using hash_detail::mix;
  return mix(hash_bytes(name) ^ static_cast<std::uint64_t>(kind),
             mix(hash_bytes(ns), hash_bytes(cluster) | 1) | 1);
}

}  // namespace

std::uint32_t encoding_layout() {
  Describer describer;
  for (unsigned kind = 1; kind <= kLastKind; ++kind) {
    Resource resource;
    make_empty(static_cast<Kind>(kind), resource);
    describer.note('k', kind);
    std::visit(
        [&](auto& r) {
          meta(describer, r.meta);
          body(describer, r);
        },
        resource);
  }
  return stable_hash32(describer.description());
}

void encode_resource(const Resource& resource, std::string& out) {
  Writer encoder(out);
  encoder.number(static_cast<std::uint64_t>(kind_of(resource)));
  // The visitors serve both directions and so take what they could change; encoding does not.
  auto& fields_of =
      const_cast<Resource&>(resource);  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  std::visit(
      [&](auto& r) {
        meta(encoder, r.meta);
        body(encoder, r);
      },
      fields_of);
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
