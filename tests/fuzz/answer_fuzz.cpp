// SPDX-License-Identifier: Apache-2.0
// For any octets of a client, the reply is a message that our strict parser takes and that fits,
// and nothing that is hidden from the client can be learned from it (noninterference): a registry
// without the hidden objects replies the same.
//
// The first three octets choose the client, the transport, the options and the type of a query; the
// rest is its name as in zone files.  With the highest bit of the first, the rest is the query.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dnsd/query/query_handler.hpp"
#include "resolver/wire/message_writer.hpp"
#include "resolver/wire/record_text.hpp"
#include "resolver/wire/response_message.hpp"
#include "resolver/wire/upstream_query.hpp"
#include "tests/dnsd/query/fake_parts.hpp"
#include "tests/fuzz/require.hpp"
#include "tests/registry/core/fixture.hpp"

namespace {

using namespace meshdns;
using namespace meshdns::dnsd;
using meshdns::fuzz::require;

// Resources of both registries.
constexpr std::string_view kShown = R"(
{apiVersion: v1, kind: Namespace, metadata: {name: shop}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: web}}
---
{apiVersion: v1, kind: Pod, metadata: {name: client, namespace: web}, spec: {}, status: {phase: Running, podIP: 10.244.0.1, podIPs: [{ip: 10.244.0.1}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: scoped, namespace: scoped}, spec: {}, status: {phase: Running, podIP: 10.244.0.2, podIPs: [{ip: 10.244.0.2}]}}
---
{apiVersion: networking.istio.io/v1, kind: Sidecar, metadata: {name: default, namespace: scoped}, spec: {egress: [{hosts: ["./*", "web/*"]}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: web, namespace: web}, spec: {clusterIP: 10.96.0.1, clusterIPs: [10.96.0.1, "fd00::1"], ports: [{port: 80, name: http}, {port: 53, name: dns, protocol: UDP}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: members, namespace: web}, spec: {clusterIP: None, ports: [{port: 80, name: http}]}}
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: members-1, namespace: web, labels: {kubernetes.io/service-name: members}}, addressType: IPv4, ports: [{port: 80, name: http}], endpoints: [{addresses: [10.244.1.1], hostname: m-0}, {addresses: [10.244.1.2]}]}
---
{apiVersion: v1, kind: Service, metadata: {name: alias, namespace: web}, spec: {type: ExternalName, externalName: www.example.com}}
---
{apiVersion: v1, kind: Service, metadata: {name: to-hidden, namespace: web}, spec: {type: ExternalName, externalName: hidden.example.org}}
---
{apiVersion: v1, kind: Service, metadata: {name: to-service, namespace: web}, spec: {type: ExternalName, externalName: hidden.shop.svc.cluster.local}}
---
{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: shown, namespace: web}, spec: {hosts: [shown.example.org, "*.wild.example.org"], addresses: [10.0.0.1, "fd00::2"], ports: [{number: 80, name: http, protocol: HTTP}], resolution: STATIC}}
---
{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: endpoints, namespace: web}, spec: {hosts: [endpoints.example.org], ports: [{number: 80, name: http, protocol: HTTP}], resolution: STATIC, endpoints: [{address: 10.0.0.2}, {address: 10.0.0.3}]}}
---
{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: open, namespace: web}, spec: {hosts: [open.example.org], ports: [{number: 443, name: tls, protocol: TLS}], resolution: NONE}}
)";

// Resources of the second registry only; no client may see them.
constexpr std::string_view kHidden = R"(
{apiVersion: v1, kind: Service, metadata: {name: hidden, namespace: shop, annotations: {networking.istio.io/exportTo: "."}}, spec: {clusterIP: 10.96.66.1, ports: [{port: 80, name: http}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: nobodys, namespace: web, annotations: {networking.istio.io/exportTo: "~"}}, spec: {clusterIP: None, ports: [{port: 80, name: http}]}}
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: nobodys-1, namespace: web, labels: {kubernetes.io/service-name: nobodys}}, addressType: IPv4, ports: [{port: 80, name: http}], endpoints: [{addresses: [10.244.66.1], hostname: n-0}]}
---
{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: hidden, namespace: shop}, spec: {hosts: [hidden.example.org, deep.below.hidden.example.org, "*.wilder.example.org", "*.example.net"], addresses: [10.0.66.1, "fd00::66"], ports: [{number: 80, name: http, protocol: HTTP}], resolution: STATIC, exportTo: ["."]}}
---
{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: same, namespace: shop}, spec: {hosts: [shown.example.org, "*.wild.example.org", narrow.wild.example.org, endpoints.example.org], addresses: [10.0.66.2], ports: [{number: 80, name: http, protocol: HTTP}], resolution: STATIC, exportTo: ["."]}}
---
{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: claims, namespace: shop}, spec: {hosts: [www.example.com, members.web.svc.cluster.local], addresses: [10.0.66.3], ports: [{number: 80, name: http, protocol: HTTP}], resolution: STATIC, exportTo: ["shop"]}}
---
{apiVersion: v1, kind: Service, metadata: {name: safe, namespace: vault, annotations: {networking.istio.io/exportTo: "vault"}}, spec: {clusterIP: 10.96.66.2, ports: [{port: 80, name: http}]}}
---
{apiVersion: multicluster.x-k8s.io/v1alpha1, kind: ServiceExport, metadata: {name: hidden, namespace: shop}}
---
{apiVersion: networking.istio.io/v1, kind: WorkloadEntry, metadata: {name: machine, namespace: shop, labels: {app: machine}}, spec: {address: 10.0.66.9, labels: {app: machine}}}
---
{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: selects, namespace: shop}, spec: {hosts: [selects.example.org], ports: [{number: 80, name: http, protocol: HTTP}], resolution: STATIC, workloadSelector: {labels: {app: machine}}, exportTo: ["."]}}
---
{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: resolved, namespace: shop}, spec: {hosts: [resolved.example.org], ports: [{number: 80, name: http, protocol: HTTP}], resolution: DNS, endpoints: [{address: www.example.com}], exportTo: ["."]}}
---
{apiVersion: v1, kind: Service, metadata: {name: elsewhere, namespace: shop, annotations: {networking.istio.io/exportTo: "."}}, spec: {type: ExternalName, externalName: www.example.com}}
)";

