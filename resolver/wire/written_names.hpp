// SPDX-License-Identifier: Apache-2.0
// The names of a message that is being written, for their compression (RFC 1035, section 4.1.4).
// Never allocates.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "resolver/wire/types.hpp"

namespace meshdns::wire {

constexpr std::size_t kMaxPointee = 0x3fff;  // what 14 bits can say

// A name as text, cut into labels from the left, with the hash of each suffix.
struct TextName {
  static constexpr std::size_t kMaxLabels = 127;
  // Not initialised: parse() writes what is read.
  std::array<std::uint8_t, kMaxLabels + 1> starts;
  std::array<std::uint32_t, kMaxLabels> hashes;
  std::size_t labels = 0;

  // Once, of a name without its final dot.  False: not a name (RFC 1035, section 2.3.4).
  bool parse(std::string_view name);
  std::size_t length(std::size_t label) const { return starts[label + 1] - starts[label] - 1u; }

 private:
  void hash_suffixes(std::string_view name);
};

// Returns whether the name at `offset` of `message` is `name`, without case.  A label that contains
// a dot does not pass for two.  REQUIRES: a whole name lies there.
bool name_equals(const std::uint8_t* message, std::size_t offset, std::string_view name);

// The places of the names of one message, by suffix: an open hash table of offsets.  A name that
// comes when the table is full, or that no pointer reaches, is left out.
class WrittenNames {
 public:
  bool is_ready() const { return is_ready_; }
  // Empties the table for use.  REQUIRES: once, before all that follow.
  void prepare();

  // Enters a suffix that lies at `offset`.  REQUIRES: its name is whole; `hash` is of TextName.
  void add(std::uint32_t hash, std::size_t offset);
  // Enters every suffix of the uncompressed name at `offset`.
  void add_written(const std::uint8_t* message, std::size_t offset);
  // Returns where `suffix` lies; 0 = nowhere.
  std::uint16_t find(const std::uint8_t* message, std::string_view suffix,
                     std::uint32_t hash) const;
  // Forgets the names from `offset` on, of a record that was taken back.  Also before prepare().
  void forget_after(std::size_t offset);

 private:
  static constexpr std::size_t kSlots = 256;
  static constexpr std::size_t kMaxUsedSlots = 192;

  bool is_ready_ = false;
  std::uint16_t used_slots_ = 0;
  // Not initialised: prepare() does it, and the usual answer needs none of them.
  std::array<std::uint16_t, kSlots> offsets_;  // 0 = free
  std::array<std::uint16_t, kSlots> tags_;     // upper bits of the hash
};

}  // namespace meshdns::wire
