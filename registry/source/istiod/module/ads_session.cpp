// SPDX-License-Identifier: Apache-2.0
#include "registry/source/istiod/module/ads_session.hpp"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>
#include <workload.pb.h>
#include <xds.pb.h>

#include <algorithm>
#include <utility>

namespace meshdns::registry::istiod {
namespace {

// --- responses and requests ----------------------------------------------------------------------

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

// A kind of resource.
struct ResourceType {
  const char* url;
  const char* name;  // for messages
};
constexpr ResourceType kNameTable = {"type.googleapis.com/istio.networking.nds.v1.NameTable",
                                     "NameTable"};
constexpr ResourceType kAddress = {"type.googleapis.com/istio.workload.Address", "Address"};

const ResourceType& type_of(const AdsOptions& options) {
  return options.api == AdsApi::Names ? kNameTable : kAddress;
}

constexpr int kInvalidArgument = 3;  // google.rpc.Code
// istiod writes the reason into its log.
constexpr std::size_t kMaxReason = 1'000;

// Visits the fields of a message that have a length: texts and messages.  False when the message is
// damaged, or when `visit(number, octets)` says so.
template <typename Visit>
bool for_each_text(std::string_view message, Visit&& visit) {
  CodedInputStream in(reinterpret_cast<const std::uint8_t*>(message.data()),
                      static_cast<int>(message.size()));
  while (const std::uint32_t tag = in.ReadTag()) {
    // No field has the number 0; other readers of protobuf refuse it, too.
    if (WireFormatLite::GetTagFieldNumber(tag) == 0) return false;
    if (WireFormatLite::GetTagWireType(tag) != WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
      if (!WireFormatLite::SkipField(&in, tag)) return false;
      continue;
    }
    std::uint32_t size = 0;
    if (!in.ReadVarint32(&size)) return false;
    const auto begin = static_cast<std::size_t>(in.CurrentPosition());
    if (size > message.size() - begin || !in.Skip(static_cast<int>(size))) return false;
    if (!visit(WireFormatLite::GetTagFieldNumber(tag), message.substr(begin, size))) return false;
  }
  return in.ConsumedEntireMessage();
}

// Fills a Push from the parts of a response.  After the first fault, no further parts are read.
class PushBuilder {
 public:
  PushBuilder(AdsResponse& response, const ResourceType& type) : response_(response), type_(type) {}

  void set_type(std::string_view type) {
    if (type != type_.url) refuse("the response has another type than " + std::string(type_.name));
  }

  // google.protobuf.Any of the resource.
  void add_any(std::string_view any, std::string_view name, std::string_view version) {
    if (!response_.fault) read_any(any, name, version);
  }

  // envoy.service.discovery.v3.Resource
  void add_resource(std::string_view resource) {
    std::string_view version;
    std::string_view any;
    std::string_view name;
    const bool good = for_each_text(resource, [&](int field, std::string_view text) {
      if (field == 1) version = text;
      if (field == 2) any = text;
      if (field == 3) name = text;
      return true;
    });
    good ? add_any(any, name, version) : refuse_damaged();
  }

  void add_removed(std::string_view name) {
    if (!response_.fault && count_one()) response_.push.removed.emplace_back(name);
  }

  void refuse_damaged() { refuse("the response is not a valid protobuf message"); }

 private:
  void refuse(std::string_view why) {
    if (!response_.fault) response_.fault = std::string(why);
  }

  bool count_one() {
    if (++count_ <= kMaxNames) return true;
    refuse("the response has more than " + std::to_string(kMaxNames) + " names and resources");
    return false;
  }

  void read_any(std::string_view any, std::string_view name, std::string_view version) {
    std::string_view value;
    bool is_of_type = false;
    const bool good = for_each_text(any, [&](int field, std::string_view text) {
      if (field == 1) is_of_type = text == type_.url;
      if (field == 2) value = text;
      return true;
    });
    if (!good) return refuse_damaged();
    if (!is_of_type)
      return refuse("the response has a resource of another type than " + std::string(type_.name));
    if (!count_one()) return;
    if (name.size() > kMaxResourceName || version.size() > kMaxResourceVersion)
      return refuse("the name or the version of a resource is too long");
    if (&type_ == &kAddress) return add_address(value, name, version);
    add_table(value, name, version);
  }

  void add_address(std::string_view value, std::string_view name, std::string_view version) {
    response_.push.addresses.push_back({std::string(name), std::string(version), value});
  }

