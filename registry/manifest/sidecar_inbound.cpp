// SPDX-License-Identifier: Apache-2.0
#include "registry/manifest/sidecar_inbound.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "registry/manifest/times.hpp"
#include "registry/manifest/validate.hpp"

namespace meshdns::registry {

namespace {

constexpr std::int64_t kMaxInt32 = 2147483647;
constexpr std::int64_t kMaxUint32 = 4294967295;

constexpr auto kTlsNames = std::to_array<std::string_view>(
    {"mode", "httpsRedirect", "serverCertificate", "privateKey", "caCertificates", "caCrl",
     "subjectAltNames", "credentialName", "credentialNames", "caCertCredentialName",
     "tlsCertificates", "insecureSkipVerify", "verifyCertificateSpki", "verifyCertificateHash",
     "minProtocolVersion", "maxProtocolVersion", "cipherSuites", "ecdhCurves"});
constexpr FieldNames kTlsFields{kTlsNames, true};
constexpr std::array<std::string_view, 6> kTlsModes = {
    "PASSTHROUGH", "SIMPLE", "MUTUAL", "AUTO_PASSTHROUGH", "ISTIO_MUTUAL", "OPTIONAL_MUTUAL"};
constexpr std::array<std::string_view, 5> kTlsVersions = {"TLS_AUTO", "TLSV1_0", "TLSV1_1",
                                                          "TLSV1_2", "TLSV1_3"};

constexpr std::array<std::string_view, 2> kPoolNames = {"tcp", "http"};
constexpr FieldNames kPoolFields{kPoolNames, true};
constexpr auto kTcpNames = std::to_array<std::string_view>(
    {"maxConnections", "connectTimeout", "tcpKeepalive", "maxConnectionDuration", "idleTimeout"});
constexpr FieldNames kTcpFields{kTcpNames, true};
constexpr std::array<std::string_view, 3> kTcpKeepaliveNames = {"probes", "time", "interval"};
constexpr auto kHttpNames = std::to_array<std::string_view>(
    {"http1MaxPendingRequests", "http2MaxRequests", "maxRequestsPerConnection", "maxRetries",
     "idleTimeout", "h2UpgradePolicy", "useClientProtocol", "maxConcurrentStreams",
     "http2KeepAlive"});
constexpr FieldNames kHttpFields{kHttpNames, true};
constexpr std::array<std::string_view, 2> kHttpKeepaliveNames = {"interval", "timeout"};
constexpr std::array<std::string_view, 3> kUpgradePolicies = {"DEFAULT", "DO_NOT_UPGRADE",
                                                              "UPGRADE"};

bool is_set(const std::optional<Field>& text) { return text && !(*text)->value().empty(); }

// The text after the last colon, and what is before it; nullopt when there is no such form.
struct HostPort {
  std::string_view host;
  std::string_view port;
};
std::optional<HostPort> split_host_port(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  HostPort out{text.substr(0, colon), text.substr(colon + 1)};
  const bool is_bracketed = out.host.starts_with('[') && out.host.ends_with(']');
  if (is_bracketed) out.host = out.host.substr(1, out.host.size() - 2);
  if (out.host.find_first_of("[]") != std::string_view::npos) return std::nullopt;
  if (!is_bracketed && out.host.contains(':')) return std::nullopt;
  return out;
}

bool is_port(std::string_view text) {
  std::uint32_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return error == std::errc{} && end == text.data() + text.size() && port >= 1 && port <= 65535;
}

// TLS of an ingress listener.
class IngressTls {
 public:
  IngressTls(Report& report, const Field& tls)
      : report_(report), tls_(tls), fields_(report, tls, kTlsFields) {}

  void check(std::string_view protocol) {
    if (!tls_->is_mapping()) return;
    if (protocol_class(protocol) != ProtocolClass::Tls)
      report_.error(tls_, "only goes with a port of protocol HTTPS or TLS");
    refuse_what_gateways_have();
    read_versions();
    const auto field = fields_.get("mode");
    const std::size_t index = field ? read_choice(report_, *field, kTlsModes).value_or(0) : 0;
    const std::string_view mode = kTlsModes[index];
    if (mode == "ISTIO_MUTUAL" || mode == "AUTO_PASSTHROUGH")
      report_.error(*field, in_quotes(mode) + " is not supported in a Sidecar");
    const bool is_mutual = mode == "MUTUAL" || mode == "OPTIONAL_MUTUAL";
    if (is_mutual || mode == "SIMPLE") check_certificates(mode, is_mutual);
  }

 private:
  void refuse_what_gateways_have() {
    for (const std::string_view name : {"subjectAltNames", "credentialNames", "tlsCertificates"})
      if (const auto list = fields_.get(name);
          list && (!(*list)->is_sequence() || (*list)->size() > 0))
        report_.error(*list, "is not supported in a Sidecar");
    const auto credential = fields_.get("credentialName");
    if (!read_string_or_empty(report_, credential).empty())
      report_.error(*credential, "is not supported in a Sidecar");
    const auto redirect = fields_.get("httpsRedirect");
    if (read_bool_or(report_, redirect, false))
      report_.error(*redirect, "is not supported in a Sidecar");
  }

  void read_versions() {
    for (const std::string_view name : {"minProtocolVersion", "maxProtocolVersion"})
      if (const auto version = fields_.get(name)) read_choice(report_, *version, kTlsVersions);
  }

