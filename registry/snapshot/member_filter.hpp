// SPDX-License-Identifier: Apache-2.0
// Tells at once that a name is no short form of an endpoint's name, which most names are not: a
// lookup of the Service would cost each forwarded query a part of its time.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "registry/base/hash.hpp"

namespace meshdns::registry {

// Names of the Services that have, or had, endpoints.  8,192 bits: a quarter of them is set with
// 2,400 such names.
class MemberFilter {
 public:
  void add(std::string_view service) { word_of(service) |= bit_of(service); }
  // False: no Service of that name has endpoints.
  bool may_have(std::string_view service) const {
    return (words_[index_of(service)] & bit_of(service)) != 0;
  }

 private:
  static std::size_t index_of(std::string_view service) { return hash_bytes(service) >> 57; }
  static std::uint64_t bit_of(std::string_view service) {
    return std::uint64_t{1} << ((hash_bytes(service) >> 51) & 63);
  }
  std::uint64_t& word_of(std::string_view service) { return words_[index_of(service)]; }

  std::array<std::uint64_t, 128> words_{};
};

}  // namespace meshdns::registry
