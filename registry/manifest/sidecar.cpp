// SPDX-License-Identifier: Apache-2.0
// networking.istio.io Sidecar: the egress listeners, which decide what a client may see, and the
// rest so far as istiod refuses an object for a fault in it.
#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <set>

#include "registry/base/host_name.hpp"
#include "registry/manifest/object.hpp"
#include "registry/manifest/times.hpp"
#include "registry/manifest/validate.hpp"

namespace meshdns::registry {

namespace {

constexpr std::array<std::string_view, 3> kCaptureModes = {"DEFAULT", "IPTABLES", "NONE"};
constexpr auto& kPolicyModes = words<"REGISTRY_ONLY ALLOW_ANY">;  // in the order of OutboundPolicy

// The parts of inbound connections say nothing about names: TLS, endpoints and connection pools.
// They are judged because istiod refuses the whole object for a fault in them.

constexpr std::int64_t kMaxInt32 = 2147483647;
constexpr std::int64_t kMaxUint32 = 4294967295;

constexpr auto& kTlsModes =
    words<"PASSTHROUGH SIMPLE MUTUAL AUTO_PASSTHROUGH ISTIO_MUTUAL OPTIONAL_MUTUAL">;
constexpr auto& kTlsVersions = words<"TLS_AUTO TLSV1_0 TLSV1_1 TLSV1_2 TLSV1_3">;
constexpr auto& kUpgradePolicies = words<"DEFAULT DO_NOT_UPGRADE UPGRADE">;

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

void refuse_list(Report& report, const Field& list) {
  if (!list->is_sequence() || list->size() > 0) report.error(list, "is not supported in a Sidecar");
}
void refuse_text(Report& report, const Field& at) {
  if (!read_string_or_empty(report, at).empty()) report.error(at, "is not supported in a Sidecar");
}
void refuse_true(Report& report, const Field& at) {
  if (read_bool_or(report, at, false)) report.error(at, "is not supported in a Sidecar");
}

struct Tls {
  std::size_t mode = 0;
};
// A name of an enumeration, which nothing is made of.
template <const auto& Names>
constexpr auto one_of = [](Report& report, const Field& at) { read_choice(report, at, Names); };

constexpr Message kTls{
    kSnakeCase,
    FieldRule{"subjectAltNames", refuse_list},
    FieldRule{"credentialNames", refuse_list},
    FieldRule{"tlsCertificates", refuse_list},
    FieldRule{"credentialName", refuse_text},
    FieldRule{"httpsRedirect", refuse_true},
    FieldRule{"minProtocolVersion", one_of<kTlsVersions>},
    FieldRule{"maxProtocolVersion", one_of<kTlsVersions>},
    FieldRule{"mode", enum_of<kTlsModes, &Tls::mode>},
    words<
        "serverCertificate privateKey caCertificates caCrl caCertCredentialName insecureSkipVerify "
        "verifyCertificateSpki verifyCertificateHash cipherSuites ecdhCurves">};

// Checks the TLS settings of an ingress listener whose port has `protocol`.
void check_ingress_tls(Report& report, const Field& tls, std::string_view protocol) {
  const Fields fields(report, tls, kTls);
  if (!tls->is_mapping()) return;
  if (protocol_class(protocol) != ProtocolClass::Tls)
    report.error(tls, "only goes with a port of protocol HTTPS or TLS");
  Tls read;
  read_fields(report, fields, kTls, read);
  const std::string_view mode = kTlsModes[read.mode];
  if (mode == "ISTIO_MUTUAL" || mode == "AUTO_PASSTHROUGH")
    report.error(*fields.get("mode"), in_quotes(mode) + " is not supported in a Sidecar");
  const bool is_mutual = mode == "MUTUAL" || mode == "OPTIONAL_MUTUAL";
  if ((!is_mutual && mode != "SIMPLE") || is_set(fields.get("credentialName"))) return;
  for (const std::string_view name : {"serverCertificate", "privateKey", "caCertificates"})
    if ((is_mutual || name != "caCertificates") &&
        read_string_or_empty(report, fields.get(name)).empty())
      report.error(tls, tls.path(name), "missing; mode " + std::string(mode) + " needs it");
  const auto crl = fields.get("caCrl");
  if (!is_mutual && is_set(crl)) report.error(*crl, "does not go with mode SIMPLE");
}

// Milliseconds are Istio's finest measure.
template <bool MayBeZero>
constexpr auto checked_duration = [](Report& report, const Field& field) {
  using std::chrono::milliseconds;
  const auto text = read_string(report, field);
  if (!text) return;
  const auto length = parse_go_duration(*text);
  if (!length)
    return report.error(field, in_quotes(*text) + R"( is not a duration such as "30s" or "1m")");
  const auto whole = std::chrono::duration_cast<milliseconds>(*length);
  if (whole == milliseconds(0) && MayBeZero) return;
  if (whole < milliseconds(1) || whole != *length)
    report.error(field,
                 in_quotes(*text) + " is not 1ms or a whole number of milliseconds above it");
};

template <std::int64_t Max>
constexpr auto checked_count =
    [](Report& report, const Field& at) { read_integer(report, at, 0, Max); };

struct HttpPool {
  std::size_t upgrade = 0;
};

void read_use_client_protocol(Report& report, const Field& at, HttpPool& pool) {
  if (read_bool_or(report, at, false) && kUpgradePolicies[pool.upgrade] == "UPGRADE")
    report.error(at, "does not go with h2UpgradePolicy UPGRADE");
}

constexpr Message kTcpKeepalive{FieldRule{"probes", checked_count<kMaxUint32>},
                                FieldRule{"time", checked_duration<false>},
                                FieldRule{"interval", checked_duration<false>}};
constexpr Message kTcpPool{kSnakeCase,
                           FieldRule{"maxConnections", checked_count<kMaxInt32>},
                           FieldRule{"connectTimeout", checked_duration<false>},
                           FieldRule{"maxConnectionDuration", checked_duration<false>},
                           FieldRule{"idleTimeout", checked_duration<true>},
                           FieldRule{"tcpKeepalive", nested<kTcpKeepalive>}};
constexpr Message kHttpKeepalive{FieldRule{"interval", checked_duration<false>, "missing"},
                                 FieldRule{"timeout", checked_duration<false>, "missing"}};
constexpr Message kHttpPool{
    kSnakeCase,
    FieldRule{"http1MaxPendingRequests", checked_count<kMaxInt32>},
    FieldRule{"http2MaxRequests", checked_count<kMaxInt32>},
    FieldRule{"maxRequestsPerConnection", checked_count<kMaxInt32>},
    FieldRule{"maxRetries", checked_count<kMaxInt32>},
    FieldRule{"maxConcurrentStreams", checked_count<kMaxInt32>},
    FieldRule{"idleTimeout", checked_duration<false>},
    FieldRule{"h2UpgradePolicy", enum_of<kUpgradePolicies, &HttpPool::upgrade>},
    FieldRule{"useClientProtocol", read_use_client_protocol},
    FieldRule{"http2KeepAlive", nested<kHttpKeepalive>}};
constexpr Message kPool{kSnakeCase, FieldRule{"tcp", nested<kTcpPool>},
                        FieldRule{"http", nested<kHttpPool>}};

void check_connection_pool(Report& report, const Field& pool) {
  const Fields fields(report, pool, kPool);
  if (!pool->is_mapping()) return;
  if (!fields.get("tcp") && !fields.get("http"))
    return report.error(pool, "nothing is set; give tcp or http");
  HttpPool read;
  read_fields(report, fields, kPool, read);
}

constexpr Message kListenerPort{kSnakeCase, words<"number protocol name targetPort">};
constexpr Message kIngress{kSnakeCase,
                           words<"port bind captureMode defaultEndpoint tls connectionPool">};
constexpr Message kEgress{kSnakeCase, words<"port bind captureMode hosts">};
constexpr Message kPolicy{kSnakeCase, words<"mode egressProxy">};
constexpr Message kSidecarSpec{
    kSnakeCase,
    words<"workloadSelector ingress egress inboundConnectionPool outboundTrafficPolicy">};

// The destination of all traffic that no listener has.
void check_proxy_subset(Report& report, const Field& at) {
  const std::string_view name = read_string_or_empty(report, at);
  if (!name.empty() && !is_label(name))
    report.error(at, in_quotes(name) + " is not the name of a subset");
}
constexpr Message kProxyPort{FieldRule{"number", read_port, "missing; specify 1..65535"}};
constexpr Message kProxy{words<"host">, FieldRule{"subset", check_proxy_subset},
                         FieldRule{"port", nested<kProxyPort>, "missing"}};

class SidecarReader {
 public:
  SidecarReader(Object& object, const Field& spec)
      : object_(object), report_(object.report), fields_(object.report, spec, kSidecarSpec) {}

