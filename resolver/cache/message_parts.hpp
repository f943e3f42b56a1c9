// SPDX-License-Identifier: Apache-2.0
// The parts from which a CachedMessage is made.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "resolver/cache/cached_message.hpp"

namespace meshdns::dnsd {

struct MessageParts {
  explicit MessageParts(const CacheKey& question_key) : key(question_key) {}

  CacheKey key;
  MessageKind kind = MessageKind::Failure;
  wire::Rcode rcode = wire::Rcode::ServFail;
  Millis received_at = 0;
  Millis lifetime = 0;  // 0 = not to be cached
  // The chain of aliases: which record of the answer each link is, and where it leads (lower-case
  // wire form).
  struct Alias {
    std::uint16_t record = 0;
    std::string target;
  };
  std::vector<Alias> aliases;
  bool leads_on = false;  // the chain's end is another question's
  bool authentic_data = false;
  bool unreachable = false;
  bool has_ede = false;
  wire::Ede ede = wire::Ede::Other;
  std::string ede_text;     // cut to 255 octets
  std::string_view server;  // that it came from; empty = none

  // Header (not used), question, records: offsets count from its first octet.
  std::vector<std::uint8_t> message;
  std::vector<std::uint16_t> ttl_offsets;  // one a record
  // Compression pointers, in ascending order; without the owners that are only a pointer.
  std::vector<std::uint16_t> pointers;
  std::uint16_t answer_count = 0;
  std::uint16_t authority_count = 0;
  std::uint16_t run_begin = 0;  // record index
  std::uint16_t run_count = 0;
};

}  // namespace meshdns::dnsd
