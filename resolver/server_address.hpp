// SPDX-License-Identifier: Apache-2.0
// One upstream server that c-ares asks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "registry/base/ip_address.hpp"

namespace meshdns::resolver {

struct ServerAddress {
  std::string text;  // as it was given
  IpAddress ip;
  std::uint16_t port = 53;
  unsigned scope = 0;  // of a link-local address

  // Reads "10.0.0.53:53", "[2001:db8::1]:53" or "[fe80::1%eth0]:53".  Nothing: the text is none of
  // these, or this machine has no interface of that name.
  static std::optional<ServerAddress> parse(std::string_view text);
};

}  // namespace meshdns::resolver