  void check_certificates(std::string_view mode, bool is_mutual) {
    if (is_set(fields_.get("credentialName"))) return;
    require("serverCertificate", mode);
    require("privateKey", mode);
    if (is_mutual) require("caCertificates", mode);
    const auto crl = fields_.get("caCrl");
    if (!is_mutual && is_set(crl)) report_.error(*crl, "does not go with mode SIMPLE");
  }

  void require(std::string_view name, std::string_view mode) {
    if (read_string_or_empty(report_, fields_.get(name)).empty())
      report_.error(tls_, tls_.path(name), "missing; mode " + std::string(mode) + " needs it");
  }

  Report& report_;
  const Field& tls_;
  Fields fields_;
};

enum class ZeroDuration : std::uint8_t { Refused, Allowed };

// Milliseconds are Istio's finest measure.
void check_duration(Report& report, const std::optional<Field>& field,
                    ZeroDuration zero = ZeroDuration::Refused) {
  using std::chrono::milliseconds;
  if (!field) return;
  const auto text = read_string(report, *field);
  if (!text) return;
  const auto duration = parse_go_duration(*text);
  if (!duration)
    return report.error(*field, in_quotes(*text) + R"( is not a duration such as "30s" or "1m")");
  const auto whole = std::chrono::duration_cast<milliseconds>(*duration);
  if (whole == milliseconds(0) && zero == ZeroDuration::Allowed) return;
  if (whole < milliseconds(1) || whole != *duration)
    report.error(*field,
                 in_quotes(*text) + " is not 1ms or a whole number of milliseconds above it");
}

void check_required_duration(Report& report, const Fields& fields, std::string_view name) {
  const auto field = fields.get(name);
  if (!field) return report.error(fields.parent(), fields.parent().path(name), "missing");
  check_duration(report, field);
}

void check_count(Report& report, const Fields& fields, std::string_view name,
                 std::int64_t max = kMaxInt32) {
  if (const auto field = fields.get(name)) read_integer(report, *field, 0, max);
}

void check_tcp_pool(Report& report, const Field& tcp) {
  const Fields fields(report, tcp, kTcpFields);
  check_count(report, fields, "maxConnections");
  check_duration(report, fields.get("connectTimeout"));
  check_duration(report, fields.get("maxConnectionDuration"));
  check_duration(report, fields.get("idleTimeout"), ZeroDuration::Allowed);
  const auto keepalive = fields.get("tcpKeepalive");
  if (!keepalive) return;
  const Fields of_keepalive(report, *keepalive, {kTcpKeepaliveNames});
  check_count(report, of_keepalive, "probes", kMaxUint32);
  check_duration(report, of_keepalive.get("time"));
  check_duration(report, of_keepalive.get("interval"));
}

void check_http_pool(Report& report, const Field& http) {
  const Fields fields(report, http, kHttpFields);
  for (const std::string_view name :
       {"http1MaxPendingRequests", "http2MaxRequests", "maxRequestsPerConnection", "maxRetries",
        "maxConcurrentStreams"})
    check_count(report, fields, name);
  check_duration(report, fields.get("idleTimeout"));
  const auto policy = fields.get("h2UpgradePolicy");
  const auto choice = policy ? read_choice(report, *policy, kUpgradePolicies) : std::nullopt;
  const auto client = fields.get("useClientProtocol");
  if (read_bool_or(report, client, false) && choice && kUpgradePolicies[*choice] == "UPGRADE")
    report.error(*client, "does not go with h2UpgradePolicy UPGRADE");
  const auto keepalive = fields.get("http2KeepAlive");
  if (!keepalive) return;
  const Fields of_keepalive(report, *keepalive, {kHttpKeepaliveNames});
  if (!(*keepalive)->is_mapping()) return;
  check_required_duration(report, of_keepalive, "interval");
  check_required_duration(report, of_keepalive, "timeout");
}

}  // namespace

void check_default_endpoint(Report& report, const Field& field) {
  constexpr std::array<std::string_view, 5> hosts = {"", "127.0.0.1", "0.0.0.0", "::1", "::"};
  const auto text = read_string(report, field);
  if (!text || text->empty()) return;
  if (text->starts_with(kUnixPrefix)) {
    if (auto reason = why_no_unix_address(*text))
      report.error(field, in_quotes(*text) + " " + *reason);
    return;
  }
  const auto parts = split_host_port(*text);
  if (!parts || std::ranges::find(hosts, parts->host) == hosts.end())
    return report.error(field, in_quotes(*text) +
                                   " is neither 127.0.0.1:PORT, 0.0.0.0:PORT, "
                                   "[::1]:PORT, [::]:PORT, :PORT nor unix:///PATH");
  if (!is_port(parts->port)) report.error(field, in_quotes(*text) + " has no port in 1..65535");
}

void check_ingress_tls(Report& report, const Field& tls, std::string_view protocol) {
  IngressTls(report, tls).check(protocol);
}

void check_connection_pool(Report& report, const Field& pool) {
  const Fields fields(report, pool, kPoolFields);
  if (!pool->is_mapping()) return;
  const auto tcp = fields.get("tcp");
  const auto http = fields.get("http");
  if (!tcp && !http) return report.error(pool, "nothing is set; give tcp or http");
  if (tcp) check_tcp_pool(report, *tcp);
  if (http) check_http_pool(report, *http);
}

}  // namespace meshdns::registry