  Sidecar read() {
    sidecar_.workload_selector = read_workload_selector(report_, fields_.get("workloadSelector"));
    if (is_empty())
      report_.error(fields_.parent(),
                    "nothing is set; give egress, ingress, outboundTrafficPolicy or "
                    "inboundConnectionPool");
    std::set<std::int64_t> ports;
    for_each_element(report_, fields_.get("ingress"), [&](const Field& at) {
      if (at->is_null()) return report_.error(at, "an element of the list is null");
      read_ingress(at, ports);
    });
    if (const auto pool = fields_.get("inboundConnectionPool"))
      check_connection_pool(report_, *pool);
    read_egress_listeners();
    read_policy();
    return std::move(sidecar_);
  }

 private:
  bool is_empty() const {
    const auto has_elements = [&](std::string_view name) {
      const auto list = fields_.get(name);
      return list && (!(*list)->is_sequence() || (*list)->size() > 0);
    };
    return !has_elements("egress") && !has_elements("ingress") &&
           !fields_.get("outboundTrafficPolicy") && !fields_.get("inboundConnectionPool");
  }

  // A listener's port; `number` 0 stays 0 where a unix socket may be bound.
  std::optional<std::uint16_t> read_listener_port(const Field& port, EgressListener& listener,
                                                  bool may_be_zero) {
    const Fields fields(report_, port, kListenerPort);
    if (!port->is_mapping()) return std::nullopt;
    if (const auto name = fields.get("name"))
      if (const auto text = read_string(report_, *name); text && !text->empty())
        check_port_name(report_, *name, *text);
    if (const auto target = fields.get("targetPort"); target && (*target)->as_integer() != 0)
      report_.error(*target, "has no effect on a Sidecar; remove it");
    listener.protocol = read_istio_protocol(report_, fields.get("protocol"));
    const auto number = fields.get("number");
    if (!number || (*number)->as_integer() == 0) {
      if (may_be_zero) return 0;
      report_.error(port, port.path("number"), "missing; specify 1..65535");
      return std::nullopt;
    }
    return read_port(report_, *number);
  }