  void add_table(std::string_view value, std::string_view name, std::string_view version) {
    PushedTable& table = response_.push.tables.emplace_back();
    table.name = name;
    table.version = version;
    if (!read_names(value, table)) refuse_damaged();
  }

  // map<string, NameInfo> table = 1
  bool read_names(std::string_view table, PushedTable& into) {
    return for_each_text(table, [&](int field, std::string_view entry) {
      return field != 1 || (count_one() && read_name(entry, into));
    });
  }

  bool read_name(std::string_view entry, PushedTable& into) {
    PushedName& name = into.names.emplace_back();
    return for_each_text(entry, [&](int field, std::string_view text) {
      if (field == 1) name.host = text;
      if (field == 2) name.info = text;
      return true;
    });
  }

  AdsResponse& response_;
  const ResourceType& type_;
  std::size_t count_ = 0;
};

void put_text(xds::Struct& into, const std::string& key, const std::string& text) {
  if (!text.empty()) (*into.mutable_fields())[key].set_string_value(text);
}

void fill_node(const AdsNode& from, xds::Node& node) {
  node.set_id(from.id);
  node.set_cluster(from.workload + "." + from.ns);
  node.set_user_agent_name("meshdns");
  node.set_user_agent_version(MESHDNS_VERSION);
  xds::Struct& metadata = *node.mutable_metadata();
  put_text(metadata, "WORKLOAD_NAME", from.workload);
  for (const auto& [key, value] : from.metadata) put_text(metadata, key, value);
  put_text(metadata, "NAMESPACE", from.ns);
  put_text(metadata, "NAME", from.workload);
  put_text(metadata, "CLUSTER_ID", from.cluster);
  put_text(metadata, "NETWORK", from.network);
  put_text(metadata, "INSTANCE_IPS", from.addresses);
  put_text(metadata, "ISTIO_REVISION", from.revision);
  // Without it istiod has no name table for the workload.
  put_text(metadata, "DNS_CAPTURE", "true");
  if (from.labels.empty()) return;
  xds::Struct& labels = *(*metadata.mutable_fields())["LABELS"].mutable_struct_value();
  for (const auto& [key, value] : from.labels)
    (*labels.mutable_fields())[key].set_string_value(value);
}

template <typename Request>
void fill_reply(Request& request, const ResourceType& type, const AdsResponse& response,
                const std::optional<std::string>& refusal) {
  request.set_type_url(type.url);
  request.set_response_nonce(response.nonce);
  if (!refusal) return;
  request.mutable_error_detail()->set_code(kInvalidArgument);
  request.mutable_error_detail()->set_message(refusal->substr(0, kMaxReason));
}

}  // namespace

const char* AdsSession::method() const {
  return options_.transport == AdsTransport::Delta
             ? "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources"
             : "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources";
}

std::string AdsSession::first_request() const {
  if (options_.transport == AdsTransport::StateOfTheWorld) {
    xds::DiscoveryRequest request;
    request.set_type_url(type_of(options_).url);
    fill_node(options_.node, *request.mutable_node());
    return request.SerializeAsString();
  }
  xds::DeltaDiscoveryRequest request;
  request.set_type_url(type_of(options_).url);
  fill_node(options_.node, *request.mutable_node());
  // Besides what is held, everything: the names of the former alone would be all that is wanted.
  if (options_.api == AdsApi::Workloads) request.add_resource_names_subscribe("*");
  for (const HeldResource& held : options_.held)
    (*request.mutable_initial_resource_versions())[held.name] = held.version;
  return request.SerializeAsString();
}

AdsResponse AdsSession::read(std::string_view message) const {
  AdsResponse response =
      options_.transport == AdsTransport::Delta ? read_delta(message) : read_whole(message);
  response.push.bytes = message.size();
  return response;
}

// DeltaDiscoveryResponse
AdsResponse AdsSession::read_delta(std::string_view message) const {
  AdsResponse response;
  PushBuilder builder(response, type_of(options_));
  const bool good = for_each_text(message, [&](int field, std::string_view text) {
    if (field == 1) response.push.version = text;
    if (field == 2) builder.add_resource(text);
    if (field == 4) builder.set_type(text);
    if (field == 5) response.nonce = text;
    if (field == 6) builder.add_removed(text);
    return true;
  });
  if (!good) builder.refuse_damaged();
  return response;
}

// DiscoveryResponse
AdsResponse AdsSession::read_whole(std::string_view message) const {
  AdsResponse response;
  response.push.is_whole = true;
  PushBuilder builder(response, type_of(options_));
  const bool good = for_each_text(message, [&](int field, std::string_view text) {
    if (field == 1) response.push.version = text;
    if (field == 2) builder.add_any(text, {}, {});
    if (field == 4) builder.set_type(text);
    if (field == 5) response.nonce = text;
    return true;
  });
  if (!good) builder.refuse_damaged();
  return response;
}

std::string AdsSession::reply(const AdsResponse& response,
                              const std::optional<std::string>& refusal) {
  if (options_.transport == AdsTransport::Delta) {
    xds::DeltaDiscoveryRequest request;
    fill_reply(request, type_of(options_), response, refusal);
    return request.SerializeAsString();
  }
  // A NACK has the version that stays.
  if (!refusal) good_version_ = response.push.version;
  xds::DiscoveryRequest request;
  fill_reply(request, type_of(options_), response, refusal);
  request.set_version_info(good_version_);
  return request.SerializeAsString();
}

// --- single resources of a push ------------------------------------------------------------------

namespace {

// Numbers of istio.workload's enums.
constexpr int kAllowAll = 1;
constexpr int kNamespaceOnly = 1;
constexpr int kHealthy = 0;
constexpr int kPlainPod = 2;
constexpr int kHostNetwork = 1;

template <typename Message>
bool parse(Message& message, std::string_view octets) {
  return message.ParseFromArray(octets.data(), static_cast<int>(octets.size()));
}

template <typename List>
std::vector<ApiPort> ports_of(const List& from) {
  std::vector<ApiPort> ports;
  for (const workload::Port& port : from)
    ports.push_back(
        {port.service_port(), port.target_port(), static_cast<ApiProtocol>(port.app_protocol())});
  return ports;
}

ApiService service_of(const workload::Service& from) {
  ApiService service;
  service.ns = from.namespace_();
  service.hostname = from.hostname();
  for (const workload::NetworkAddress& address : from.addresses()) {
    ApiNetworkAddress& one = service.addresses.emplace_back();
    one.network = address.network();
    one.octets = address.address();
    if (address.has_length()) one.length = address.length();
  }
  service.ports = ports_of(from.ports());
  service.subject_alt_names.assign(from.subject_alt_names().begin(),
                                   from.subject_alt_names().end());
  service.allows_unhealthy = from.load_balancing().health_policy() == kAllowAll;
  service.ip_families = static_cast<ApiFamilies>(from.ip_families());
  service.is_canonical = from.canonical();
  service.is_private = from.visibility() == kNamespaceOnly;
  return service;
}

ApiWorkload workload_of(const workload::Workload& from) {
  ApiWorkload to;
  to.uid = from.uid();
  to.ns = from.namespace_();
  to.addresses.assign(from.addresses().begin(), from.addresses().end());
  to.hostname = from.hostname();
  to.network = from.network();
  to.cluster_id = from.cluster_id();
  to.service_account = from.service_account();
  to.node = from.node();
  to.region = from.locality().region();
  to.zone = from.locality().zone();
  to.subzone = from.locality().subzone();
  for (const workload::ServicePorts& service : from.services())
    to.services.emplace_back(service.service(), ports_of(service.ports().ports()));
  to.is_healthy = from.status() == kHealthy;
  to.is_plain_pod = from.workload_type() == kPlainPod;
  to.has_host_network = from.network_mode() == kHostNetwork;
  return to;
}

class ProtobufReader final : public MessageReader {
 public:
  const NameInfo* read_name(std::string_view info) override {
    if (!parse(message_, info)) return nullptr;
    info_.ips.assign(message_.ips().begin(), message_.ips().end());
    info_.registry = message_.registry();
    info_.short_name = message_.shortname();
    info_.ns = message_.namespace_();
    info_.alt_hosts.assign(message_.alt_hosts().begin(), message_.alt_hosts().end());
    return &info_;
  }

  std::optional<ApiAddress> read_address(std::string_view content) override {
    workload::Address address;
    if (!parse(address, content)) return std::nullopt;
    if (address.has_service()) return service_of(address.service());
    if (address.has_workload()) return workload_of(address.workload());
    return ApiAddress();
  }

 private:
  xds::NameInfo message_;
  NameInfo info_;
};

}  // namespace

std::unique_ptr<MessageReader> make_message_reader() { return std::make_unique<ProtobufReader>(); }

}  // namespace meshdns::registry::istiod
