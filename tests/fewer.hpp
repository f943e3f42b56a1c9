// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace meshdns::test {

// Returns a number of repetitions: a fifth of `count` under a sanitizer, whose builds take five
// times as long for each.
template <typename Number>
constexpr Number fewer(Number count) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return count / 5;
#else
  return count;
#endif
}

}  // namespace meshdns::test