  void check_ip_bind(const std::optional<Field>& bind) {
    if (!bind) return;
    const auto text = read_string(report_, *bind);
    if (text && !text->empty() && !IpAddress::parse(*text))
      report_.error(*bind, in_quotes(*text) + " is not an IP address");
  }

  void read_ingress(const Field& at, std::set<std::int64_t>& ports) {
    const Fields fields(report_, at, kIngress);
    if (!at->is_mapping()) return;
    check_ip_bind(fields.get("bind"));
    const auto port = fields.get("port");
    if (!port)
      return report_.error(at, at.path("port"), "missing; an ingress listener needs a port");
    EgressListener listener;
    const auto number = read_listener_port(*port, listener, false);
    if (number && !ports.insert(*number).second)
      report_.error(*port, port->path("number"),
                    "port " + std::to_string(*number) + " is used by two listeners");
    if (const auto capture = fields.get("captureMode"))
      read_choice(report_, *capture, kCaptureModes);
    if (const auto endpoint = fields.get("defaultEndpoint"))
      check_default_endpoint(report_, *endpoint);
    if (const auto tls = fields.get("tls")) check_ingress_tls(report_, *tls, listener.protocol);
    if (const auto pool = fields.get("connectionPool")) read_ingress_pool(*pool, listener.protocol);
  }

