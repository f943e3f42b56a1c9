// SPDX-License-Identifier: Apache-2.0
// The file of the saved cache between versions.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "dnsd/config/config.hpp"
#include "registry/base/durable_file.hpp"
#include "resolver/cache/cache.hpp"

namespace meshdns::dnsd {
namespace {

constexpr std::int64_t kSavedAt = 1'700'000'000;

// A correct file without entries, as versions that used FNV-1a wrote it.
std::vector<std::uint8_t> file_of_version_2() {
  std::string time(8, '\0');
  for (unsigned i = 0; i < 8; ++i) time[7 - i] = static_cast<char>(kSavedAt >> (8 * i));
  std::string file = "meshdns cache 2\n";
  for (int shift = 56; shift >= 0; shift -= 8)
    file += static_cast<char>(stable_hash(time) >> shift);
  file += time;
  return {file.begin(), file.end()};
}

TEST(SavedCacheTest, RefusesTheFileOfAnOlderVersionAndStaysUsable) {
  Cache cache(CacheConfig{});
  const auto loaded = cache.load(file_of_version_2(), kSavedAt, 5'000);
  ASSERT_FALSE(loaded.has_value());
  EXPECT_EQ(loaded.error().message, "not a cache file of this version");
  EXPECT_TRUE(cache.load(cache.save(kSavedAt, 5'000), kSavedAt, 5'000).has_value());
}

UpstreamConfig asked_servers(const char* server) {
  UpstreamConfig config;
  if (server != nullptr) config.servers = {*parse_upstream_server(server)};
  return config;
}

// www.example.org. 3600 A 192.0.2.1, as the version before wrote it: without its server.
constexpr std::uint8_t kMessageOfTheVersionBefore[] = {
    0,    0,    0x80, 0x80, 0, 1,   0,   1,   0,    0,    0,   0,              // header
    3,    'w',  'w',  'w',  7, 'e', 'x', 'a', 'm',  'p',  'l', 'e', 3,   'o',  // question
    'r',  'g',  0,    0,    1, 0,   1,                                         //
    0xc0, 0x0c, 0,    1,    0, 1,   0,   0,   0x0e, 0x10, 0,   4,   192, 0,   2, 1};

using Octets = std::vector<std::uint8_t>;

Octets message_of_the_version_before() {
  return {std::begin(kMessageOfTheVersionBefore), std::end(kMessageOfTheVersionBefore)};
}

// The checksum covers the time, and each message with its flags and size.
Octets body_of(const std::vector<Octets>& messages) {
  Octets body;
  for (int shift = 56; shift >= 0; shift -= 8)
    body.push_back(static_cast<std::uint8_t>(kSavedAt >> shift));
  for (const Octets& message : messages) {
    body.insert(body.end(), {0, 0, static_cast<std::uint8_t>(message.size())});
    body.insert(body.end(), message.begin(), message.end());
  }
  return body;
}

Octets file_of(const Octets& body) {
  const std::string_view magic = "meshdns cache 3\n";
  std::vector<std::uint8_t> file(magic.begin(), magic.end());
  const std::uint32_t sum = checksum(body);
  for (int shift = 24; shift >= 0; shift -= 8)
    file.push_back(static_cast<std::uint8_t>(sum >> shift));
  file.insert(file.end(), body.begin(), body.end());
  return file;
}

Octets file_of_the_version_before() { return file_of(body_of({message_of_the_version_before()})); }

CacheKey saved_key() {
  return CacheKey({std::string("\3www\7example\3org\0", 17), wire::Type::A, wire::Class::In}, false,
                  false);
}

TEST(SavedCacheTest, TakesAnswersOfTheVersionBeforeForThoseOfTheServersThatAreAsked) {
  Cache cache(CacheConfig{});
  cache.use_servers(AskedServers(asked_servers("10.0.0.1")));
  EXPECT_EQ(cache.load(file_of_the_version_before(), kSavedAt, 5'000), 1U);
  const MessageRef found = cache.find(saved_key(), 5'000);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->server(), "10.0.0.1:53");
  cache.use_servers(AskedServers(asked_servers("10.0.0.2")));
  EXPECT_FALSE(cache.find(saved_key(), 5'000));

  Cache without_servers(CacheConfig{});
  without_servers.use_servers(AskedServers(asked_servers(nullptr)));
  EXPECT_EQ(without_servers.load(file_of_the_version_before(), kSavedAt, 5'000), 0U);
}

// That version reads the messages and ignores additional records.
TEST(SavedCacheTest, WritesFilesThatTheVersionBeforeReads) {
  Cache cache(CacheConfig{});
  cache.use_servers(AskedServers(asked_servers("10.0.0.1")));
  ASSERT_EQ(cache.load(file_of_the_version_before(), kSavedAt, 5'000), 1U);
  const std::vector<std::uint8_t> file = cache.save(kSavedAt, 5'000);
  const std::vector<std::uint8_t> before = file_of_the_version_before();
  constexpr std::size_t kMessageAt = 16 + 4 + 8 + 3;
  EXPECT_TRUE(std::equal(file.begin(), file.begin() + 16, before.begin()));
  const auto message = wire::parse_response(std::span(file).subspan(kMessageAt));
  ASSERT_TRUE(message.has_value()) << message.error().message;
  EXPECT_EQ(message->question.name, saved_key().name());
  ASSERT_EQ(message->answer.size(), 1U);
  EXPECT_EQ(message->answer[0].rdata, std::string("\300\0\2\1", 4));
}

// A program that writes such files may write a right checksum, too.
TEST(SavedCacheTest, RefusesABodyThatIsCutShort) {
  const Octets body = body_of({message_of_the_version_before(), message_of_the_version_before()});
  const std::size_t second = 8 + (body.size() - 8) / 2;
  for (std::size_t size = 8; size <= body.size(); ++size) {
    Cache cache(CacheConfig{});
    // No octet more than the file has: a look behind its end is a mistake.
    const Octets file = file_of({body.begin(), body.begin() + static_cast<std::ptrdiff_t>(size)});
    const auto loaded = cache.load(file, kSavedAt, 5'000);
    const bool is_whole = size == 8 || size == second || size == body.size();
    ASSERT_EQ(loaded.has_value(), is_whole) << size;
    if (is_whole) {
      EXPECT_EQ(*loaded, size == 8 ? 0U : size == second ? 1U : 2U);
    } else {
      EXPECT_EQ(loaded.error().message, "cut short");
    }
  }
}

TEST(SavedCacheTest, LeavesOutMessagesThatAreNoAnswers) {
  const Octets good = message_of_the_version_before();
  Octets server_failure = good;
  server_failure[3] |= 2;
  Octets name_error = good;
  name_error[3] |= 3;
  Octets without_records(good.begin(), good.end() - 16);
  without_records[7] = 0;
  Octets shortened(good.begin(), good.end() - 1);
  for (const Octets& bad : {server_failure, name_error, without_records, shortened, Octets{},
                            Octets{1, 2, 3}, Octets(good.size(), 0xff)}) {
    Cache cache(CacheConfig{});
    EXPECT_EQ(cache.load(file_of(body_of({bad, good})), kSavedAt, 5'000), 1U);
    EXPECT_TRUE(cache.find(saved_key(), 5'000));
    Cache other(CacheConfig{});
    EXPECT_EQ(other.load(file_of(body_of({bad})), kSavedAt, 5'000), 0U);
    EXPECT_EQ(other.statistics().insertions, 0U);
  }
}

TEST(SavedCacheTest, RefusesAnyChangedByte) {
  Cache cache(CacheConfig{});
  const std::vector<std::uint8_t> file = cache.save(kSavedAt, 5'000);
  for (std::size_t i = 0; i < file.size(); ++i) {
    std::vector<std::uint8_t> damaged = file;
    damaged[i] ^= 0x10;
    EXPECT_FALSE(cache.load(damaged, kSavedAt, 5'000).has_value()) << i;
  }
}

}  // namespace
}  // namespace meshdns::dnsd
