// SPDX-License-Identifier: Apache-2.0
#include "resolver/cache/record_writer.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "registry/base/host_name.hpp"
#include "resolver/wire/octets.hpp"

namespace meshdns::dnsd {
namespace {

// The last octet that a pointer of 14 bits can reach, less the room that a reply may need in front
// of these records: its own question and a chain of aliases.
constexpr std::size_t kMaxPointer = 0x3fff - CachedMessage::kMaxOctetsBefore;
// Most answers are smaller.
constexpr std::size_t kUsualSize = 256;

// A name in wire form, cut into labels, with the hash of each suffix: that of its octets from the
// last to the first, so that one walk yields all of them.
struct Suffixes {
  explicit Suffixes(std::string_view name) {
    for (std::size_t at = 0; at < name.size() && name[at] != 0;
         at += 1u + static_cast<unsigned char>(name[at]))
      starts[count++] = static_cast<std::uint8_t>(at);
    std::uint32_t hash = 0x9747b28c;
    std::size_t end = name.size();
    for (std::size_t label = count; label-- > 0; end = starts[label])
      for (std::size_t i = end; i-- > starts[label];)
        hashes[label] = hash = (hash ^ static_cast<std::uint8_t>(to_lower(name[i]))) * 0x01000193u;
  }
  std::array<std::uint8_t, wire::kMaxNameLength / 2 + 1> starts;
  std::array<std::uint32_t, wire::kMaxNameLength / 2 + 1> hashes;
  std::size_t count = 0;
};

constexpr std::size_t slot_of(std::uint32_t hash) { return (hash ^ (hash >> 15)) & 0xff; }
constexpr std::uint16_t tag_of(std::uint32_t hash) {
  return static_cast<std::uint16_t>(hash >> 16);
}

// The octets of rdata before its names, for the types whose names RFC 1035 allows to be compressed
// (RFC 3597, section 4); npos for all others.
std::size_t names_begin(wire::Type type) {
  switch (type) {
    case wire::Type::Cname:
    case wire::Type::Ns:
    case wire::Type::Ptr:
    case wire::Type::Soa:
      return 0;
    case wire::Type::Mx:
      return 2;
    default:
      return std::string_view::npos;
  }
}

std::size_t name_size(std::string_view wire) {
  std::size_t at = 0;
  while (at < wire.size() && wire[at] != 0) at += 1u + static_cast<unsigned char>(wire[at]);
  return std::min(at + 1, wire.size());
}

}  // namespace

RecordWriter::RecordWriter(MessageParts& parts)
    : out_(parts.message), ttl_offsets_(parts.ttl_offsets), pointers_(parts.pointers) {
  const std::string_view key = parts.key.bytes();
  out_.reserve(kUsualSize);
  out_.assign(wire::kHeaderSize, 0);
  out_.insert(out_.end(), key.begin(), key.end() - 1);
  if (parts.key.name().size() <= 1) return;
  // Most records have the name of the question and no other, which needs no table.
  question_ = last_owner_ = parts.key.name();
  last_owner_at_ = wire::kHeaderSize;
}

void RecordWriter::remember_question() {
  const Suffixes suffixes(std::exchange(question_, {}));
  for (std::size_t i = 0; i < suffixes.count; ++i)
    remember(suffixes.hashes[i], wire::kHeaderSize + suffixes.starts[i]);
}

bool RecordWriter::add(const wire::ResponseRecord& record, std::uint32_t ttl) {
  const std::size_t before = out_.size();
  if (before >= wire::kMaxMessageSize) return false;
  if (last_owner_at_ != 0 && equals_ignoring_case(record.owner, last_owner_)) {
    put_u16(static_cast<std::uint16_t>(0xc000u | last_owner_at_));
  } else {
    last_owner_at_ = put_name(record.owner);
    last_owner_ = record.owner;
    // An owner that is a pointer and nothing else is found without a note.
    if (!pointers_.empty() && pointers_.back() == before) pointers_.pop_back();
  }
  std::array<std::uint8_t, wire::kFixedFields> fields{};
  wire::store_u16(fields.data(), static_cast<std::uint16_t>(record.type));
  wire::store_u16(fields.data() + 2, static_cast<std::uint16_t>(record.rclass));
  wire::store_u32(fields.data() + 4, ttl);
  const std::size_t ttl_at = out_.size() + 4;
  out_.insert(out_.end(), fields.begin(), fields.end());
  put_rdata(record);
  if (out_.size() > wire::kMaxMessageSize) {
    out_.resize(before);
    forget_after(before);
    while (!pointers_.empty() && pointers_.back() >= before) pointers_.pop_back();
    last_owner_at_ = 0;
    return false;
  }
  wire::store_u16(out_.data() + ttl_at + 4, static_cast<std::uint16_t>(out_.size() - ttl_at - 6));
  ttl_offsets_.push_back(static_cast<std::uint16_t>(ttl_at));
  return true;
}

void RecordWriter::put_u16(std::uint16_t value) {
  out_.push_back(static_cast<std::uint8_t>(value >> 8));
  out_.push_back(static_cast<std::uint8_t>(value));
}

void RecordWriter::put_pointer(std::size_t pointee) {
  pointers_.push_back(static_cast<std::uint16_t>(out_.size()));
  put_u16(static_cast<std::uint16_t>(0xc000u | pointee));
}

std::uint16_t RecordWriter::put_name(std::string_view name) {
  const std::size_t begin = out_.size();
  const auto reachable = static_cast<std::uint16_t>(begin <= kMaxPointer ? begin : 0);
  if (name.size() <= 1 || lookups_ >= kMaxLookups) {
    out_.insert(out_.end(), name.begin(), name.end());
    return name.size() <= 1 ? std::uint16_t{0} : reachable;
  }
  if (!question_.empty()) remember_question();
  const Suffixes suffixes(name);
  std::size_t written = 0;  // labels
  std::uint16_t known = 0;
  for (; written < suffixes.count; ++written) {
    known = find(name.substr(suffixes.starts[written]), suffixes.hashes[written]);
    if (known != 0) break;
  }
  const std::size_t octets = known != 0 ? suffixes.starts[written] : name.size();
  out_.insert(out_.end(), name.begin(), name.begin() + static_cast<std::ptrdiff_t>(octets));
  if (known != 0) put_pointer(known);
  for (std::size_t i = 0; i < written; ++i)
    remember(suffixes.hashes[i], begin + suffixes.starts[i]);
  return written == 0 ? known : reachable;
}

void RecordWriter::put_rdata(const wire::ResponseRecord& record) {
  std::string_view rdata = record.rdata;
  const std::size_t names = names_begin(record.type);
  if (names == std::string_view::npos || record.rclass != wire::Class::In ||
      rdata.size() <= names) {
    out_.insert(out_.end(), rdata.begin(), rdata.end());
    return;
  }
  out_.insert(out_.end(), rdata.begin(), rdata.begin() + static_cast<std::ptrdiff_t>(names));
  rdata.remove_prefix(names);
  for (int left = record.type == wire::Type::Soa ? 2 : 1; left > 0; --left) {
    const std::size_t size = name_size(rdata);
    put_name(rdata.substr(0, size));
    rdata.remove_prefix(size);
  }
  out_.insert(out_.end(), rdata.begin(), rdata.end());
}

void RecordWriter::remember(std::uint32_t hash, std::size_t offset) {
  if (offset > kMaxPointer || used_slots_ == kMaxUsedSlots) return;
  std::size_t slot = slot_of(hash);
  while (offsets_[slot] != 0) slot = (slot + 1) % kSlots;
  offsets_[slot] = static_cast<std::uint16_t>(offset);
  tags_[slot] = tag_of(hash);
  ++used_slots_;
}

// The names of a record that was taken back are the newest: none of the others was placed behind
// one of them, so emptying their slots breaks no chain.
void RecordWriter::forget_after(std::size_t offset) {
  for (std::uint16_t& known : offsets_) {
    if (known < offset) continue;
    known = 0;
    --used_slots_;
  }
}

std::uint16_t RecordWriter::find(std::string_view suffix, std::uint32_t hash) {
  const std::uint16_t tag = tag_of(hash);
  std::size_t slot = slot_of(hash);
  ++lookups_;
  for (std::size_t probes = 0; offsets_[slot] != 0 && probes < kMaxProbes; ++probes) {
    if (tags_[slot] == tag && equals_at(offsets_[slot], suffix)) return offsets_[slot];
    slot = (slot + 1) % kSlots;
  }
  return 0;
}

bool RecordWriter::equals_at(std::size_t offset, std::string_view name) const {
  std::size_t at = offset;
  while (true) {
    while ((out_[at] & 0xc0) == 0xc0)
      at = static_cast<std::size_t>(wire::load_u16(out_.data() + at) & 0x3fff);
    const std::size_t label = 1u + out_[at];
    if (label > name.size()) return false;
    const std::string_view here(reinterpret_cast<const char*>(out_.data() + at), label);
    if (!equals_ignoring_case(here, name.substr(0, label))) return false;
    if (label == 1) return name.size() == 1;
    at += label;
    name.remove_prefix(label);
  }
}

}  // namespace meshdns::dnsd
