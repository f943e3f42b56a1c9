// SPDX-License-Identifier: Apache-2.0
#include "dnsd/answer/query_settings.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>

#include "resolver/wire/octets.hpp"

namespace meshdns::dnsd {
namespace {

struct Halves {
  std::uint64_t high;
  std::uint64_t low;
};

Halves halves_of(const IpAddress& address) {
  const std::uint8_t* const octets = address.octets().data();
  const auto load = [](const std::uint8_t* at) {
    return std::uint64_t{wire::load_u32(at)} << 32 | wire::load_u32(at + 4);
  };
  return {load(octets), load(octets + 8)};
}

std::uint64_t upper_bits(unsigned count) {
  return count == 0 ? 0 : ~std::uint64_t{0} << (64 - std::min(count, 64U));
}

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

}  // namespace

AccessList::AccessList(const std::vector<IpPrefix>& prefixes) {
  for (const IpPrefix& prefix : prefixes) {
    // IPv4 is held as IPv4-mapped: 96 bits come before its own.
    const unsigned bits = prefix.length + (prefix.address.is_v4() ? 96U : 0U);
    const std::uint64_t high_mask = upper_bits(std::min(bits, 64U));
    const std::uint64_t low_mask = upper_bits(bits > 64 ? bits - 64 : 0);
    const Halves halves = halves_of(prefix.address);
    masks_.push_back({high_mask, halves.high & high_mask, low_mask, halves.low & low_mask});
  }
}

bool AccessList::contains(const IpAddress& address) const {
  const Halves halves = halves_of(address);
  return std::ranges::any_of(masks_, [&](const Mask& mask) {
    return (halves.high & mask.high_mask) == mask.high && (halves.low & mask.low_mask) == mask.low;
  });
}

bool QuerySettings::answers_cookies_of(const IpAddress& client) const {
  return cookie_secrets && cookies != CookieMode::Off &&
         (cookies == CookieMode::On || !client.is_loopback());
}

QuerySettings QuerySettings::from(const Config& config) {
  QuerySettings settings;
  settings.allow = AccessList(config.server.allow);
  settings.chaos = config.server.chaos;
  settings.nsid = config.server.nsid;
  settings.rate_limit = config.server.rate_limit;
  settings.cookies = config.server.cookies.mode;
  settings.timeout = config.upstream.timeout;
  settings.dns64 = config.dns64.prefix;
  settings.served = std::make_shared<const LocallyServedZones>(config.upstream);
  settings.registry_only = std::make_shared<const RegistryOnly>(config.upstream);
  settings.server_version = "meshdns " MESHDNS_VERSION;
  settings.server_identity = host_name();
  for (const SocketAddress& listen : config.server.listen)
    if (!listen.ip.is_loopback() && !listen.ip.is_unspecified())
      settings.server_addresses.push_back(listen.ip);
  return settings;
}

}  // namespace meshdns::dnsd
