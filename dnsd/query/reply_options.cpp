// SPDX-License-Identifier: Apache-2.0
#include "dnsd/query/reply_options.hpp"

#include <cstring>

#include "resolver/wire/octets.hpp"

namespace meshdns::dnsd {
namespace {

constexpr std::uint16_t kNsid = 3;
constexpr std::uint16_t kCookie = 10;
constexpr std::uint16_t kKeepalive = 11;

std::size_t append(std::span<std::uint8_t> memory, std::size_t at, std::uint16_t code,
                   std::span<const std::uint8_t> data) {
  if (memory.size() - at < data.size() + 4) return at;
  wire::store_u16(memory.data() + at, code);
  wire::store_u16(memory.data() + at + 2, static_cast<std::uint16_t>(data.size()));
  std::memcpy(memory.data() + at + 4, data.data(), data.size());
  return at + 4 + data.size();
}

}  // namespace

void ReplyOptions::apply(wire::MessageWriter& writer) const {
  if (!nsid.empty()) writer.set_nsid(nsid);
  if (keepalive) writer.set_keepalive(*keepalive);
  if (cookie) writer.set_cookie(*cookie);
}

std::span<const std::uint8_t> ReplyOptions::encode(std::span<std::uint8_t> memory) const {
  std::size_t size = 0;
  if (!nsid.empty())
    size = append(memory, size, kNsid,
                  {reinterpret_cast<const std::uint8_t*>(nsid.data()), nsid.size()});
  if (keepalive) {
    std::array<std::uint8_t, 2> units;
    wire::store_u16(units.data(), *keepalive);
    size = append(memory, size, kKeepalive, units);
  }
  if (cookie) size = append(memory, size, kCookie, *cookie);
  return memory.first(size);
}

}  // namespace meshdns::dnsd
