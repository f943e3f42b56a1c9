// What a CachedMessage is made from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dnsd/forward/cached_message.hpp"

namespace meshdns::dnsd {

struct MessageParts {
  explicit MessageParts(const CacheKey& question_key) : key(question_key) {}

  CacheKey key;
  MessageKind kind = MessageKind::Failure;
  wire::Rcode rcode = wire::Rcode::ServFail;
  Millis received_at = 0;
  Millis lifetime = 0;  // 0 = not to be cached
  bool has_alias = false;
  bool authentic_data = false;
  bool unreachable = false;
  bool has_ede = false;
  wire::Ede ede = wire::Ede::Other;
  std::string ede_text;  // cut to 255 octets

  // Header (not used), question, records: offsets count from its first octet.
  std::vector<std::uint8_t> message;
  std::vector<std::uint16_t> ttl_offsets;  // one a record
  std::uint16_t answer_count = 0;
  std::uint16_t authority_count = 0;
  std::uint16_t run_begin = 0;  // record index
  std::uint16_t run_count = 0;
};

}  // namespace meshdns::dnsd
