// SPDX-License-Identifier: Apache-2.0
// The response parser on any octets: what it lets through has names and rdata that can be printed,
// read back, and written into a reply.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "resolver/wire/name_text.hpp"
#include "resolver/wire/record_text.hpp"
#include "resolver/wire/response_message.hpp"
#include "tests/fuzz/require.hpp"

namespace {

using namespace meshdns::wire;
using meshdns::fuzz::require;

void check_name(const std::string& name) {
  require(is_wire_name(name));
  const auto again = name_from_text(name_to_text(name));
  require(again.has_value() && *again == name);
}

void check_records(const std::vector<ResponseRecord>& records) {
  for (const ResponseRecord& record : records) {
    check_name(record.owner);
    require(record.ttl <= kMaxTtl);
    const std::string text = record_to_text(record);
    require(!text.empty());
    for (const char c : text) require(c >= 0x20 && c < 0x7f);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > kMaxMessageSize) return 0;
  const std::span message(data, size);
  const auto response = parse_response(message);
  if (!response) {
    require(!response.error().message.empty());
    return 0;
  }
  check_records(response->answer);
  check_records(response->authority);
  check_records(response->additional);
  if (response->question_name.empty()) return 0;
  check_name(response->question_name);
  (void)is_reply_to(message, response->id, response->question_name, response->question.type,
                    response->question.qclass);
  return 0;
}
