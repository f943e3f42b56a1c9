// SPDX-License-Identifier: Apache-2.0
#include "resolver/query_echo.hpp"

#include <algorithm>
#include <cstddef>

#include "registry/base/host_name.hpp"

namespace meshdns::resolver {
namespace {

using Bytes = std::span<const std::uint8_t>;

constexpr std::size_t kQuestionAt = 12;  // after the header
constexpr std::uint8_t kRcodeFormErr = 1;

// The octets of the one question of `query`, which is ours.
Bytes question_of(Bytes query) {
  std::size_t end = kQuestionAt;
  while (end < query.size() && query[end] != 0) end += query[end] + std::size_t{1};
  return query.subspan(kQuestionAt, std::min(end + 5, query.size()) - kQuestionAt);
}

}  // namespace

Echo echo_of(Bytes reply, Bytes query) {
  const Bytes question = question_of(query);
  if (reply.size() < kQuestionAt + question.size()) return Echo::None;
  const bool is_reply = reply[0] == query[0] && reply[1] == query[1] && (reply[2] & 0x80) != 0 &&
                        reply[4] == 0 && reply[5] == 1;
  if (!is_reply) return Echo::None;
  const Bytes repeated = reply.subspan(kQuestionAt, question.size());
  if (std::ranges::equal(repeated, question)) return Echo::Exact;
  const auto lower = [](std::uint8_t octet) { return to_lower(static_cast<char>(octet)); };
  return std::ranges::equal(repeated, question, {}, lower, lower) ? Echo::OtherCase : Echo::None;
}

bool is_format_error(Bytes reply, Bytes query) {
  return reply.size() >= kQuestionAt && reply[0] == query[0] && reply[1] == query[1] &&
         (reply[2] & 0x80) != 0 && (reply[3] & 0x0f) == kRcodeFormErr;
}

}  // namespace meshdns::resolver
