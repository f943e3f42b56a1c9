#include "dnsd/forward/record_writer.hpp"

#include <algorithm>

#include "dnsd/wire/octets.hpp"
#include "registry/base/host_name.hpp"

namespace meshdns::dnsd {
namespace {

constexpr std::size_t kMaxPointer = 0x3fff;
// Names that later ones are compared with; beyond, names are written out.
constexpr std::size_t kMaxKnown = 64;
// What few answers go beyond.
constexpr std::size_t kUsualSize = 256;
constexpr std::size_t kUsualNames = 16;

std::string_view without_first_label(std::string_view name) {
  return name.substr(1 + static_cast<unsigned char>(name[0]));
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
    : out_(parts.message), ttl_offsets_(parts.ttl_offsets) {
  const std::string_view key = parts.key.bytes();
  out_.reserve(kUsualSize);
  known_.reserve(kUsualNames);
  out_.assign(wire::kHeaderSize, 0);
  out_.insert(out_.end(), key.begin(), key.end() - 1);
  remember(parts.key.name(), wire::kHeaderSize);
}

bool RecordWriter::add(const wire::ResponseRecord& record, std::uint32_t ttl) {
  const std::size_t before = out_.size();
  const std::size_t known_before = known_.size();
  const std::size_t owner_at = before;
  if (!last_owner_.empty() && last_owner_at_ != 0 &&
      equals_ignoring_case(record.owner, last_owner_)) {
    put_u16(static_cast<std::uint16_t>(0xc000u | last_owner_at_));
  } else {
    const std::uint16_t ref = find(record.owner);
    put_name(record.owner);
    last_owner_ = record.owner;
    last_owner_at_ = ref != 0                  ? ref
                     : owner_at <= kMaxPointer ? static_cast<std::uint16_t>(owner_at)
                                               : 0;
  }
  put_u16(static_cast<std::uint16_t>(record.type));
  put_u16(static_cast<std::uint16_t>(record.rclass));
  const std::size_t ttl_at = out_.size();
  put_u16(static_cast<std::uint16_t>(ttl >> 16));
  put_u16(static_cast<std::uint16_t>(ttl));
  put_u16(0);
  put_rdata(record);
  if (out_.size() > wire::kMaxMessageSize) {
    out_.resize(before);
    known_.resize(known_before);
    last_owner_ = {};
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

void RecordWriter::put_name(std::string_view name) {
  const std::size_t begin = out_.size();
  std::string_view rest = name;
  while (rest.size() > 1) {
    if (const std::uint16_t ref = find(rest); ref != 0) {
      put_u16(static_cast<std::uint16_t>(0xc000u | ref));
      break;
    }
    const std::size_t label = 1u + static_cast<unsigned char>(rest[0]);
    out_.insert(out_.end(), rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(label));
    rest.remove_prefix(label);
  }
  if (rest.size() <= 1) out_.push_back(0);
  // Suffixes that were found are known already.
  std::size_t offset = begin;
  for (std::string_view part = name; part.size() > rest.size() && part.size() > 1;
       part = without_first_label(part)) {
    if (known_.size() < kMaxKnown && offset <= kMaxPointer)
      known_.push_back(
          {static_cast<std::uint16_t>(offset), static_cast<std::uint16_t>(part.size())});
    offset += 1u + static_cast<unsigned char>(part[0]);
  }
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

void RecordWriter::remember(std::string_view name, std::size_t offset) {
  for (; name.size() > 1; name = without_first_label(name)) {
    if (known_.size() >= 2 * kMaxKnown || offset > kMaxPointer) return;
    known_.push_back({static_cast<std::uint16_t>(offset), static_cast<std::uint16_t>(name.size())});
    offset += 1u + static_cast<unsigned char>(name[0]);
  }
}

std::uint16_t RecordWriter::find(std::string_view name) const {
  if (name.size() <= 1) return 0;
  for (const Known& known : known_)
    if (known.size == name.size() && equals_at(known.offset, name)) return known.offset;
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
