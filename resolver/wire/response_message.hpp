// SPDX-License-Identifier: Apache-2.0
// A message from an upstream.  The whole message is checked before any part of it is used.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "registry/base/result.hpp"
#include "resolver/wire/types.hpp"

namespace meshdns::wire {

// A question as the forwarder and the cache know it.
struct Question {
  std::string name;  // wire form without compression, lower case, with the root octet
  Type type = Type::A;
  Class qclass = Class::In;
  friend bool operator==(const Question&, const Question&) = default;
};

struct ResponseRecord {
  std::string owner;  // wire form, uncompressed, spelled as received
  Type type = Type::A;
  Class rclass = Class::In;
  std::uint32_t ttl = 0;  // RFC 2181, section 8: top bit set counts as 0
  std::string
      rdata;  // names in rdata of the RFC 1035 types expanded; other types as received (RFC 3597)
};

struct ResponseMessage {
  std::uint16_t id = 0;
  Rcode rcode = Rcode::NoError;  // with the OPT record's upper bits
  bool authoritative = false;
  bool truncated = false;
  bool recursion_available = false;
  bool authentic_data = false;
  bool checking_disabled = false;
  bool has_edns = false;
  std::uint16_t udp_payload = 0;
  std::string cookie;  // RFC 7873, as received; empty = none
  std::vector<std::pair<std::uint16_t, std::string>> extended_errors;  // RFC 8914
  std::string question_name;  // as received (case kept); empty when QDCOUNT is 0
  Question question;
  std::vector<ResponseRecord> answer;
  std::vector<ResponseRecord> authority;
  std::vector<ResponseRecord> additional;  // without OPT and TSIG
};

// Returns whether the header and question (only these are read) can be the reply to a query sent
// with `id` for `name` (exact bytes, case included): QR=1, opcode QUERY, QDCOUNT 1.  The caller
// ignores anything else and keeps waiting (RFC 5452, section 9.1).
bool is_reply_to(std::span<const std::uint8_t> datagram, std::uint16_t id, std::string_view name,
                 Type type, Class qclass, bool* case_differs = nullptr);

// Records that a response may have; a message of kMaxMessageSize octets has room for fewer than
// this in any answer that means something.
inline constexpr std::size_t kMaxResponseRecords = 4096;

// Parses everything strictly: backward pointers only, names of at most 255 octets, rdata of the
// known types of exactly the right shape, no trailing octets, at most one OPT, at most
// kMaxResponseRecords. TTLs are at most kMaxTtl.  A truncated message (TC) that ends amid a record
// is given without any records: it only says to ask over TCP.
Result<ResponseMessage> parse_response(std::span<const std::uint8_t> datagram);

}  // namespace meshdns::wire
