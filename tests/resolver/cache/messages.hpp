// SPDX-License-Identifier: Apache-2.0
// Questions, answers and queries for tests, from text.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "resolver/cache/answer_builder.hpp"
#include "resolver/cache/cached_message.hpp"
#include "resolver/wire/query_message.hpp"
#include "resolver/wire/response_message.hpp"

namespace meshdns::dnsd::test {

std::string wire_name(std::string_view text);
wire::Question question(std::string_view name, wire::Type type = wire::Type::A);

// "www.example.org. 300 A 192.0.2.1", "... CNAME b.example.org.", "... SOA 3600" (its MINIMUM),
// "... TXT text", "... SRV 80 target."
wire::ResponseRecord record(std::string_view text);
wire::ResponseMessage response(const wire::Question& question,
                               std::initializer_list<std::string_view> answer,
                               std::initializer_list<std::string_view> authority = {},
                               wire::Rcode rcode = wire::Rcode::NoError);
// The octets of `response` as a server without compression sends them; QR=1, RA=1.
std::vector<std::uint8_t> to_wire(const wire::ResponseMessage& response);

struct QueryOptions {
  bool edns = false;
  bool dnssec_ok = false;
  bool checking_disabled = false;
};

// A parsed query in a buffer of its own, as a listener has it.
struct ClientQuery {
  explicit ClientQuery(std::string_view name, wire::Type type = wire::Type::A,
                       const QueryOptions& options = {});
  ClientQuery(const ClientQuery&) = delete;
  ClientQuery& operator=(const ClientQuery&) = delete;
  ReplyFrame frame(std::size_t limit = 1232) { return {std::span(buffer), limit, {}}; }
  // Parses the reply of that size at the front of the buffer.
  wire::ResponseMessage reply(std::size_t size) const;

  std::vector<std::uint8_t> buffer;
  wire::QueryMessage query;
};

// "www.example.org. 300 A 192.0.2.1" per record.
std::vector<std::string> texts(const std::vector<wire::ResponseRecord>& records);

// Returns the answer that the builder makes of a response; fails the test if it makes none.
MessageRef cached(const wire::ResponseMessage& response, Millis now, const AnswerRules& rules = {});

}  // namespace meshdns::dnsd::test
