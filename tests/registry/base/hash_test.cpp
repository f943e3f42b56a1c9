// SPDX-License-Identifier: Apache-2.0
#include "registry/base/hash.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <unordered_set>
#include <vector>

#include "registry/base/ip_address.hpp"

namespace meshdns {
namespace {

std::string octets_of(std::uint64_t word) {
  return {reinterpret_cast<const char*>(&word), sizeof word};
}

// Words that make a product of the hash's construction, or of an address's hash, 0 if the program
// has them as constants: those of wyhash, of earlier versions of this file, and simple ones.
const std::vector<std::uint64_t> kKnownWords = {
    0,
    ~0ULL,
    0xa0761d6478bd642fULL,
    0xe7037ed1a0b428dbULL,
    0x8ebc6af09c88c6e3ULL,
    0x589965cc75374cc3ULL,
    0x2d358dccaa6c78a5ULL,
    0x9e3779b97f4a7c15ULL,
    0xd6e8feb86659fd93ULL,
    0xa0761d6478bd642fULL ^ 0xe7037ed1a0b428dbULL,
};

constexpr int kNames = 1'000;

// The number of different hashes of names that differ in the eight octets before `word` only.
template <typename NameOf>
std::size_t different(NameOf name_of) {
  std::unordered_set<std::uint64_t> hashes;
  for (int i = 0; i < kNames; ++i) hashes.insert(hash_bytes(name_of(i)));
  return hashes.size();
}

std::string number(int i, std::size_t size) {
  std::string text = std::to_string(i);
  return std::string(size - text.size(), 'x') + text;
}

TEST(HashTest, NoKnownOctetsHideThoseBeforeThem) {
  for (const std::uint64_t word : kKnownWords) {
    for (std::size_t before = 8; before <= 64; before += 8)
      for (const std::size_t after :
           {std::size_t{0}, std::size_t{7}, std::size_t{8}, std::size_t{24}})
        EXPECT_EQ(different([&](int i) {
                    return number(i, before) + octets_of(word) + std::string(after, 'y');
                  }),
                  std::size_t{kNames})
            << std::hex << word << " behind " << std::dec << before << ", before " << after;
  }
}

TEST(HashTest, NoKnownOctetsHideThoseBehindThem) {
  for (const std::uint64_t word : kKnownWords)
    for (std::size_t before = 0; before <= 24; before += 8)
      EXPECT_EQ(different([&](int i) {
                  return std::string(before, 'y') + octets_of(word) + number(i, 8);
                }),
                std::size_t{kNames})
          << std::hex << word << " behind " << std::dec << before;
}

TEST(HashTest, NamesOfEachLengthDiffer) {
  for (std::size_t size = 4; size < 100; ++size)
    EXPECT_EQ(different([&](int i) { return number(i, size); }), std::size_t{kNames}) << size;
  std::unordered_set<std::uint64_t> hashes;
  for (std::size_t size = 0; size < 256; ++size) hashes.insert(hash_bytes(std::string(size, '\0')));
  EXPECT_EQ(hashes.size(), 256U) << "of one octet";
}

TEST(HashTest, NoHalfOfAnAddressHidesTheOther) {
  for (const std::uint64_t word : kKnownWords)
    for (const bool first : {true, false}) {
      std::unordered_set<std::size_t> hashes;
      for (std::uint64_t i = 1; i <= kNames; ++i) {
        const std::string octets =
            first ? octets_of(word) + octets_of(i) : octets_of(i) + octets_of(word);
        std::array<std::uint8_t, 16> address;
        std::memcpy(address.data(), octets.data(), address.size());
        hashes.insert(std::hash<IpAddress>()(IpAddress::v6(address)));
      }
      EXPECT_EQ(hashes.size(), std::size_t{kNames}) << std::hex << word;
    }
}

}  // namespace
}  // namespace meshdns
