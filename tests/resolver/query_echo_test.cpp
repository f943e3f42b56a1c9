// SPDX-License-Identifier: Apache-2.0
#include "resolver/query_echo.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace meshdns::resolver {
namespace {

using Message = std::vector<std::uint8_t>;

// A query, type A, for "eXa.", with the ID 0x1234.
Message query_for_exa() {
  return {0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 3, 'e', 'X', 'a', 0, 0, 1, 0, 1};
}

Message reply_to(Message message) {
  message[2] |= 0x80;
  return message;
}

TEST(QueryEchoTest, TellsAnotherCaseFromAnotherQuestion) {
  const Message query = query_for_exa();
  Message reply = reply_to(query);
  EXPECT_EQ(echo_of(reply, query), Echo::Exact);
  reply[14] = 'x';
  EXPECT_EQ(echo_of(reply, query), Echo::OtherCase);
  reply[14] = 'y';
  EXPECT_EQ(echo_of(reply, query), Echo::None);
}

TEST(QueryEchoTest, RefusesQueriesOtherIdsAndShortDatagrams) {
  const Message query = query_for_exa();
  EXPECT_EQ(echo_of(query, query), Echo::None);
  Message other_id = reply_to(query);
  other_id[1] ^= 1;
  EXPECT_EQ(echo_of(other_id, query), Echo::None);
  const Message whole = reply_to(query);
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_EQ(echo_of({whole.data(), size}, query), Echo::None) << size;
}

TEST(QueryEchoTest, FormatErrorsNeedNoQuestion) {
  const Message query = query_for_exa();
  Message reply = reply_to(query);
  reply.resize(12);
  EXPECT_FALSE(is_format_error(reply, query));
  reply[3] = 1;
  EXPECT_TRUE(is_format_error(reply, query));
  reply.resize(11);
  EXPECT_FALSE(is_format_error(reply, query));
}

}  // namespace
}  // namespace meshdns::resolver
