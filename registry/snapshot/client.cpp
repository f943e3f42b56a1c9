#include "registry/snapshot/client.hpp"

#include <algorithm>

#include "registry/base/host_name.hpp"

namespace meshdns::registry {

Result<ClientIdentity> parse_node_id(std::string_view node_id) {
  std::vector<std::string_view> parts;
  for (std::string_view rest = node_id;;) {
    const auto tilde = rest.find('~');
    parts.push_back(rest.substr(0, tilde));
    if (tilde == std::string_view::npos) break;
    rest.remove_prefix(tilde + 1);
  }
  const std::string text(node_id);
  if (parts.size() != 4) return fail("\"" + text + "\" is not of the form Type~IP~ID~Domain");
  if (!IpAddress::parse(parts[1]))
    return fail("\"" + std::string(parts[1]) + "\" is not an IP address");
  ClientIdentity identity;
  // The namespace is the ID's last part ("web-1.shop"), else the domain's first label.
  const auto dot = parts[2].rfind('.');
  identity.ns = dot == std::string_view::npos ? std::string(parts[3].substr(0, parts[3].find('.')))
                                              : std::string(parts[2].substr(dot + 1));
  if (!is_label(identity.ns)) return fail("\"" + text + "\" names no namespace");
  identity.description = "node " + text;
  return identity;
}

Ref<const SidecarScope> SidecarScope::compile(const Sidecar& sidecar, const SymbolRef& client_ns,
                                              SymbolTable& symbols, StoredRef source) {
  auto* scope = new SidecarScope;
  Ref<const SidecarScope> result(scope);
  scope->source_ = std::move(source);
  bool excludes = false;
  if (sidecar.egress.empty()) scope->all_ = true;
  for (const auto& listener : sidecar.egress) {
    for (const auto& text : listener.hosts) {
      HostPattern pattern;
      std::string_view host = text;
      if (host.starts_with('~')) {
        pattern.exclude = true;
        host.remove_prefix(1);
      }
      const auto slash = host.find('/');
      if (slash == std::string_view::npos) continue;
      const std::string_view ns = host.substr(0, slash);
      host.remove_prefix(slash + 1);
      if (ns == ".")
        pattern.ns = client_ns;
      else if (!ns.empty() && ns != "*")
        pattern.ns = symbols.intern(ns);
      // "~/*" alone imports nothing: an exclusion of everything.
      if (host == "*") {
        pattern.wildcard = true;
      } else if (host.starts_with("*.")) {
        pattern.wildcard = true;
        pattern.suffix = to_lower(host.substr(2));
      } else {
        pattern.suffix = canonical_host(host);
      }
      pattern.port = listener.port != 0 && listener.protocol != "HTTP_PROXY" ? listener.port
                                                                             : std::uint16_t{0};
      excludes |= pattern.exclude;
      if (!pattern.exclude && pattern.wildcard && pattern.suffix.empty() && pattern.port == 0) {
        if (!pattern.ns)
          scope->all_ = true;
        else {
          scope->whole_namespaces_.push_back(pattern.ns.get());
          scope->held_.push_back(pattern.ns);
        }
        continue;
      }
      scope->patterns_.push_back(std::move(pattern));
    }
  }
  if (!excludes && scope->all_) scope->patterns_.clear();
  std::ranges::stable_partition(scope->patterns_, [](const HostPattern& p) { return p.exclude; });
  std::ranges::sort(scope->whole_namespaces_);
  return result;
}

bool SidecarScope::matches(const HostPattern& pattern, std::string_view host,
                           const ServiceRecord& record) const {
  if (pattern.ns && pattern.ns != record.ns) return false;
  if (pattern.port != 0) {
    const bool has_port =
        record.ports && std::ranges::any_of(record.ports->ports, [&](const ServicePort& p) {
          return p.number == pattern.port;
        });
    if (!has_port) return false;
  }
  if (pattern.wildcard) {
    if (pattern.suffix.empty()) return true;
    // A wildcard host is imported when all that it stands for is: "*.a.com" takes in "*.b.a.com".
    if (host.starts_with("*.")) return is_at_or_below(host.substr(2), pattern.suffix);
    return is_below(host, pattern.suffix);
  }
  return host == pattern.suffix;
}

bool SidecarScope::imports(std::string_view host, const ServiceRecord& record) const {
  for (const auto& pattern : patterns_) {
    if (!pattern.exclude) break;
    if (matches(pattern, host, record)) return false;
  }
  if (imports_namespace(record.ns.get())) return true;
  return std::ranges::any_of(
      patterns_, [&](const HostPattern& p) { return !p.exclude && matches(p, host, record); });
}

bool SidecarScope::imports_namespace(const Symbol* ns) const {
  return all_ || std::ranges::binary_search(whole_namespaces_, ns);
}

bool SidecarScope::excludes_below(std::string_view name, const Symbol* ns) const {
  return std::ranges::any_of(patterns_, [&](const HostPattern& p) {
    return p.exclude && p.wildcard && p.port == 0 && (!p.ns || p.ns.get() == ns) &&
           (p.suffix.empty() || is_at_or_below(name, p.suffix));
  });
}

}  // namespace meshdns::registry
