// SPDX-License-Identifier: Apache-2.0
#include "registry/manifest/validate.hpp"

#include <algorithm>
#include <array>
#include <set>

#include "registry/base/did_you_mean.hpp"
#include "registry/base/host_name.hpp"

namespace meshdns::registry {

namespace {

constexpr std::size_t kMaxLabelOctets = 63;
constexpr std::size_t kMaxLabels = 256;  // the CRD's maxProperties

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter_or_digit(char c) {
  return is_digit(c) || (to_lower(c) >= 'a' && to_lower(c) <= 'z');
}
bool has_upper(std::string_view text) {
  return std::ranges::any_of(text, [](char c) { return c >= 'A' && c <= 'Z'; });
}

// Returns the reason why is_label() refuses `label`.
std::string label_fault(std::string_view label) {
  if (label.empty()) return "has an empty label";
  if (label.size() > kMaxLabelOctets) return "has a label of more than 63 octets";
  if (label.find('*') != std::string_view::npos) return "has a wildcard that is not leftmost";
  if (label.find('_') != std::string_view::npos)
    return "has an underscore, which Istio and Kubernetes refuse; use a hyphen, or a hosts file "
           "(hosts.file)";
  if (label.front() == '-' || label.back() == '-')
    return "has a label that begins or ends with a hyphen";
  const bool is_ascii = std::ranges::all_of(label, [](char c) { return (c & 0x80) == 0; });
  return std::string("has a character that is not a letter, digit or hyphen") +
         (is_ascii ? ""
                   : "; write the ASCII form of the name (xn--...), which the program idn2 prints");
}

std::string_view without_final_dot(std::string_view name) {
  if (name.ends_with('.')) name.remove_suffix(1);
  return name;
}

std::optional<std::string> why_too_long(std::string_view name) {
  if (without_final_dot(name).size() <= kMaxHostLength) return std::nullopt;
  return "has more than 253 bytes";
}

// The labels of a name that the predicates refuse.
std::string first_label_fault(std::string_view name) {
  std::string_view rest = without_final_dot(name);
  for (;;) {
    const std::size_t dot = rest.find('.');
    const std::string_view label = rest.substr(0, dot);
    if (!is_label(label)) return label_fault(label);
    if (dot == std::string_view::npos) return "ends in a numeric label";
    rest.remove_prefix(dot + 1);
  }
}

// Kubernetes' "qualified name": letters, digits, -, _ and ., with a letter or digit at both ends.
bool is_qualified_name(std::string_view text) {
  if (text.empty() || text.size() > kMaxLabelOctets) return false;
  if (!is_letter_or_digit(text.front()) || !is_letter_or_digit(text.back())) return false;
  return std::ranges::all_of(
      text, [](char c) { return is_letter_or_digit(c) || c == '-' || c == '_' || c == '.'; });
}

// Unlike a host's, the last label may be a number.
bool are_labels(std::string_view name) {
  for (std::size_t from = 0; from <= name.size();) {
    const std::size_t dot = std::min(name.find('.', from), name.size());
    if (!is_label(name.substr(from, dot - from))) return false;
    from = dot + 1;
  }
  return true;
}

bool is_label_key(std::string_view key) {
  const std::size_t slash = key.find('/');
  if (slash == std::string_view::npos) return is_qualified_name(key);
  const std::string_view prefix = key.substr(0, slash);
  if (prefix.size() > kMaxHostLength || !are_labels(prefix)) return false;
  return is_qualified_name(key.substr(slash + 1));
}

std::optional<std::string> why_no_export_target(std::string_view text) {
  if (text == "." || text == "*" || text == "~" || is_label(text)) return std::nullopt;
  return in_quotes(text) + R"( is neither ".", "*", "~" nor the name of a namespace)";
}

}  // namespace

std::optional<std::string> why_no_fqdn(std::string_view name) {
  if (name.empty()) return "is empty";
  if (auto reason = why_too_long(name)) return reason;
  if (is_fqdn(name)) return std::nullopt;
  if (IpAddress::parse(name)) return "is an IP address, not a name";
  if (name.starts_with('*')) return "has a wildcard, but must be a full name";
  return first_label_fault(name);
}

std::optional<std::string> why_no_external_name(std::string_view name) {
  if (auto reason = why_too_long(name)) return reason;
  if (!IpAddress::parse(name) && are_labels(without_final_dot(name))) return std::nullopt;
  return why_no_fqdn(name);
}

std::optional<std::string> why_no_wildcard_domain(std::string_view name) {
  if (!name.starts_with('*')) return why_no_fqdn(name);
  if (auto reason = why_too_long(name)) return reason;
  if (is_wildcard_domain(name)) return std::nullopt;
  const std::size_t dot = name.find('.');
  const std::string_view first = name.substr(1, dot == std::string_view::npos ? dot : dot - 1);
  if (!first.empty() && !is_label(first.starts_with('-') ? first.substr(1) : first))
    return label_fault(first);
  return first_label_fault(name.substr(std::min(dot, name.size() - 1) + 1));
}

bool is_partial_wildcard(std::string_view name) {
  return name.size() > 1 && name.find('*') != std::string_view::npos && !name.starts_with("*.");
}

bool is_lower_label(std::string_view name) { return is_label(name) && !has_upper(name); }

bool is_lower_subdomain(std::string_view name) {
  if (name.empty() || name.size() > kMaxHostLength || has_upper(name)) return false;
  for (;;) {
    const std::size_t dot = name.find('.');
    // Labels of an object's name may be longer than DNS has it; the whole is bounded.
    const std::string_view label = name.substr(0, dot);
    if (label.empty() || label.front() == '-' || label.back() == '-') return false;
    if (!std::ranges::all_of(label, [](char c) { return is_letter_or_digit(c) || c == '-'; }))
      return false;
    if (dot == std::string_view::npos) return true;
    name.remove_prefix(dot + 1);
  }
}

std::optional<std::string> why_no_lower_label(std::string_view name) {
  if (is_lower_label(name)) return std::nullopt;
  return in_quotes(name) + " is not a name of 1 to 63 lower-case letters, digits and inner hyphens";
}

std::optional<std::string> why_no_lower_subdomain(std::string_view name) {
  if (is_lower_subdomain(name)) return std::nullopt;
  return in_quotes(name) + " is not a name of lower-case letters, digits, inner hyphens and dots";
}

ProtocolClass protocol_class(std::string_view protocol) {
  if (protocol.empty()) return ProtocolClass::Unset;
  const std::string word = to_lower(protocol);
  const auto is_any_of = [&](auto... names) { return ((word == names) || ...); };
  if (is_any_of("http", "http2", "http_proxy", "grpc", "grpc-web")) return ProtocolClass::Http;
  if (is_any_of("https", "tls")) return ProtocolClass::Tls;
  if (is_any_of("tcp", "mongo", "redis", "mysql")) return ProtocolClass::Tcp;
  if (is_any_of("udp")) return ProtocolClass::Udp;
  return ProtocolClass::Unknown;
}

bool is_tcp_family(std::string_view protocol) {
  const ProtocolClass kind = protocol_class(protocol);
  return kind == ProtocolClass::Tcp || kind == ProtocolClass::Tls;
}

std::optional<std::string> why_no_unix_address(std::string_view address) {
  address.remove_prefix(kUnixPrefix.size());
  if (address.empty()) return "does not name a socket";
  if (address.starts_with('@')) return std::nullopt;
  if (!address.starts_with('/') || address.ends_with('/'))
    return "is not an absolute path to a socket";
  return std::nullopt;
}

void check_workload_labels(Report& report, const std::optional<Field>& labels) {
  if (!labels || !(*labels)->is_mapping()) return;
  if ((*labels)->size() > kMaxLabels)
    report.error(*labels, "has more than " + std::to_string(kMaxLabels) + " labels");
  for (const Node& node : labels->node()) {
    const Field label(*labels, node);
    if (!is_label_key(node.key()))
      report.error(label, in_quotes(node.key()) + " is not a valid label key");
    const auto value = node.as_string();
    if (value && !value->empty() && !is_qualified_name(*value))
      report.error(label, in_quotes(*value) + " is not a valid label value");
  }
}

std::optional<Labels> read_workload_selector(Report& report, const std::optional<Field>& selector) {
  static constexpr Message message{words<"labels">};
  if (!selector) return std::nullopt;
  const Fields fields(report, *selector, message);
  const auto labels_field = fields.get("labels");
  Labels labels = read_labels(report, labels_field);
  const bool is_empty = !labels_field || (*labels_field)->size() == 0;
  if (is_empty)
    report.warning(*selector,
                   "the selector has no labels, so it selects every workload of the namespace");
  if (!labels_field || !(*labels_field)->is_mapping()) return labels;
  for (const Node& node : labels_field->node()) {
    const Field label(*labels_field, node);
    if (node.key().empty()) report.error(label, "a label of the selector has an empty key");
    const auto contains_star = [](std::string_view text) {
      return text.find('*') != std::string_view::npos;
    };
    if (contains_star(node.key()) || contains_star(node.value()))
      report.error(label, "selectors do not support wildcards; write the whole key and value");
  }
  return labels;
}

ExportTo read_export_to(Report& report, const std::optional<Field>& field, std::string_view ns) {
  ExportTo export_to;
  std::set<std::string, std::less<>> seen;
  bool has_public = false;
  bool has_none = false;
  for_each_string(report, field, [&](const Field& at, std::string_view text) {
    if (auto reason = why_no_export_target(text)) return report.error(at, std::move(*reason));
    has_public |= text == "*";
    has_none |= text == "~";
    std::string target = to_lower(text);
    const bool is_new = seen.insert(target == "." ? std::string(ns) : target).second;
    if (!is_new)
      report.error(at, in_quotes(text) + (text == "." || target == ns
                                              ? " is given twice (\".\" is the own namespace)"
                                              : " is given twice"));
    export_to.push_back(std::move(target));
  });
  if (!field || (*field)->size() < 2) return export_to;
  if (has_public) report.error(*field, R"("*" includes all namespaces; remove the others)");
  if (has_none) report.error(*field, R"("~" means no namespace; it must be the only value)");
  return export_to;
}

void check_port_name(Report& report, const Field& field, std::string_view name) {
  if (is_label(name)) return;
  report.error(field,
               in_quotes(name) + " is not a port name: 1 to 63 letters, digits and inner hyphens");
}

std::string read_istio_protocol(Report& report, const std::optional<Field>& field) {
  static constexpr auto& known =
      words<"TCP UDP GRPC GRPC-WEB HTTP HTTP_PROXY HTTP2 HTTPS TLS MONGO REDIS MYSQL">;
  const std::string_view text = read_string_or_empty(report, field);
  if (protocol_class(text) == ProtocolClass::Unknown)
    report.error(*field, in_quotes(text) + " is not a protocol that Istio supports" +
                             did_you_mean(text, known));
  std::string upper(text);
  for (char& c : upper)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 32);
  return upper;
}

void read_kube_port_name(Report& report, const Field& field, ServicePort& port) {
  port.name = to_lower(read_string_or_empty(report, field));
  if (!port.name.empty()) check_port_name(report, field, port.name);
}

void read_kube_port_protocol(Report& report, const Field& field, ServicePort& port) {
  static constexpr std::array<std::string_view, 3> known = {"TCP", "UDP", "SCTP"};
  port.protocol = known[read_choice_or_first(report, field, known)];
}

bool is_too_long(Report& report, const std::optional<Field>& list, std::size_t max,
                 std::string_view who) {
  if (!list || (*list)->size() <= max) return false;
  report.error(*list, "has " + std::to_string((*list)->size()) + " elements; " + std::string(who) +
                          " allows at most " + std::to_string(max));
  return true;
}

}  // namespace meshdns::registry
