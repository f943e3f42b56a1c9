// SPDX-License-Identifier: Apache-2.0
// The query parser on any octets, and the reply writer on whatever it lets through: an answer to
// any query that parses is a message that our strict response parser takes, with the question as
// asked.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "dnsd/query/server_cookies.hpp"
#include "resolver/wire/message_writer.hpp"
#include "resolver/wire/query_message.hpp"
#include "resolver/wire/response_message.hpp"
#include "tests/fuzz/require.hpp"

namespace {

using namespace meshdns::wire;
using meshdns::fuzz::require;

void check_parsed(const QueryMessage& query, std::span<const std::uint8_t> datagram) {
  require(query.qname_size >= 1 && query.qname_size <= kMaxNameLength);
  require(query.question.size() == query.qname_size + 4);
  require(query.question.data() == datagram.data() + kHeaderSize);
  require(query.qname().size() == (query.qname_size < 3 ? 0 : query.qname_size - 2));
  for (const char c : query.qname()) require(c < 'A' || c > 'Z');
}

// For any cookie of a client, the cookie in the reply is valid for that client and no other.
void answer_cookie(MessageWriter& writer, const QueryMessage& query) {
  using namespace meshdns::dnsd;
  if (!query.has_edns || query.edns.cookie_length == 0) return;
  require(query.edns.cookie_length <= query.edns.cookie.size());
  const std::span<const std::uint8_t> cookie =
      std::span(query.edns.cookie).first(query.edns.cookie_length);
  require(cookie.size() == kClientCookieOctets || cookie.size() >= 2 * kClientCookieOctets);
  const auto client = *meshdns::IpAddress::parse("192.0.2.1");
  const auto other = *meshdns::IpAddress::parse("2001:db8::1");
  const CookieSecrets secrets{.current = {1}, .other = CookieSecret{2}};
  const std::uint32_t now = 1'800'000'000 + query.id;
  const CookieCheck check = check_cookie(cookie, client, secrets, now);
  require((check == CookieCheck::ClientOnly) == (cookie.size() == kClientCookieOctets));
  const auto made = make_cookie(cookie.first<kClientCookieOctets>(), client, secrets.current, now);
  require(check_cookie(made, client, secrets, now) == CookieCheck::Valid);
  require(check_cookie(made, other, secrets, now) == CookieCheck::Invalid);
  writer.set_cookie(made);
}

// Writes some of everything into `buffer`, which may be the query's own.
void answer(std::span<std::uint8_t> buffer, const QueryMessage& query, ParseOutcome outcome) {
  MessageWriter writer(buffer, 512 + query.id % 1000, query);
  writer.set_rcode(outcome == ParseOutcome::BadVers ? Rcode::BadVers : Rcode::NoError);
  if (outcome == ParseOutcome::Ok) {
    const std::uint8_t address[4] = {192, 0, 2, 1};
    MessageWriter::NameRef target = MessageWriter::kQuestionName;
    writer.add_name_record(Section::Answer, target, Type::Cname, 30, query.qname(), &target);
    writer.add_name_record(Section::Answer, target, Type::Cname, 30, "www.example.org", &target);
    writer.add_srv(Section::Answer, target, 30, 0, 1, 80, "a.www.example.org");
    for (int i = 0; i < query.id % 64; ++i) writer.add_a(Section::Answer, target, 30, address);
    const std::string_view texts[] = {query.qname(), "example"};
    writer.add_txt(Section::Answer, MessageWriter::kQuestionName, 0, texts);
    writer.add_soa(Section::Authority, "example.org", 5, "ns.dns.example.org",
                   "hostmaster.example.org", 1, 7200, 1800, 86400, 5);
  }
  writer.set_extended_error(Ede::Other, query.qname());
  if (outcome != ParseOutcome::FormErr) answer_cookie(writer, query);
  writer.set_nsid("node");
  const std::size_t size = writer.finish();
  require(size <= 512 + query.id % 1000u);

  const auto response = parse_response(buffer.first(size));
  if (query.opcode != Opcode::Query) return;
  require(response.has_value());
  require(response->id == query.id && response->has_edns == query.has_edns);
  if (outcome == ParseOutcome::Ok) require(response->question.type == query.qtype);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > kMaxMessageSize) return 0;
  QueryMessage query;
  const ParseOutcome outcome = parse_query({data, size}, query);
  if (outcome == ParseOutcome::Drop) return 0;
  if (!query.question.empty()) check_parsed(query, {data, size});

  std::vector<std::uint8_t> elsewhere(2048);
  answer(elsewhere, query, outcome);
  std::vector<std::uint8_t> in_place(std::max<std::size_t>(size, 2048));
  std::copy(data, data + size, in_place.begin());
  require(parse_query(std::span(in_place).first(size), query) == outcome);
  answer(in_place, query, outcome);
  return 0;
}