  void read_ingress_pool(const Field& pool, std::string_view protocol) {
    check_connection_pool(report_, pool);
    const Node* const http = pool->find("http");
    if (http != nullptr && !http->is_null() && protocol_class(protocol) != ProtocolClass::Http)
      report_.warning(Field(pool, *http), "has no effect: the port's protocol is not HTTP");
  }

  void read_egress_listeners() {
    const auto egress = fields_.get("egress");
    for_each_element(report_, egress, [&](const Field& at) {
      const bool is_last = ++listener_count_ == (*egress)->size();
      if (at->is_null()) return report_.error(at, "an element of the list is null");
      read_egress(at, is_last);
    });
  }

  void read_egress(const Field& at, bool is_last) {
    const Fields fields(report_, at, kEgress);
    if (!at->is_mapping()) return;
    EgressListener listener;
    const auto bind = fields.get("bind");
    std::size_t mode = 0;
    if (const auto capture = fields.get("captureMode"))
      mode = read_choice(report_, *capture, kCaptureModes).value_or(0);
    if (const auto port = fields.get("port")) {
      read_egress_port(*port, bind, listener);
      if (listener.port == 0 && kCaptureModes[mode] == "IPTABLES")
        report_.error(*fields.get("captureMode"),
                      "a listener on a unix socket has captureMode DEFAULT or NONE");
    } else {
      judge_portless(at, is_last);
    }
    read_hosts(at, fields.get("hosts"), listener);
    sidecar_.egress.push_back(std::move(listener));
  }

  void judge_portless(const Field& at, bool is_last) {
    if (!is_last)
      report_.error(at, at.path("port"),
                    "missing; only the last listener may omit it, to match all other traffic");
  }

  void read_egress_port(const Field& port, const std::optional<Field>& bind,
                        EgressListener& listener) {
    const auto number = read_listener_port(port, listener, true);
    if (!number) return;
    listener.port = *number;
    if (*number != 0) {
      check_ip_bind(bind);
      if (!ports_.insert(*number).second)
        report_.error(port, port.path("number"),
                      "port " + std::to_string(*number) + " is used by two listeners");
      return;
    }
    const auto text = bind ? (*bind)->as_string() : std::nullopt;
    if (!text || !text->starts_with(kUnixPrefix))
      return report_.error(port, port.path("number"),
                           "port 0 is for unix sockets; give a port, or bind unix:///path");
    if (auto reason = why_no_unix_address(*text))
      report_.error(*bind, in_quotes(*text) + " " + *reason);
    if (!sockets_.emplace(*text).second)
      report_.error(*bind, in_quotes(*text) + " is used by two listeners");
  }

