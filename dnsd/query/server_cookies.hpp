// SPDX-License-Identifier: Apache-2.0
// Cookies for our clients (RFC 7873), made as servers of every maker make them (RFC 9018): who
// sends one back hears what is sent to its address, so that the address is no forged one.
//
//     client cookie 8 | version 1 | reserved 3 | time 4 | hash 8: of all that and the address
//
// No state is kept for a client: the cookie is computed again and compared.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "dnsd/config/cookie_secrets.hpp"
#include "registry/base/ip_address.hpp"

namespace meshdns::dnsd {

inline constexpr std::size_t kClientCookieOctets = 8;
using Cookie = std::array<std::uint8_t, 24>;  // the client's and ours

enum class CookieCheck : std::uint8_t {
  ClientOnly,  // the client has none of ours yet
  Invalid,     // made with another secret, for another address, or at another time
  Valid,
};
inline constexpr std::size_t kCookieChecks = 3;
std::string_view to_string(CookieCheck check);  // "client_only"

// `cookie`: as the client sent it, of a length that RFC 7873 allows.  `now`: seconds of the Unix
// time; their turn in 2106 does no harm.  Any thread; neither allocates.
CookieCheck check_cookie(std::span<const std::uint8_t> cookie, const IpAddress& client,
                         const CookieSecrets& secrets, std::uint32_t now);
Cookie make_cookie(std::span<const std::uint8_t, kClientCookieOctets> client_cookie,
                   const IpAddress& client, const CookieSecret& secret, std::uint32_t now);

}  // namespace meshdns::dnsd
