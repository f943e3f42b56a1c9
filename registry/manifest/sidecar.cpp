// SPDX-License-Identifier: Apache-2.0
// networking.istio.io Sidecar: the egress listeners, which decide what a client may see, and the
// rest (see also sidecar_inbound.hpp) so far as istiod refuses an object for a fault in it.
#include <array>
#include <map>
#include <set>

#include "registry/base/host_name.hpp"
#include "registry/manifest/object.hpp"
#include "registry/manifest/sidecar_inbound.hpp"
#include "registry/manifest/validate.hpp"

namespace meshdns::registry {

namespace {

constexpr std::array<std::string_view, 5> kSidecarNames = {"apiVersion", "kind", "metadata", "spec",
                                                           "status"};
constexpr std::array<std::string_view, 5> kSidecarSpecNames = {
    "workloadSelector", "ingress", "egress", "inboundConnectionPool", "outboundTrafficPolicy"};
constexpr FieldNames kSidecarSpecFields{kSidecarSpecNames, true};
constexpr std::array<std::string_view, 4> kEgressNames = {"port", "bind", "captureMode", "hosts"};
constexpr FieldNames kEgressFields{kEgressNames, true};
constexpr std::array<std::string_view, 6> kIngressNames = {
    "port", "bind", "captureMode", "defaultEndpoint", "tls", "connectionPool"};
constexpr FieldNames kIngressFields{kIngressNames, true};
constexpr std::array<std::string_view, 4> kListenerPortNames = {"number", "protocol", "name",
                                                                "targetPort"};
constexpr FieldNames kListenerPortFields{kListenerPortNames, true};
constexpr std::array<std::string_view, 2> kPolicyNames = {"mode", "egressProxy"};
constexpr FieldNames kPolicyFields{kPolicyNames, true};
constexpr std::array<std::string_view, 3> kProxyNames = {"host", "subset", "port"};
constexpr std::array<std::string_view, 1> kProxyPortNames = {"number"};
constexpr std::array<std::string_view, 3> kCaptureModes = {"DEFAULT", "IPTABLES", "NONE"};
constexpr std::array<std::string_view, 2> kPolicyModes = {"REGISTRY_ONLY", "ALLOW_ANY"};

class SidecarReader {
 public:
  SidecarReader(Object& object, const Field& spec)
      : object_(object), report_(object.report), fields_(object.report, spec, kSidecarSpecFields) {}

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
    const Fields fields(report_, port, kListenerPortFields);
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
    const Fields fields(report_, at, kIngressFields);
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
    const Fields fields(report_, at, kEgressFields);
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
    const Fields fields(report_, *policy, kPolicyFields);
    std::size_t mode = 0;
    if (const auto field = fields.get("mode")) {
      if ((*field)->value() == "ALLOW_ANY_DYNAMIC_DNS")
        return report_.error(*field, "only the mesh's configuration knows ALLOW_ANY_DYNAMIC_DNS");
      mode = read_choice(report_, *field, kPolicyModes).value_or(0);
    }
    if (const auto proxy = fields.get("egressProxy")) read_egress_proxy(*proxy, mode);
  }

  void read_egress_proxy(const Field& proxy, std::size_t mode) {
    const Fields fields(report_, proxy, {kProxyNames});
    if (!proxy->is_mapping()) return;
    if (kPolicyModes[mode] != "ALLOW_ANY")
      return report_.error(proxy, "only goes with mode ALLOW_ANY");
    const auto host = fields.get("host");
    const std::string_view text = read_string_or_empty(report_, host);
    if (auto reason = why_no_fqdn(text))
      report_.error(host ? *host : proxy, proxy.path("host"), in_quotes(text) + " " + *reason);
    const auto subset = fields.get("subset");
    const std::string_view subset_name = read_string_or_empty(report_, subset);
    if (!subset_name.empty() && !is_label(subset_name))
      report_.error(*subset, in_quotes(subset_name) + " is not the name of a subset");
    const auto port = fields.get("port");
    if (!port) return report_.error(proxy, proxy.path("port"), "missing");
    const Fields port_fields(report_, *port, {kProxyPortNames});
    if (!(*port)->is_mapping()) return;
    if (const auto number = port_fields.get("number"))
      read_port(report_, *number);
    else
      report_.error(*port, port->path("number"), "missing; specify 1..65535");
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
  const Fields fields(object.report, object.root, {kSidecarNames});
  check_istio_annotations(object);
  Sidecar sidecar;
  const auto spec = fields.get("spec");
  if (!spec)
    object.report.error(object.root, "spec", "missing; specify at least one egress listener");
  else if (!(*spec)->is_mapping())
    object.report.error(*spec, "expected a mapping, got " + std::string((*spec)->describe()));
  else
    sidecar = SidecarReader(object, *spec).read();
  sidecar.meta = std::move(object.meta);
  return sidecar;
}

}  // namespace meshdns::registry
