// SPDX-License-Identifier: Apache-2.0
#include "dnsd/config/value_codecs.hpp"

#include <algorithm>
#include <set>

#include "dnsd/config/values.hpp"
#include "registry/base/host_name.hpp"

namespace meshdns::dnsd::schema {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using std::chrono::seconds;

// Returns whether any address of the prefix is the unspecified one, a loopback or a multicast
// address.
bool is_special(const IpPrefix& prefix) {
  for (const std::string_view special :
       {"0.0.0.0/8", "127.0.0.0/8", "224.0.0.0/4", "::/127", "ff00::/8"}) {
    const IpPrefix other = *IpPrefix::parse(special);
    if (prefix.contains(other.address) || other.contains(prefix.address)) return true;
  }
  return false;
}

}  // namespace

Codec<milliseconds> duration(milliseconds min, milliseconds max) {
  const auto parse = [=](std::string_view words) -> Result<milliseconds> {
    const auto value = parse_duration(words);
    if (!value || (*value >= min && *value <= max)) return value;
    return fail(in_quotes(words) + " is not from " + format_duration(min) + " to " +
                format_duration(max));
  };
  return text_value(parse, format_duration);
}

Codec<seconds> whole_seconds(seconds max) {
  const auto parse = [=](std::string_view words) -> Result<seconds> {
    const auto value = parse_duration(words);
    if (!value) return std::unexpected(value.error());
    if (*value > max) return fail(in_quotes(words) + " is more than " + format_duration(max));
    if (*value % 1s != 0ms) return fail(in_quotes(words) + " is not in whole seconds");
    return std::chrono::duration_cast<seconds>(*value);
  };
  return text_value(parse, [](seconds value) { return format_duration(value); });
}

Codec<IpAddress> address() {
  const auto parse = [](std::string_view words) -> Result<IpAddress> {
    if (const auto value = IpAddress::parse(words)) return *value;
    return fail(in_quotes(words) + " is not an IP address");
  };
  return text_value(parse);
}

Codec<IpPrefix> prefix() {
  const auto parse = [](std::string_view words) -> Result<IpPrefix> {
    if (const auto value = IpPrefix::parse(words)) return *value;
    return fail(in_quotes(words) +
                " is not a prefix; write it as in \"10.0.0.0/8\" or \"fc00::/7\"");
  };
  return text_value(parse);
}

// One family, and lengths within which a pool of VIPs makes sense.
Codec<IpPrefix> vip_prefix(bool v4, unsigned min_length, unsigned max_length) {
  return checked(prefix(), [=](const IpPrefix& value) -> std::string {
    if (value.address.is_v4() != v4)
      return in_quotes(value.to_string()) + (v4 ? " is not IPv4" : " is not IPv6");
    if (value.length < min_length || value.length > max_length)
      return in_quotes(value.to_string()) + " is not a prefix of " + std::to_string(min_length) +
             " to " + std::to_string(max_length) + " bits";
    // Without its host bits the pool may not be the one that was meant.
    if (value != value.network())
      return in_quotes(value.to_string()) + " has host bits set; write " +
             in_quotes(value.network().to_string());
    if (is_special(value))
      return in_quotes(value.to_string()) +
             " contains unspecified, loopback or multicast addresses, which no host can have";
    return "";
  });
}

Codec<std::string> domain() { return text_value(parse_domain); }

Codec<std::string> namespace_name() {
  const auto parse = [](std::string_view words) -> Result<std::string> {
    if (is_label(words) && to_lower(words) == words) return std::string(words);
    return fail(in_quotes(words) + " is not the name of a namespace");
  };
  return text_value(parse);
}

// A namespace, or "*" for all of them.
Codec<std::string> namespace_or_all() {
  const auto parse = [](std::string_view words) -> Result<std::string> {
    if (words == "*" || (is_label(words) && to_lower(words) == words)) return std::string(words);
    return fail(in_quotes(words) + R"( is neither "*" nor the name of a namespace)");
  };
  return text_value(parse);
}

Codec<std::vector<std::string>> zone_list(bool root_allowed) {
  const auto parse = [=](std::string_view words) -> Result<std::vector<std::string>> {
    if (words == "." && !root_allowed) return fail("the root zone cannot be used here");
    return parse_zones(words);
  };
  const auto format = [](const std::vector<std::string>& zones) { return zones.front(); };
  const auto entries = list(text_value(parse, format));
  return {[=](const Node& node, const Place& place) -> std::optional<std::vector<std::string>> {
            const auto parsed = entries.read(node, place);
            if (!parsed) return std::nullopt;
            std::vector<std::string> zones;
            for (const auto& of_entry : *parsed)
              zones.insert(zones.end(), of_entry.begin(), of_entry.end());
            return zones;
          },
          [](Json& json, const std::vector<std::string>& zones) {
            json.StartArray();
            for (const std::string& zone : zones) print_text(json, zone.empty() ? "." : zone);
            json.EndArray();
          }};
}

Codec<registry::ExportTo> export_to() {
  const auto parse = [](std::string_view words) -> Result<std::string> {
    if (words == "." || words == "*" || words == "~" || is_label(words)) return std::string(words);
    return fail(in_quotes(words) + R"( is neither ".", "*", "~" nor the name of a namespace)");
  };
  return checked(
      non_empty(list(text_value(parse)), R"(write ["*"] for all namespaces or ["~"] for none)"),
      [](const registry::ExportTo& value) -> std::string {
        const bool hidden = std::ranges::find(value, "~") != value.end();
        return hidden && value.size() > 1 ? R"("~" must be the only value)" : "";
      });
}

Codec<registry::Labels> text_map(std::size_t max_text) {
  const auto read_entry = [=](const Node& entry, const Place& place, registry::Labels& labels) {
    if (auto value = text(max_text).read(entry, place))
      labels.emplace_back(std::string(entry.key()), *std::move(value));
  };
  auto codec = mapping<registry::Labels>(read_entry, print_text);
  codec.read = [read = codec.read](const Node& node, const Place& place) {
    auto labels = read(node, place);
    if (labels) std::ranges::sort(*labels);
    return labels;
  };
  return codec;
}

Codec<registry::Labels> labels() { return text_map(63); }

}  // namespace meshdns::dnsd::schema
