// SPDX-License-Identifier: Apache-2.0
// Writes records behind a question, names compressed, and notes where their TTLs and their pointers
// lie.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "resolver/cache/cached_message.hpp"
#include "resolver/wire/response_message.hpp"

namespace meshdns::dnsd {

class RecordWriter {
 public:
  // Fills `parts.message`, `parts.ttl_offsets` and `parts.pointers`.  REQUIRES: parts outlives
  // this.
  explicit RecordWriter(MessageParts& parts);

  // Appends the record with another TTL.  False, and nothing written, when the message would get
  // longer than a message may be.
  // REQUIRES: the record outlives this.
  bool add(const wire::ResponseRecord& record, std::uint32_t ttl);
  // The same for a record that does not.
  bool add_copy(const wire::ResponseRecord& record, std::uint32_t ttl) {
    const bool added = add(record, ttl);
    last_owner_at_ = 0;
    return added;
  }

 private:
  // Bounds on compression: an upstream chooses the names, and may choose many that are long and
  // alike.  Beyond these names are written out.
  static constexpr std::size_t kSlots = 256;
  static constexpr std::size_t kMaxUsedSlots = 192;
  static constexpr std::size_t kMaxProbes = 8;
  static constexpr std::size_t kMaxLookups = 4096;  // of a whole message

  void put_u16(std::uint16_t value);
  void put_pointer(std::size_t pointee);
  // Returns where the name lies, for pointers; 0 = out of their reach.
  std::uint16_t put_name(std::string_view name);
  void remember_question();
  void put_rdata(const wire::ResponseRecord& record);
  // The offset of a suffix with that hash in the message; 0: it is not there.
  std::uint16_t find(std::string_view suffix, std::uint32_t hash);
  void remember(std::uint32_t hash, std::size_t offset);
  void forget_after(std::size_t offset);
  bool equals_at(std::size_t offset, std::string_view name) const;

  std::vector<std::uint8_t>& out_;
  std::vector<std::uint16_t>& ttl_offsets_;
  std::vector<std::uint16_t>& pointers_;
  // The suffixes of names written so far: an open hash table of offsets.
  std::array<std::uint16_t, kSlots> offsets_{};  // 0 = free: no name lies in the header
  std::array<std::uint16_t, kSlots> tags_{};     // upper bits of the hash
  std::size_t used_slots_ = 0;
  std::size_t lookups_ = 0;
  std::string_view question_;    // its name, until it is in the table
  std::string_view last_owner_;  // of the record before, at first the question: sets repeat it
  std::uint16_t last_owner_at_ = 0;
};

}  // namespace meshdns::dnsd
