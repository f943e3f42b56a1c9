// SPDX-License-Identifier: Apache-2.0
// Tells at once that a name is no short form of an endpoint's name, which most names are not: a
// lookup of the Service would cost each forwarded query a part of its time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace meshdns::registry {

// Names of the Services that have, or had, endpoints: by length, first and last character, because
// a real hash costs as much as the lookup that it spares.  Any text is safe.
class MemberFilter {
 public:
  void add(std::string_view service) {
    if (!service.empty()) words_[word_of(service)] |= bit_of(service);
  }
  // False: no Service of that name has endpoints.
  bool may_have(std::string_view service) const {
    return !service.empty() && (words_[word_of(service)] & bit_of(service)) != 0;
  }

 private:
  static std::size_t word_of(std::string_view service) {
    return static_cast<unsigned char>(service.front()) & 63U;
  }
  static std::uint64_t bit_of(std::string_view service) {
    const auto last = static_cast<unsigned char>(service.back());
    return std::uint64_t{1} << ((last + 7 * service.size()) & 63U);
  }

  std::array<std::uint64_t, 64> words_{};
};

}  // namespace meshdns::registry
