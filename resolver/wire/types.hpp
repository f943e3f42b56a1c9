// SPDX-License-Identifier: Apache-2.0
// The numbers of the DNS, by the names that the RFCs give them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace meshdns::wire {

inline constexpr std::size_t kHeaderSize = 12;      // RFC 1035, section 4.1.1
inline constexpr std::size_t kMaxNameLength = 255;  // RFC 1035, section 2.3.4; with the root octet
inline constexpr std::size_t kMaxLabelLength = 63;
inline constexpr std::size_t kFixedFields = 10;          // of a record: type, class, TTL, RDLENGTH
inline constexpr std::size_t kOptSize = 11;              // RFC 6891, section 6.1.2, without options
inline constexpr std::size_t kMinUdpPayload = 512;       // RFC 1035, section 2.3.4
inline constexpr std::size_t kMaxUdpPayload = 1232;      // RFC 9715: no fragments
inline constexpr std::size_t kMaxMessageSize = 65535;    // RFC 1035, section 4.2.2
inline constexpr std::uint32_t kMaxTtl = 7 * 24 * 3600;  // RFC 8767, section 4: a week is plenty

enum class Opcode : std::uint8_t {
  Query = 0,
  IQuery = 1,
  Status = 2,
  Notify = 4,
  Update = 5,
  Dso = 6
};

// RFC 6895; values above 15 need an OPT record.
enum class Rcode : std::uint16_t {
  NoError = 0,
  FormErr = 1,
  ServFail = 2,
  NxDomain = 3,
  NotImp = 4,
  Refused = 5,
  BadVers = 16,
  BadCookie = 23,
};
std::string_view to_string(Rcode rcode);  // "NOERROR", "NXDOMAIN"

enum class Class : std::uint16_t { In = 1, Chaos = 3, None = 254, Any = 255 };

// An open set (RFC 3597): any value may occur.
enum class Type : std::uint16_t {
  A = 1,
  Ns = 2,
  Cname = 5,
  Soa = 6,
  Ptr = 12,
  Hinfo = 13,
  Mx = 15,
  Txt = 16,
  Aaaa = 28,
  Srv = 33,
  Dname = 39,
  Opt = 41,
  Ds = 43,
  Rrsig = 46,
  Nsec = 47,
  Dnskey = 48,
  Nsec3 = 50,
  Svcb = 64,
  Https = 65,
  Tsig = 250,
  Ixfr = 251,
  Axfr = 252,
  Mailb = 253,
  Maila = 254,
  Any = 255,
  Caa = 257,
};
std::string to_string(Type type);  // "AAAA", "TYPE65280" (RFC 3597, section 5)
bool type_from_string(std::string_view text, Type& type);  // either form, any case

// RFC 8914.
enum class Ede : std::uint16_t {
  Other = 0,
  StaleAnswer = 3,
  ForgedAnswer = 4,
  CachedError = 13,
  NotReady = 14,
  Blocked = 15,
  Censored = 16,
  Filtered = 17,
  Prohibited = 18,
  StaleNxdomain = 19,
  NotAuthoritative = 20,
  NotSupported = 21,
  NoReachableAuthority = 22,
  NetworkError = 23,
  InvalidData = 24,
  Synthesized = 29,
  InvalidQueryType = 30,  // RFC 9824, section 3.5
};

}  // namespace meshdns::wire
