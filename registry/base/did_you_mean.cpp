// SPDX-License-Identifier: Apache-2.0
#include "registry/base/did_you_mean.hpp"

#include "registry/base/host_name.hpp"
#include "registry/base/printable.hpp"

namespace meshdns {
namespace {

// Longer words are no typing errors, and comparing them costs their length each time.
constexpr std::size_t kMaxGuessed = 64;

}  // namespace

std::string did_you_mean(std::string_view word, std::span<const std::string_view> known) {
  if (word.size() > kMaxGuessed) return {};
  const auto guess = nearest_word(word, known);
  return guess ? "; did you mean " + registry::in_quotes(*guess) + "?" : std::string();
}

}  // namespace meshdns
