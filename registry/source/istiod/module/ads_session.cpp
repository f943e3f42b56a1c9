// SPDX-License-Identifier: Apache-2.0
#include "registry/source/istiod/module/ads_session.hpp"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>
#include <xds.pb.h>

#include <algorithm>
#include <utility>

namespace meshdns::registry::istiod {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

constexpr const char* kNameTableType = "type.googleapis.com/istio.networking.nds.v1.NameTable";
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
  explicit PushBuilder(AdsResponse& response) : response_(response) {}

  void set_type(std::string_view type) {
    if (type != kNameTableType) refuse("the response has another type than NameTable");
  }

  // google.protobuf.Any of a NameTable.
  void add_table(std::string_view any, std::string_view name, std::string_view version) {
    if (!response_.fault) read_table(any, name, version);
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
    good ? add_table(any, name, version) : refuse_damaged();
  }

  void add_removed(std::string_view name) {
    if (!response_.fault && count_one()) response_.push.removed.emplace_back(name);
  }

  void refuse_damaged() { refuse("the response is not a valid protobuf message"); }

 private:
  void refuse(std::string why) {
    if (!response_.fault) response_.fault = std::move(why);
  }

  bool count_one() {
    if (++count_ <= kMaxNames) return true;
    refuse("the response has more than " + std::to_string(kMaxNames) + " names and tables");
    return false;
  }

  void read_table(std::string_view any, std::string_view name, std::string_view version) {
    std::string_view value;
    bool is_name_table = false;
    const bool good = for_each_text(any, [&](int field, std::string_view text) {
      if (field == 1) is_name_table = text == kNameTableType;
      if (field == 2) value = text;
      return true;
    });
    if (!good) return refuse_damaged();
    if (!is_name_table) return refuse("the response has a resource of another type than NameTable");
    if (!count_one()) return;
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
  put_text(metadata, "NAMESPACE", from.ns);
  put_text(metadata, "NAME", from.workload);
  put_text(metadata, "WORKLOAD_NAME", from.workload);
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
void fill_reply(Request& request, const AdsResponse& response,
                const std::optional<std::string>& refusal) {
  request.set_type_url(kNameTableType);
  request.set_response_nonce(response.nonce);
  if (!refusal) return;
  request.mutable_error_detail()->set_code(kInvalidArgument);
  request.mutable_error_detail()->set_message(refusal->substr(0, kMaxReason));
}

class ProtobufNameInfoReader final : public NameInfoReader {
 public:
  const NameInfo* read(std::string_view info) override {
    if (!message_.ParseFromArray(info.data(), static_cast<int>(info.size()))) return nullptr;
    info_.ips.assign(message_.ips().begin(), message_.ips().end());
    info_.registry = message_.registry();
    info_.short_name = message_.shortname();
    info_.ns = message_.namespace_();
    info_.alt_hosts.assign(message_.alt_hosts().begin(), message_.alt_hosts().end());
    return &info_;
  }

 private:
  xds::NameInfo message_;
  NameInfo info_;
};

}  // namespace

const char* AdsSession::method() const {
  return options_.transport == AdsTransport::Delta
             ? "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources"
             : "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources";
}

std::string AdsSession::first_request() const {
  if (options_.transport == AdsTransport::StateOfTheWorld) {
    xds::DiscoveryRequest request;
    request.set_type_url(kNameTableType);
    fill_node(options_.node, *request.mutable_node());
    return request.SerializeAsString();
  }
  xds::DeltaDiscoveryRequest request;
  request.set_type_url(kNameTableType);
  fill_node(options_.node, *request.mutable_node());
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
  PushBuilder builder(response);
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
  PushBuilder builder(response);
  const bool good = for_each_text(message, [&](int field, std::string_view text) {
    if (field == 1) response.push.version = text;
    if (field == 2) builder.add_table(text, {}, {});
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
    fill_reply(request, response, refusal);
    return request.SerializeAsString();
  }
  // A NACK has the version that stays.
  if (!refusal) good_version_ = response.push.version;
  xds::DiscoveryRequest request;
  fill_reply(request, response, refusal);
  request.set_version_info(good_version_);
  return request.SerializeAsString();
}

std::unique_ptr<NameInfoReader> make_name_info_reader() {
  return std::make_unique<ProtobufNameInfoReader>();
}

}  // namespace meshdns::registry::istiod
