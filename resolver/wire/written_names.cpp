// SPDX-License-Identifier: Apache-2.0
#include "resolver/wire/written_names.hpp"

#include "registry/base/host_name.hpp"
#include "resolver/wire/octets.hpp"

namespace meshdns::wire {
namespace {

// The hash of a suffix is that of its octets from the last to the first, so that one walk over a
// name yields all of them.
constexpr std::uint32_t kHashSeed = 0x9747b28c;
constexpr std::uint32_t mix(std::uint32_t hash, char c) {
  return (hash ^ static_cast<std::uint8_t>(to_lower(c))) * 0x01000193u;
}
constexpr std::size_t slot_of(std::uint32_t hash) { return (hash ^ (hash >> 15)) & 0xff; }
constexpr std::uint16_t tag_of(std::uint32_t hash) {
  return static_cast<std::uint16_t>(hash >> 16);
}

}  // namespace

bool TextName::parse(std::string_view name) {
  if (name.empty()) return true;
  if (name.size() > kMaxNameLength - 2) return false;
  std::size_t start = 0;
  for (std::size_t i = 0; i <= name.size(); ++i) {
    if (i < name.size() && name[i] != '.') continue;
    if (i == start || i - start > kMaxLabelLength) return false;
    starts[labels++] = static_cast<std::uint8_t>(start);
    start = i + 1;
  }
  starts[labels] = static_cast<std::uint8_t>(name.size() + 1);
  hash_suffixes(name);
  return true;
}

void TextName::hash_suffixes(std::string_view name) {
  std::uint32_t hash = kHashSeed;
  std::size_t i = name.size();
  for (std::size_t label = labels; label-- > 0;) {
    for (; i > starts[label]; --i) hash = mix(hash, name[i - 1]);
    hashes[label] = hash;
  }
}

bool name_equals(const std::uint8_t* message, std::size_t offset, std::string_view name) {
  for (;;) {
    const std::uint8_t length = message[offset];
    if (length >= 0xc0) {
      offset = load_u16(message + offset) & kMaxPointee;
      continue;
    }
    if (length == 0) return name.empty();
    if (name.size() < length) return false;
    for (std::size_t i = 0; i < length; ++i) {
      const auto written = static_cast<char>(message[offset + 1 + i]);
      if (name[i] == '.' || to_lower(written) != to_lower(name[i])) return false;
    }
    name.remove_prefix(length);
    if (!name.empty()) {
      if (name.front() != '.') return false;
      name.remove_prefix(1);
    }
    offset += length + std::size_t{1};
  }
}

void WrittenNames::prepare() {
  offsets_.fill(0);
  used_slots_ = 0;
  is_ready_ = true;
}

void WrittenNames::add_written(const std::uint8_t* message, std::size_t offset) {
  std::array<std::uint8_t, kMaxNameLength / 2 + 1> starts;
  std::size_t labels = 0;
  std::size_t end = offset;
  for (; message[end] != 0; end += message[end] + std::size_t{1})
    starts[labels++] = static_cast<std::uint8_t>(end - offset);
  std::uint32_t hash = kHashSeed;
  for (std::size_t label = labels; label-- > 0;) {
    const std::size_t start = offset + starts[label];
    const std::size_t length = message[start];
    // As TextName does: labels with a dot between, from the last octet to the first.
    if (label + 1 < labels) hash = mix(hash, '.');
    for (std::size_t i = length; i > 0; --i)
      hash = mix(hash, static_cast<char>(message[start + i]));
    add(hash, start);
  }
}

void WrittenNames::add(std::uint32_t hash, std::size_t offset) {
  if (offset > kMaxPointee || used_slots_ == kMaxUsedSlots) return;
  std::size_t slot = slot_of(hash);
  while (offsets_[slot] != 0) slot = (slot + 1) % kSlots;
  offsets_[slot] = static_cast<std::uint16_t>(offset);
  tags_[slot] = tag_of(hash);
  ++used_slots_;
}

// Entries of a record that was taken back.  They are the newest: none of the others was placed
// behind one of them, so emptying their slots breaks no chain.
void WrittenNames::forget_after(std::size_t offset) {
  if (!is_ready_) return;
  for (std::size_t slot = 0; slot < kSlots; ++slot) {
    if (offsets_[slot] < offset) continue;
    offsets_[slot] = 0;
    --used_slots_;
  }
}

std::uint16_t WrittenNames::find(const std::uint8_t* message, std::string_view suffix,
                                 std::uint32_t hash) const {
  const std::uint16_t tag = tag_of(hash);
  for (std::size_t slot = slot_of(hash); offsets_[slot] != 0; slot = (slot + 1) % kSlots)
    if (tags_[slot] == tag && name_equals(message, offsets_[slot], suffix)) return offsets_[slot];
  return 0;
}

}  // namespace meshdns::wire
