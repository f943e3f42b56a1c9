// SPDX-License-Identifier: Apache-2.0
// Tells at once that a set does not have a name, which is the usual case: a lookup would cost each
// forwarded or denied query a part of its time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace meshdns::registry {

// Names by length, first and last character, because a real hash costs as much as the lookup that
// it spares.  Any text is safe.
class NameFilter {
 public:
  void add(std::string_view name) {
    if (!name.empty()) words_[word_of(name)] |= bit_of(name);
  }
  // False: the name was never added.
  bool may_have(std::string_view name) const {
    return !name.empty() && (words_[word_of(name)] & bit_of(name)) != 0;
  }

 private:
  static std::size_t word_of(std::string_view name) {
    return static_cast<unsigned char>(name.front()) & 63U;
  }
  static std::uint64_t bit_of(std::string_view name) {
    const auto last = static_cast<unsigned char>(name.back());
    return std::uint64_t{1} << ((last + 7 * name.size()) & 63U);
  }

  std::array<std::uint64_t, 64> words_{};
};

}  // namespace meshdns::registry
