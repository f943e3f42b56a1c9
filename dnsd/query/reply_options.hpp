// SPDX-License-Identifier: Apache-2.0
// The EDNS options of replies that the server itself decides on: NSID, keepalive and cookie.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "dnsd/query/server_cookies.hpp"
#include "resolver/wire/message_writer.hpp"

namespace meshdns::dnsd {

struct ReplyOptions {
  std::string_view nsid;                   // RFC 5001; empty = none
  std::optional<std::uint16_t> keepalive;  // RFC 7828, units of 100 ms
  std::optional<Cookie> cookie;            // RFC 7873

  bool empty() const { return nsid.empty() && !keepalive && !cookie; }
  void apply(wire::MessageWriter& writer) const;
  // The same as octets, each option with its code and length.  Valid as long as `memory`; options
  // that do not fit are left out.
  std::span<const std::uint8_t> encode(std::span<std::uint8_t> memory) const;
};

}  // namespace meshdns::dnsd
