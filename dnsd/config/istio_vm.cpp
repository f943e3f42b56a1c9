// SPDX-License-Identifier: Apache-2.0
// The values become the text of a configuration, one on each line, so that they are checked by the
// rules for all configurations.  A finding then gets the place of the value on its line.
#include "dnsd/config/istio_vm.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "dnsd/config/hosts_file.hpp"
#include "dnsd/config/load.hpp"
#include "dnsd/config/resolv_conf.hpp"
#include "dnsd/config/schema.hpp"
#include "dnsd/config/values.hpp"
#include "registry/base/host_name.hpp"
#include "registry/base/printable.hpp"
#include "registry/manifest/document.hpp"

namespace meshdns::dnsd {
namespace {

bool is_variable_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// Reads the text once, from the first character to the last.
class EnvReader {
 public:
  explicit EnvReader(std::string_view text) : rest_(text) {}

  std::expected<EnvFile, registry::SyntaxError> read() {
    EnvFile values;
    for (skip_to_assignment(); !rest_.empty(); skip_to_assignment())
      if (auto read = read_assignment(values); !read)
        return std::unexpected(registry::SyntaxError{line_, std::move(read.error().message)});
    return values;
  }

 private:
  static bool is_between_words(char c) { return std::string_view(" \t\r\n;").contains(c); }

  char take() {
    const char c = rest_.front();
    rest_.remove_prefix(1);
    if (c == '\n') ++line_;
    return c;
  }

  void skip_to_assignment() {
    while (!rest_.empty() && (rest_.front() == '#' || is_between_words(rest_.front()))) {
      if (rest_.front() == '#')
        rest_.remove_prefix(std::min(rest_.find('\n'), rest_.size()));
      else
        take();
    }
  }

  Result<void> read_assignment(EnvFile& values) {
    if (rest_.starts_with("export ")) {
      rest_.remove_prefix(7);
      skip_to_assignment();
    }
    const std::uint32_t line = line_;
    const auto end = std::ranges::find_if_not(rest_, is_variable_character);
    const std::string name(rest_.begin(), end);
    rest_.remove_prefix(name.size());
    if (name.empty() || !rest_.starts_with('='))
      return fail("is not an assignment; write it as in \"NAME='value'\"");
    take();
    auto word = read_word();
    if (!word) return fail(name + ": " + word.error().message);
    values[name] = {*std::move(word), line};
    return {};
  }

  Result<std::string> read_word() {
    std::string word;
    char quote = '\0';  // the one that is open
    while (!rest_.empty() && (quote != '\0' || !is_between_words(rest_.front()))) {
      const char c = take();
      if (quote != '\0' && c == quote) {
        quote = '\0';
      } else if (quote == '\0' && (c == '\'' || c == '"')) {
        quote = c;
      } else if (c == '\\' && (quote == '\0' || (quote == '"' && is_escape_in_quotes()))) {
        if (rest_.empty()) return fail("ends with a backslash; remove it");
        // A backslash before the end of a line joins two lines.
        if (const char next = take(); next != '\n') word += next;
      } else if (quote != '\'' && std::string_view(quote == '\0' ? "$`&|<>()" : "$`").contains(c)) {
        return fail("has an unquoted " + in_quotes(std::string_view(&c, 1)) +
                    ", which needs a shell; write the value itself, in single quotes");
      } else {
        word += c;
      }
    }
    if (quote != '\0') return fail("has a quote that does not end; add it");
    return word;
  }

  // In double quotes, a backslash before any other character is one.
  bool is_escape_in_quotes() const {
    return !rest_.empty() && std::string_view("\\\"$`\n").contains(rest_.front());
  }

