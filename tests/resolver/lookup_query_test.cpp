// SPDX-License-Identifier: Apache-2.0
#include "resolver/lookup_query.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace meshdns::resolver {
namespace {

using Octets = std::vector<std::uint8_t>;

constexpr const char* kCookie = "our eighits eight";

LookupQuery query_with_cookie() {
  return *LookupQuery::make({.host = "db.example.org", .cookie = kCookie});
}

Octets copy_of(std::span<const std::uint8_t> octets) { return {octets.begin(), octets.end()}; }

// Returns the octets that the peer gets when the query is sent in place of `of_cares`.
Octets sent_in_place_of(LookupQuery& query, const Octets& of_cares, bool is_stream) {
  std::array<int, 2> ends{};
  EXPECT_EQ(socketpair(AF_UNIX, is_stream ? SOCK_STREAM : SOCK_DGRAM, 0, ends.data()), 0);
  EXPECT_EQ(query.send_in_place_of(of_cares, ends[0], is_stream),
            static_cast<ssize_t>(of_cares.size()));
  Octets received(1000);
  received.resize(static_cast<std::size_t>(::read(ends[1], received.data(), received.size())));
  for (const int end : ends) ::close(end);
  return received;
}

TEST(LookupQueryTest, ThePlainQueryHasTheSameQuestionAndNoOptions) {
  const LookupQuery query = query_with_cookie();
  const Octets octets = copy_of(query.octets());
  const Octets plain = copy_of(query.plain());
  ASSERT_LT(plain.size(), octets.size());
  constexpr std::size_t kAdditionalsAt = 10;
  EXPECT_EQ(octets[kAdditionalsAt + 1], 1);
  EXPECT_EQ(plain[kAdditionalsAt + 1], 0);
  EXPECT_TRUE(std::equal(plain.begin(), plain.begin() + kAdditionalsAt, octets.begin()));
  EXPECT_TRUE(std::equal(plain.begin() + 12, plain.end(), octets.begin() + 12));
}

// c-ares 1.34 sends another ID, and a cookie of its own.
TEST(LookupQueryTest, GoesOutInPlaceOfAnotherWithItsId) {
  LookupQuery query = query_with_cookie();
  Octets of_cares = copy_of(query.plain());
  of_cares[0] = 0xab;
  of_cares[1] = 0xcd;
  of_cares.push_back(0);
  Octets expected = copy_of(query.octets());
  expected[0] = 0xab;
  expected[1] = 0xcd;
  EXPECT_EQ(sent_in_place_of(query, of_cares, false), expected);
  EXPECT_EQ(copy_of(query.octets()), expected);
}

TEST(LookupQueryTest, AStreamHasTheLengthFirst) {
  LookupQuery query = query_with_cookie();
  Octets of_cares = copy_of(query.plain());
  of_cares[0] = 0x12;
  of_cares[1] = 0x34;
  of_cares.insert(of_cares.begin(), {0, static_cast<std::uint8_t>(of_cares.size())});
  const Octets received = sent_in_place_of(query, of_cares, true);
  const Octets octets = copy_of(query.octets());
  ASSERT_EQ(received.size(), octets.size() + 2);
  EXPECT_EQ(received[0] << 8 | received[1], static_cast<int>(octets.size()));
  EXPECT_EQ(Octets(received.begin() + 2, received.end()), octets);
  EXPECT_EQ(octets[0] << 8 | octets[1], 0x1234);
}

TEST(LookupQueryTest, NothingIsSentInPlaceOfNothing) {
  LookupQuery query = query_with_cookie();
  const Octets id{1, 2};
  EXPECT_EQ(query.send_in_place_of(id, -1, true), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(query.send_in_place_of({}, -1, false), -1);
}

TEST(LookupQueryTest, AHostThatIsNoDomainNameHasNone) {
  EXPECT_FALSE(LookupQuery::make({.host = std::string(300, 'a')}));
}

}  // namespace
}  // namespace meshdns::resolver
