// SPDX-License-Identifier: Apache-2.0
#include "resolver/wire/upstream_query.hpp"

#include <cstring>

#include "resolver/wire/octets.hpp"

namespace meshdns::wire {
namespace {

std::size_t options_size(const UpstreamQuery& query) {
  return (query.cookie.empty() ? 0 : 4 + query.cookie.size()) + (query.keepalive ? 4u : 0u);
}

std::uint8_t* write_opt(std::uint8_t* at, const UpstreamQuery& query) {
  *at++ = 0;
  store_u16(at, static_cast<std::uint16_t>(Type::Opt));
  store_u16(at + 2, query.udp_payload);
  store_u32(at + 4, query.dnssec_ok ? 0x8000u : 0u);
  store_u16(at + 8, static_cast<std::uint16_t>(options_size(query)));
  at += 10;
  if (!query.cookie.empty()) {
    store_u16(at, 10);
    store_u16(at + 2, static_cast<std::uint16_t>(query.cookie.size()));
    std::memcpy(at + 4, query.cookie.data(), query.cookie.size());
    at += 4 + query.cookie.size();
  }
  if (query.keepalive) {
    store_u32(at, 11u << 16);  // no data in a query (RFC 7828, section 3.2.1)
    at += 4;
  }
  return at;
}

bool is_cookie(std::string_view cookie) {
  return cookie.empty() || cookie.size() == 8 || (cookie.size() >= 16 && cookie.size() <= 40);
}

}  // namespace

std::size_t build_query(std::span<std::uint8_t> buffer, const UpstreamQuery& query) {
  const std::size_t size =
      kHeaderSize + query.name.size() + 4 + (query.edns ? kOptSize + options_size(query) : 0);
  if (size > buffer.size() || !is_cookie(query.cookie)) return 0;
  std::uint8_t* at = buffer.data();
  store_u16(at, query.id);
  at[2] = query.recursion_desired ? 0x01 : 0;
  at[3] = static_cast<std::uint8_t>((query.authentic_data ? 0x20u : 0u) |
                                    (query.checking_disabled ? 0x10u : 0u));
  store_u16(at + 4, 1);
  store_u32(at + 6, 0);
  store_u16(at + 10, query.edns ? 1 : 0);
  at += kHeaderSize;
  std::memcpy(at, query.name.data(), query.name.size());
  at += query.name.size();
  store_u16(at, static_cast<std::uint16_t>(query.type));
  store_u16(at + 2, static_cast<std::uint16_t>(query.qclass));
  at += 4;
  if (query.edns) at = write_opt(at, query);
  return static_cast<std::size_t>(at - buffer.data());
}

}  // namespace meshdns::wire