  std::string_view rest_;
  std::uint32_t line_ = 1;
};

}  // namespace

std::expected<EnvFile, registry::SyntaxError> parse_env_file(std::string_view text) {
  return EnvReader(text).read();
}

namespace {

using registry::Finding;
using registry::Severity;

// The default of Istio's ProxyConfig.
constexpr std::string_view kDefaultDiscovery = "istiod.istio-system.svc:15012";
constexpr std::string_view kConfigureAgain =
    "; run \"istioctl x workload entry configure\" again, and copy all files that it writes";

const registry::DocumentLimits kVmLimits{
    .max_bytes = std::size_t{1} << 20, .max_depth = 32, .max_values = 20'000};

std::string json_text(std::string_view text) {
  rapidjson::StringBuffer buffer;
  schema::Json json(buffer);
  schema::print_text(json, text);
  return {buffer.GetString(), buffer.GetSize()};
}

// The place where a person finds a value, as a finding without a message.
Finding place_in(std::string path, std::uint32_t line = 0, std::string field = {}) {
  return {Severity::Error, std::move(path), line, {}, {}, std::move(field), {}};
}

class IstioVmReader {
 public:
  IstioVmReader(std::string directory, const Machine& machine)
      : directory_(std::move(directory)), machine_(machine) {}

  std::optional<IstiodSource> read() {
    read_environment();
    put("{\"sources\": [{\"istiod\": {");
    put_address();
    put_file("ca_file", "root-cert.pem");
    put_file("token_file", "istio-token");
    put("\"node\": {");
    put_node();
    put("}}}]}");
    if (is_refused_) return std::nullopt;
    return check();
  }
  std::vector<Finding> take_findings() { return std::move(findings_); }

 private:
  std::string path_of(std::string_view file) const { return directory_ + "/" + std::string(file); }

  void complain(Finding place, std::string message) {
    is_refused_ = true;
    place.message = std::move(message);
    findings_.push_back(std::move(place));
  }

  void put(std::string_view line, Finding place = {}) {
    text_ += line;
    text_ += '\n';
    places_.push_back(std::move(place));
  }
  void put(std::string_view key, std::string_view value, Finding place) {
    put(json_text(key) + ": " + json_text(value) + ",", std::move(place));
  }

  // Empty after a complaint.
  std::string read_file(std::string_view name) {
    auto text = read_text_file(path_of(name));
    if (!text)
      complain(place_in(path_of(name)), text.error().message.substr(path_of(name).size() + 2) +
                                            std::string(kConfigureAgain));
    else if (text->find_first_not_of(" \t\r\n") == std::string::npos)
      complain(place_in(path_of(name)), "is empty" + std::string(kConfigureAgain));
    else
      return *std::move(text);
    return {};
  }

  void read_environment() {
    auto values = parse_env_file(read_file("cluster.env"));
    if (values)
      environment_ = *std::move(values);
    else
      complain(place_in(path_of("cluster.env"), values.error().line), values.error().message);
  }

  // A variable that is set to something.
  const EnvValue* variable(std::string_view name) const {
    const auto found = environment_.find(name);
    return found == environment_.end() || found->second.text.empty() ? nullptr : &found->second;
  }

  Finding place_of(std::string_view variable, std::uint32_t line = 0) const {
    return place_in(path_of("cluster.env"), line, std::string(variable));
  }

  bool put_variable(std::string_view key, std::string_view name) {
    const EnvValue* const value = variable(name);
    if (value != nullptr) put(key, value->text, place_of(name, value->line));
    return value != nullptr;
  }

  // The place of istiod: the name in mesh.yaml with the address in hosts.
  void put_address() {
    std::string discovery(kDefaultDiscovery);
    Finding place = place_in(path_of("mesh.yaml"), 0, "defaultConfig.discoveryAddress");
    if (!read_discovery_address(discovery, place)) return;
    const std::size_t colon = discovery.rfind(':');
    const std::string host = canonical_host(discovery.substr(0, colon));
    const bool has_server_name = put_variable("server_name", "ISTIOD_SAN");
    if (!is_fqdn(host) || IpAddress::parse(host)) return put("address", discovery, place);
    if (const auto address = address_of(host)) {
      const std::string ip =
          address->is_v6() ? "[" + address->to_string() + "]" : address->to_string();
      if (!has_server_name) put("server_name", host, place);
      discovery.replace(0, std::min(colon, discovery.size()), ip);
    }
    put("address", discovery, place);
  }

  // False after a complaint.
  bool read_discovery_address(std::string& address, Finding& place) {
    const auto look = [&](const registry::Document& document) {
      const registry::Node* const config = document.root.find("defaultConfig");
      const registry::Node* const found =
          config == nullptr ? nullptr : config->find("discoveryAddress");
      if (found == nullptr || found->text().empty()) return;
      address = found->text();
      place.line = found->line();
    };
    const std::string text = read_file("mesh.yaml");
    const auto read = registry::read_handwritten_documents(text, kVmLimits, look);
    if (!read) complain(place_in(path_of("mesh.yaml"), read.error().line), read.error().message);
    return read && !text.empty();
  }

  std::optional<IpAddress> address_of(const std::string& host) {
    if (const auto hosts = read_hosts_file(path_of("hosts")))
      for (const HostsFile::Entry& entry : hosts->entries)
        if (std::ranges::find(entry.names, host) != entry.names.end()) return entry.address;
    Finding warning = place_in(path_of("hosts"));
    warning.severity = Severity::Warning;
    warning.message =
        "has no address of " + host +
        "; the name must be in /etc/hosts then, or known to the resolver of this machine; write "
        "\"ADDRESS " +
        host + "\" into the file, or run istioctl with --ingressIP";
    findings_.push_back(std::move(warning));
    return std::nullopt;
  }

  void put_file(std::string_view key, std::string_view name) {
    read_file(name);
    put(key, path_of(name), place_in(path_of(name)));
  }

  void put_node() {
    put_node_address();
    if (!put_variable("name", "POD_NAME"))
      put("name", machine_.host_name, place_of("POD_NAME (the name of this machine)"));
    if (!put_variable("namespace", "POD_NAMESPACE") &&
        !put_variable("namespace", "ISTIO_NAMESPACE") && !environment_.empty())
      complain(place_of("POD_NAMESPACE"), "is missing; write the namespace of the workload");
    put_variable("cluster", "ISTIO_META_CLUSTER_ID");
    put_variable("network", "ISTIO_META_NETWORK");
    put_labels();
    put_metadata();
  }

  // istio-agent tells istiod all of these variables.  Some of them change the names:
  // ISTIO_META_DNS_AUTO_ALLOCATE lets istiod allocate addresses.
  void put_metadata() {
    constexpr std::string_view kPrefix = "ISTIO_META_";
    put("\"metadata\": {");
    for (const auto& [name, value] : environment_)
      if (name.starts_with(kPrefix) && name.size() > kPrefix.size() && !value.text.empty())
        put(std::string_view(name).substr(kPrefix.size()), value.text, place_of(name, value.line));
    put("},");
  }

  void put_node_address() {
    if (put_variable("address", "ISTIO_SVC_IP")) return;
    if (machine_.addresses.empty())
      return complain(place_of("ISTIO_SVC_IP"),
                      "is missing, and this machine has no address besides loopback and link-local "
                      "ones; write the IP address of the workload");
    put("address", machine_.addresses.front().to_string(), place_of("ISTIO_SVC_IP"));
  }

  void put_labels() {
    const EnvValue* const value = variable("ISTIO_METAJSON_LABELS");
    if (value == nullptr) return;
    const Finding place = place_of("ISTIO_METAJSON_LABELS", value->line);
    registry::JsonParser parser(kVmLimits);
    const auto root = parser.parse(value->text);
    if (!root || !(*root)->is_mapping() || !parser.problems().empty())
      return complain(place, R"(is not a JSON object; write it as in '{"app":"vm"}')");
    std::string line = "\"labels\": {";
    for (const registry::Node& label : **root) {
      if (!label.as_string())
        return complain(place, "the label " + in_quotes(label.key()) + " is not a text; quote it");
      line += json_text(label.key()) + ": " + json_text(label.text()) + ", ";
    }
    put(line + "},", place);
  }

  std::optional<IstiodSource> check() {
    auto loaded = parse_config(text_, directory_);
    for (Finding& finding : loaded.findings) {
      Finding place = places_.at(finding.line - 1);
      if (place.path.empty()) place.path = directory_;
      complain(std::move(place), std::move(finding.message));
    }
    if (is_refused_) return std::nullopt;
    return std::get<IstiodSource>(loaded.config.sources.at(0));
  }

  const std::string directory_;
  const Machine& machine_;
  EnvFile environment_;
  std::string text_;             // of a configuration
  std::vector<Finding> places_;  // by line of the text
  std::vector<Finding> findings_;
  bool is_refused_ = false;
};

bool is_link_local(const IpAddress& address) {
  static const std::array kLinkLocal = {*IpPrefix::parse("169.254.0.0/16"),
                                        *IpPrefix::parse("fe80::/10")};
  return std::ranges::any_of(kLinkLocal,
                             [&](const IpPrefix& prefix) { return prefix.contains(address); });
}

}  // namespace

Machine this_machine() {
  Machine machine;
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) == 0) machine.host_name = name.data();
  machine.host_name = machine.host_name.substr(0, machine.host_name.find('.'));
  machine.addresses = local_addresses();
  std::erase_if(machine.addresses, [](const IpAddress& address) {
    return address.is_loopback() || is_link_local(address);
  });
  return machine;
}

std::vector<Finding> add_istio_vm(const std::string& directory, const Machine& machine,
                                  Config& config) {
  IstioVmReader reader(directory, machine);
  auto source = reader.read();
  auto findings = reader.take_findings();
  const auto is_istiod = [](const SourceConfig& configured) {
    return std::holds_alternative<IstiodSource>(configured);
  };
  if (std::ranges::any_of(config.sources, is_istiod)) {
    findings.push_back(place_in(directory));
    findings.back().message =
        "describes an istiod source, and the configuration file has one, too; remove it from the "
        "file, or start without --istio-vm";
  }
  if (!source) return findings;
  if (config.client.default_identity == ClientIdentityConfig())
    config.client.default_identity.ns = source->node.ns;
  config.sources.emplace_back(*std::move(source));
  return findings;
}

}  // namespace meshdns::dnsd
