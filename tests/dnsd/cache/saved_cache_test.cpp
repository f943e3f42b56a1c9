// SPDX-License-Identifier: Apache-2.0
// The file of the saved cache between versions.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "dnsd/cache/cache.hpp"
#include "registry/base/checksum.hpp"

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
