// SPDX-License-Identifier: Apache-2.0
#include "dnsd/query/siphash.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace meshdns::dnsd {
namespace {

using Octets = std::array<std::uint8_t, 8>;

constexpr std::uint64_t little_endian(std::uint64_t word) {
  return std::endian::native == std::endian::little ? word : __builtin_bswap64(word);
}

std::uint64_t load_word(const std::uint8_t* at) {
  std::uint64_t word;
  std::memcpy(&word, at, sizeof word);
  return little_endian(word);
}

class State {
 public:
  explicit State(std::span<const std::uint8_t, 16> key) {
    const std::uint64_t k0 = load_word(key.data());
    const std::uint64_t k1 = load_word(key.data() + 8);
    v0_ ^= k0;
    v1_ ^= k1;
    v2_ ^= k0;
    v3_ ^= k1;
  }
  void absorb(std::uint64_t word) {
    v3_ ^= word;
    round();
    round();
    v0_ ^= word;
  }
  std::uint64_t finish() {
    v2_ ^= 0xff;
    for (int i = 0; i < 4; ++i) round();
    return v0_ ^ v1_ ^ v2_ ^ v3_;
  }

 private:
  void round() {
    v0_ += v1_;
    v2_ += v3_;
    v1_ = std::rotl(v1_, 13) ^ v0_;
    v3_ = std::rotl(v3_, 16) ^ v2_;
    v0_ = std::rotl(v0_, 32);
    v2_ += v1_;
    v0_ += v3_;
    v1_ = std::rotl(v1_, 17) ^ v2_;
    v3_ = std::rotl(v3_, 21) ^ v0_;
    v2_ = std::rotl(v2_, 32);
  }

  // "somepseudorandomlygeneratedbytes"
  std::uint64_t v0_ = 0x736f6d6570736575;
  std::uint64_t v1_ = 0x646f72616e646f6d;
  std::uint64_t v2_ = 0x6c7967656e657261;
  std::uint64_t v3_ = 0x7465646279746573;
};

}  // namespace

Octets siphash_2_4(std::span<const std::uint8_t, 16> key, std::span<const std::uint8_t> message) {
  State state(key);
  Octets last{};
  last[7] = static_cast<std::uint8_t>(message.size());
  for (; message.size() >= 8; message = message.subspan(8)) state.absorb(load_word(message.data()));
  std::ranges::copy(message, last.begin());
  state.absorb(load_word(last.data()));
  return std::bit_cast<Octets>(little_endian(state.finish()));
}

}  // namespace meshdns::dnsd
