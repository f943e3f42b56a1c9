// SPDX-License-Identifier: Apache-2.0
#include "dnsd/config/sections.hpp"

#include <map>

#include "dnsd/config/value_codecs.hpp"
#include "dnsd/config/values.hpp"
#include "registry/base/host_name.hpp"

namespace meshdns::dnsd::schema {
namespace {

using Overrides = std::map<std::string, Override>;

std::string remedy_for_override(std::string_view text) {
  std::string lower = to_lower(text);
  if (lower == "nxdomain" || lower == "refused") return lower;
  if (IpAddress::parse(text)) return "[" + in_quotes(text) + "]";
  return R"(nxdomain, refused or a list of addresses, as in ["192.0.2.1"])";
}

std::optional<Override> read_override(const Node& node, const Place& place) {
  if (node.is_scalar() && node.text() == "nxdomain") return Override{OverrideAction::NxDomain, {}};
  if (node.is_scalar() && node.text() == "refused") return Override{OverrideAction::Refused, {}};
  if (node.is_scalar() && !node.is_null()) {
    place.error(node.line(), in_quotes(node.text()) + " is not an override; write " +
                                 remedy_for_override(node.text()));
    return std::nullopt;
  }
  auto addresses = non_empty(list(address()), "write nxdomain to deny the name").read(node, place);
  if (!addresses) return std::nullopt;
  return Override{OverrideAction::Addresses, *std::move(addresses)};
}

void print_override(Json& json, const Override& value) {
  if (value.action == OverrideAction::Addresses)
    return list(address()).print(json, value.addresses);
  print_text(json, value.action == OverrideAction::NxDomain ? "nxdomain" : "refused");
}

// Special-use names come before overrides.
void warn_of_special_name(std::string_view suffix, std::uint32_t line, const Place& at) {
  const std::string_view zone = special_zone_of(suffix);
  if (!zone.empty())
    at.warn(line, "has no effect: " + std::string(zone) + " is a special-use name, which meshdns " +
                      (zone == "localhost" ? "answers with the loopback addresses" : "denies"));
}

}  // namespace

Codec<Dns64Config> dns64() {
  const auto translation_prefix =
      checked(prefix(), [](const IpPrefix& value) -> std::string {  // RFC 6052, section 2.2
        constexpr unsigned kLengths[] = {32, 40, 48, 56, 64, 96};
        const bool good = value.address.is_v6() &&
                          std::ranges::find(kLengths, value.length) != std::end(kLengths);
        return good ? "" : "must be IPv6 of 32, 40, 48, 56, 64 or 96 bits";
      });
  return section<Dns64Config>({
      field("prefix", &Dns64Config::prefix, optional(translation_prefix)),
  });
}

Codec<HostsConfig> hosts() {
  return section<HostsConfig>({field("file", &HostsConfig::file, text())});
}

Codec<Overrides> overrides() {
  return mapping<Overrides>(
      [](const Node& entry, const Place& at, Overrides& result) {
        const auto suffix = parse_domain(entry.key());
        if (!suffix) at.error(entry.line(), suffix.error().message);
        if (suffix) warn_of_special_name(*suffix, entry.line(), at);
        auto value = read_override(entry, at);
        if (suffix && value && !result.emplace(*suffix, *std::move(value)).second)
          at.error(entry.line(), "suffix " + in_quotes(*suffix) + " is listed twice");
      },
      print_override);
}

}  // namespace meshdns::dnsd::schema