// Resources that the Sidecar of one client does not import; the other clients may see them.
constexpr std::string_view kOutOfScope = R"(
{apiVersion: v1, kind: Service, metadata: {name: outside, namespace: shop}, spec: {clusterIP: 10.96.77.1, ports: [{port: 80, name: http}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: outside, namespace: scopeless}, spec: {clusterIP: None, ports: [{port: 80, name: http}]}}
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: outside-1, namespace: scopeless, labels: {kubernetes.io/service-name: outside}}, addressType: IPv4, ports: [{port: 80, name: http}], endpoints: [{addresses: [10.244.77.1], hostname: o-0}]}
---
{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: outside, namespace: shop}, spec: {hosts: [outside.example.org, shown.example.org, narrow.wild.example.org, "*.example.org"], addresses: [10.0.77.1, "fd00::77"], ports: [{number: 80, name: http, protocol: HTTP}], resolution: STATIC}}
)";

constexpr std::string_view kScopedClient = "10.244.0.2";
constexpr std::array kClients = {std::string_view("10.244.0.1"), kScopedClient,
                                 std::string_view("192.0.2.200")};
constexpr std::array<std::uint16_t, 4> kPayloads = {1232, 512, 0, 65535};
constexpr std::size_t kSteering = 3;

QuerySettings settings() {
  QuerySettings settings = QuerySettings::from(Config{});
  settings.allow = AccessList({*IpPrefix::parse("0.0.0.0/0"), *IpPrefix::parse("::/0")});
  settings.chaos = ChaosAccess::Allowed;
  settings.nsid = "node";
  settings.server_identity = "node.example.org";
  settings.server_addresses = {*IpAddress::parse("192.0.2.9")};
  settings.cookies = CookieMode::On;
  settings.cookie_secrets = CookieSecrets{.current = {1}, .other = {}};
  return settings;
}

// REQUIRES: all of the text is good.
std::vector<registry::Resource> read(std::string_view yaml) {
  auto resources = registry::parse(yaml);
  const auto documents = std::ranges::count(yaml, '\n') / 2;
  require(resources.size() == static_cast<std::size_t>(documents));
  return resources;
}

// A handler of its own over a registry of its own.
class Server {
 public:
  explicit Server(std::string_view hidden) {
    registry_.registry().set_clients({{}, true, registry::UnknownClient::Public});
    registry_.registry().set_sources({.authoritative = true});
    auto resources = read(kShown);
    for (auto& resource : read(hidden)) resources.push_back(std::move(resource));
    registry_.add(resources);
    publisher_ = std::make_unique<registry::Publisher>(registry_.registry().current());
    upstream_.replies["www.example.com. A"] = {.answer = {"www.example.com. 60 A 192.0.2.1"}};
    handler_ = std::make_unique<QueryHandler>(
        QueryHandlerParts{*publisher_, upstream_, replies_, clock_, nullptr, {}}, settings());
  }

  struct Reaction {
    std::string forwarded;            // what the upstream was asked, if anything
    std::vector<std::uint8_t> reply;  // empty = none
  };
  Reaction ask(std::span<const std::uint8_t> query, const ReplyTo& reply_to) {
    Reaction reaction;
    std::vector<std::uint8_t> buffer(reply_to.client.tcp ? kTcpBufferSize : kUdpBufferSize);
    std::ranges::copy(query, buffer.begin());
    const std::size_t size = handler_->on_query(buffer, query.size(), reply_to);
    if (size == QuerySink::kReplyLater) {
      require(!upstream_.asked.empty());
      reaction.forwarded = upstream_.asked.back();
      upstream_.settle();
      require(replies_.sent.size() + replies_.dropped == 1);
      reaction.reply = replies_.last;
    } else if (size != QuerySink::kNoReply) {
      buffer.resize(size);
      reaction.reply = std::move(buffer);
    }
    upstream_.asked.clear();
    upstream_.requests.clear();
    upstream_.refreshed.clear();
    replies_ = {};
    return reaction;
  }

