// SPDX-License-Identifier: Apache-2.0
// The resolver engine's reader of answers: whatever comes, it ends, and says addresses only when
// there are some of the family that was asked for.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "resolver/names/cares_lookup.hpp"

using meshdns::resolver::Answer;
using meshdns::resolver::Family;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  for (const Family family : {Family::V4, Family::V6}) {
    const Answer answer =
        meshdns::resolver::read_address_answer({data, size}, "db.example.org", family);
    if ((answer.status == Answer::Status::Addresses) == answer.addresses.empty()) std::abort();
    for (const auto& address : answer.addresses)
      if (address.is_v4() != (family == Family::V4)) std::abort();
  }
  return 0;
}