  void read_hosts(const Field& at, const std::optional<Field>& hosts, EgressListener& listener) {
    if (!hosts || ((*hosts)->is_sequence() && (*hosts)->size() == 0))
      return report_.error(hosts ? *hosts : at, at.path("hosts"),
                           "needs at least one host, as in \"*/*\" or \"./*\"");
    SeenHosts seen;
    for_each_string(report_, hosts, [&](const Field& host, std::string_view text) {
      read_host(host, text, seen, listener);
    });
    const auto everything = seen.find("*");
    if (seen.size() > 1 && everything != seen.end() && everything->second.contains("*"))
      report_.warning(*hosts, R"("*/*" already imports everything; the other hosts add nothing)");
  }

  // Namespace -> names imported from it.
  using SeenHosts = std::map<std::string, std::set<std::string, std::less<>>, std::less<>>;

  void read_host(const Field& at, std::string_view text, SeenHosts& seen,
                 EgressListener& listener) {
    const std::size_t slash = text.find('/');
    if (slash == std::string_view::npos)
      return report_.error(
          at, in_quotes(text) + R"( is not of the form namespace/dnsName, as in "./*")");
    const std::string_view ns = text.substr(0, slash);
    const std::string_view name = text.substr(slash + 1);
    if (!check_namespace(at, text, ns) || !check_name(at, text, name)) return;
    std::string canonical = to_lower(ns);
    canonical += '/';
    canonical += canonical_host(name);
    if (!ns.starts_with('~')) warn_of_duplicate(at, text, to_lower(ns), canonical_host(name), seen);
    listener.hosts.push_back(std::move(canonical));
  }

  bool check_namespace(const Field& at, std::string_view text, std::string_view ns) {
    const bool excludes = ns.starts_with('~');
    const std::string_view name = excludes ? ns.substr(1) : ns;
    if (name == "*" || name == "." || is_label(name) || (excludes && name.empty())) return true;
    report_.error(at,
                  in_quotes(text) + (name.empty() ? " has no namespace before the slash"
                                                  : " has no valid namespace before the slash"));
    return false;
  }

  bool check_name(const Field& at, std::string_view text, std::string_view name) {
    const auto refuse = [&](std::string_view reason) {
      report_.error(at, in_quotes(text).append(" ").append(reason));
      return false;
    };
    if (name == "*") return true;
    if (name.empty()) return refuse("has no name after the slash");
    if (auto reason = why_no_wildcard_domain(name)) return refuse(*reason);
    if (is_partial_wildcard(name))
      return refuse(R"(begins with a partial wildcard; use a whole label, as "*.example.org")");
    if (name.find('.') == std::string_view::npos)
      return refuse("is a short name; give the full name, as \"./reviews.shop.svc.cluster.local\"");
    return true;
  }

  void warn_of_duplicate(const Field& at, std::string_view text, std::string ns, std::string name,
                         SeenHosts& seen) {
    auto& names = seen[ns == "." ? object_.meta.ns : std::move(ns)];
    const bool is_covered =
        name == "*" ? !names.empty() : names.contains(name) || names.contains("*");
    if (is_covered)
      report_.warning(at, in_quotes(text) + " is given twice, or included in another host");
    names.insert(std::move(name));
  }

  void read_policy() {
    const auto policy = fields_.get("outboundTrafficPolicy");
    if (!policy) return;
    const Fields fields(report_, *policy, kPolicy);
    std::size_t mode = 0;  // as Istio takes a policy without a mode
    if (const auto field = fields.get("mode")) {
      if ((*field)->value() == "ALLOW_ANY_DYNAMIC_DNS")
        return report_.error(*field, "only the mesh's configuration knows ALLOW_ANY_DYNAMIC_DNS");
      mode = read_choice(report_, *field, kPolicyModes).value_or(0);
    }
    set_outbound_policy(object_.meta, static_cast<OutboundPolicy>(mode));
    if (const auto proxy = fields.get("egressProxy")) read_egress_proxy(*proxy, mode);
  }

  void read_egress_proxy(const Field& proxy, std::size_t mode) {
    const Fields fields(report_, proxy, kProxy);
    if (!proxy->is_mapping()) return;
    if (kPolicyModes[mode] != "ALLOW_ANY")
      return report_.error(proxy, "only goes with mode ALLOW_ANY");
    const auto host = fields.get("host");
    const std::string_view text = read_string_or_empty(report_, host);
    if (auto reason = why_no_fqdn(text))
      report_.error(host ? *host : proxy, proxy.path("host"), in_quotes(text) + " " + *reason);
    Checked nothing;
    read_fields(report_, fields, kProxy, nothing);
  }

  Object& object_;
  Report& report_;
  Fields fields_;
  Sidecar sidecar_;
  std::size_t listener_count_ = 0;
  std::set<std::uint16_t> ports_;
  std::set<std::string, std::less<>> sockets_;
};

}  // namespace

Resource read_sidecar(Object& object) {
  const Fields fields(object.report, object.root, kObject);
  check_istio_annotations(object);
  Sidecar sidecar;
  if (const auto spec = read_spec(object, fields, "missing; specify at least one egress listener"))
    sidecar = SidecarReader(object, *spec).read();
  sidecar.meta = std::move(object.meta);
  return sidecar;
}

}  // namespace meshdns::registry