 private:
  registry::TestRegistry registry_;
  std::unique_ptr<registry::Publisher> publisher_;
  FakeUpstream upstream_;
  KeptReplies replies_;
  StandingClock clock_;
  std::unique_ptr<QueryHandler> handler_;
};

// The steered query, or none.
std::vector<std::uint8_t> query_from(std::span<const std::uint8_t> data) {
  const std::uint8_t flags = data[0];
  const std::span rest = data.subspan(kSteering);
  if ((flags & 0x80) != 0) return {rest.begin(), rest.end()};
  const auto name = wire::name_from_text({reinterpret_cast<const char*>(rest.data()), rest.size()});
  if (!name) return {};
  wire::UpstreamQuery query{.id = 0x1234,
                            .recursion_desired = (data[1] & 1) != 0,
                            .edns = (data[1] & 2) != 0,
                            .udp_payload = kPayloads[data[1] >> 2 & 3],
                            .dnssec_ok = (data[1] & 16) != 0,
                            .cookie = {}};
  query.name = *name;
  query.type = static_cast<wire::Type>(data[2] == 255 ? 257 : data[2] == 254 ? 255 : data[2]);
  if ((data[1] & 32) != 0) query.qclass = wire::Class::Chaos;
  std::vector<std::uint8_t> octets(kUdpBufferSize);
  octets.resize(wire::build_query(octets, query));
  return octets;
}

ReplyTo reply_to_from(std::uint8_t flags) {
  ReplyTo reply_to;
  reply_to.client = {*IpAddress::parse(kClients[flags % kClients.size()]), 4711,
                     *IpAddress::parse("192.0.2.9"), (flags & 0x40) != 0};
  return reply_to;
}

// One line for each thing that the reaction says; addresses rotate, so that their order says
// nothing.
std::vector<std::string> said(const Server::Reaction& reaction) {
  std::vector<std::string> lines;
  if (!reaction.forwarded.empty()) lines.push_back("forwarded " + reaction.forwarded);
  if (reaction.reply.empty()) return lines;
  const auto reply = wire::parse_response(reaction.reply);
  if (!reply) return {"unparsed", {reaction.reply.begin(), reaction.reply.end()}};
  for (const auto& record : reply->answer) lines.push_back(wire::record_to_text(record));
  for (const auto& record : reply->authority) lines.push_back("@ " + wire::record_to_text(record));
  for (const auto& record : reply->additional) lines.push_back("+ " + wire::record_to_text(record));
  for (const auto& [code, text] : reply->extended_errors)
    lines.push_back("EDE " + std::to_string(code) + " " + text);
  lines.push_back("AA " + std::to_string(reply->authoritative) + " TC " +
                  std::to_string(reply->truncated) + " " +
                  std::string(wire::to_string(reply->rcode)));
  std::ranges::sort(lines);
  return lines;
}

void require_same(const Server::Reaction& whole, const Server::Reaction& without) {
  const auto seen = said(whole);
  const auto wanted = said(without);
  if (seen == wanted) return;
  for (const auto& line : seen) std::fprintf(stderr, "with:    %s\n", line.c_str());
  for (const auto& line : wanted) std::fprintf(stderr, "without: %s\n", line.c_str());
  std::abort();
}

void require_reply_to(std::span<const std::uint8_t> query, const Server::Reaction& reaction) {
  if (reaction.reply.empty()) return;
  const auto& reply = reaction.reply;
  require(reply.size() >= wire::kHeaderSize && query.size() >= wire::kHeaderSize);
  require(reply[0] == query[0] && reply[1] == query[1] && (reply[2] & 0x80) != 0);
  wire::QueryMessage parsed;
  if (wire::parse_query(query, parsed) != wire::ParseOutcome::Ok) return;
  const auto message = wire::parse_response(reply);
  require(message.has_value() && message->has_edns == parsed.has_edns);
  require(std::ranges::equal(
      parsed.question, std::span(reply).subspan(wire::kHeaderSize).first(parsed.question.size())));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // NOLINTBEGIN: libFuzzer ends without destructors
  static Server* const without = new Server("");
  static Server* const whole = new Server(kHidden);
  static Server* const whole_of_scoped =
      new Server(std::string(kHidden) + "---" + std::string(kOutOfScope));
  // NOLINTEND
  if (size <= kSteering || size > kUdpBufferSize) return -1;
  const std::vector<std::uint8_t> query = query_from({data, size});
  if (query.empty()) return -1;
  const ReplyTo reply_to = reply_to_from(data[0]);
  const bool is_scoped = reply_to.client.address == *IpAddress::parse(kScopedClient);
  const Server::Reaction reaction = (is_scoped ? whole_of_scoped : whole)->ask(query, reply_to);
  require_same(reaction, without->ask(query, reply_to));
  require_reply_to(query, reaction);
  if (!reply_to.client.tcp) require(reaction.reply.size() <= 1232);
  return 0;
}
