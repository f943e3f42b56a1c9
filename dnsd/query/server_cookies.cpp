// SPDX-License-Identifier: Apache-2.0
#include "dnsd/query/server_cookies.hpp"

#include <sodium/crypto_shorthash_siphash24.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "registry/base/enum_text.hpp"
#include "resolver/wire/octets.hpp"

namespace meshdns::dnsd {
namespace {

constexpr std::uint8_t kVersion = 1;
constexpr std::size_t kVersionAt = kClientCookieOctets;
constexpr std::size_t kTimeAt = 12;
constexpr std::size_t kHashAt = 16;
// RFC 9018, section 4.3: how old a cookie may be, and how far servers' clocks may differ.
constexpr std::int32_t kMaxAge = 3600;
constexpr std::int32_t kMaxAhead = 300;

using Head = std::span<const std::uint8_t, kHashAt>;

// RFC 9018, section 4.4: SipHash-2-4.  The reserved octets are hashed as received.  The function
// does not need sodium_init, which prepares random numbers and chooses CPU instructions for
// other functions.
std::array<std::uint8_t, 8> hash(Head head, const IpAddress& client, const CookieSecret& secret) {
  std::array<std::uint8_t, kHashAt + 16> message{};
  const std::span<const std::uint8_t> address =
      std::span(client.octets()).last(client.is_v4() ? 4 : 16);
  std::ranges::copy(head, message.begin());
  std::ranges::copy(address, message.begin() + kHashAt);
  std::array<std::uint8_t, crypto_shorthash_siphash24_BYTES> result;
  static_assert(std::tuple_size_v<CookieSecret> == crypto_shorthash_siphash24_KEYBYTES);
  crypto_shorthash_siphash24(result.data(), message.data(), kHashAt + address.size(),
                             secret.data());
  return result;
}

// In serial numbers' arithmetic (RFC 1982), as RFC 9018 wants it.
bool is_timely(std::uint32_t made_at, std::uint32_t now) {
  const auto age = static_cast<std::int32_t>(now - made_at);
  return age >= -kMaxAhead && age <= kMaxAge;
}

}  // namespace

std::string_view to_string(CookieCheck check) {
  static constexpr std::string_view texts[] = {"client_only", "invalid", "valid"};
  return enum_text<CookieCheck::Valid>(check, texts);
}

CookieCheck check_cookie(std::span<const std::uint8_t> cookie, const IpAddress& client,
                         const CookieSecrets& secrets, std::uint32_t now) {
  if (cookie.size() == kClientCookieOctets) return CookieCheck::ClientOnly;
  if (cookie.size() != Cookie().size() || cookie[kVersionAt] != kVersion ||
      !is_timely(wire::load_u32(cookie.data() + kTimeAt), now))
    return CookieCheck::Invalid;
  // Compared at once, so that the time it takes says nothing of where they differ.
  std::uint64_t sent;
  std::memcpy(&sent, cookie.data() + kHashAt, sizeof sent);
  const auto is_made_with = [&](const CookieSecret& secret) {
    return std::bit_cast<std::uint64_t>(hash(cookie.first<kHashAt>(), client, secret)) == sent;
  };
  const bool is_ours =
      is_made_with(secrets.current) || (secrets.other && is_made_with(*secrets.other));
  return is_ours ? CookieCheck::Valid : CookieCheck::Invalid;
}

Cookie make_cookie(std::span<const std::uint8_t, kClientCookieOctets> client_cookie,
                   const IpAddress& client, const CookieSecret& secret, std::uint32_t now) {
  Cookie cookie{};
  std::ranges::copy(client_cookie, cookie.begin());
  cookie[kVersionAt] = kVersion;
  wire::store_u32(cookie.data() + kTimeAt, now);
  std::ranges::copy(hash(std::span(cookie).first<kHashAt>(), client, secret),
                    cookie.begin() + kHashAt);
  return cookie;
}

}  // namespace meshdns::dnsd
