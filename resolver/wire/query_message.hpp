// SPDX-License-Identifier: Apache-2.0
// A client's query, parsed: header, one question, EDNS.  Our own bounds-checked reader: it sees
// every datagram that anybody sends, before any library does.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "resolver/wire/types.hpp"

namespace meshdns::wire {

// The OPT record of a query (RFC 6891).
struct Edns {
  std::uint16_t udp_payload = 0;  // as sent; below 512 counts as 512
  std::uint8_t version = 0;
  bool dnssec_ok = false;
  bool nsid = false;       // RFC 5001: asked for
  bool keepalive = false;  // RFC 7828: asked for
  bool padding = false;    // RFC 7830: present
  // RFC 7873: 8 octets of client cookie and 0 or 8..32 of server cookie, as received.
  std::uint8_t cookie_length = 0;
  std::array<std::uint8_t, 40> cookie;
};

// Refers to nothing: holds the canonical name itself; the question's own octets stay in the
// datagram (`question`).  Reused from query to query without initialisation.
struct QueryMessage {
  std::uint16_t id;
  Opcode opcode;
  bool recursion_desired;
  bool checking_disabled;
  bool authentic_data;

  Type qtype;
  Class qclass;
  // The question section (name, type, class) as it was sent, for the echo; lies at offset 12 of the
  // datagram.  Valid as long as the datagram.
  std::span<const std::uint8_t> question;
  std::size_t qname_size;  // octets of the name in wire form, with the root octet

  // The name in lower-case text without the final dot; empty for the root.  A label that contains a
  // dot or a NUL can equal no registry name: then `has_odd_octets` is set and text lookups must not
  // be made.
  std::string_view qname() const { return {qname_text.data(), qname_text_size}; }
  bool has_odd_octets;
  std::size_t qname_text_size;
  std::array<char, kMaxNameLength + 1> qname_text;

  bool has_edns;
  Edns edns;
};

// The reply to a message, as decided by the parser.
enum class ParseOutcome : std::uint8_t {
  Ok,
  Drop,        // shorter than a header, or a response (QR=1): no reply at all
  FormErr,     // header whole, rest not well-formed, or QDCOUNT != 1 (RFC 9619); `question` may be
               // empty
  CookieOnly,  // QDCOUNT 0 and a cookie (RFC 7873, section 5.4); `question` is empty
  NotImp,      // opcode other than QUERY: never forwarded
  BadVers,     // EDNS version above 0 (RFC 6891, section 6.1.3)
};

// Parses one message of at least 0 and at most 65535 octets.  On every outcome but Drop the
// header fields are set and `question` is either whole or empty, which is what an error reply
// needs.  Compression in the question is refused.  Never allocates; work is linear in the octets.
ParseOutcome parse_query(std::span<const std::uint8_t> datagram, QueryMessage& query);

}  // namespace meshdns::wire
