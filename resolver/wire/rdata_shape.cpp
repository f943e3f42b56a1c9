// SPDX-License-Identifier: Apache-2.0
#include "resolver/wire/rdata_shape.hpp"

#include <array>

#include "resolver/wire/octets.hpp"

namespace meshdns::wire {
namespace {

// A name has at most 127 labels, and a pointer that saves octets is preceded by a label.
constexpr int kMaxPointers = 127;

struct Shape {
  std::uint16_t type;
  bool in_only;  // of other classes the rdata is opaque
  const char* fields;
};

// Types whose rdata we read: those of RFC 1035, whose names may be compressed, those whose names a
// receiver has to expand all the same (RFC 3597, section 4), and what we answer ourselves.
constexpr std::array kShapes = {
    Shape{1, true, "4"},       // A
    Shape{2, false, "n"},      // NS
    Shape{3, false, "n"},      // MD
    Shape{4, false, "n"},      // MF
    Shape{5, false, "n"},      // CNAME
    Shape{6, false, "nn884"},  // SOA
    Shape{7, false, "n"},      // MB
    Shape{8, false, "n"},      // MG
    Shape{9, false, "n"},      // MR
    Shape{12, false, "n"},     // PTR
    Shape{13, false, "ss"},    // HINFO
    Shape{14, false, "nn"},    // MINFO
    Shape{15, false, "2n"},    // MX
    Shape{16, false, "S"},     // TXT
    Shape{17, false, "nn"},    // RP
    Shape{18, false, "2n"},    // AFSDB
    Shape{21, false, "2n"},    // RT
    Shape{26, true, "2nn"},    // PX
    Shape{28, true, "88"},     // AAAA
    Shape{33, true, "6n"},     // SRV
    Shape{35, true, "4sssn"},  // NAPTR
    Shape{36, true, "2n"},     // KX
    Shape{39, false, "n"},     // DNAME
};

class RdataReader {
 public:
  RdataReader(std::span<const std::uint8_t> message, std::size_t at, std::size_t end,
              std::string& out)
      : message_(message), at_(at), end_(end), out_(out) {}

  bool read(const char* fields) {
    for (; *fields != '\0'; ++fields)
      if (!read_field(*fields)) return false;
    return at_ == end_;
  }

 private:
  bool read_field(char field) {
    switch (field) {
      case 'n':
        return read_name(message_, at_, end_, out_);
      case 's':
        return read_string();
      case 'S':
        return read_strings();
      default:
        return read_octets(static_cast<std::size_t>(field - '0'));
    }
  }
  bool read_octets(std::size_t size) {
    if (end_ - at_ < size) return false;
    out_.append(reinterpret_cast<const char*>(message_.data() + at_), size);
    at_ += size;
    return true;
  }
  bool read_string() { return at_ < end_ && read_octets(std::size_t{1} + message_[at_]); }
  bool read_strings() {
    do {
      if (!read_string()) return false;
    } while (at_ < end_);
    return true;
  }

  std::span<const std::uint8_t> message_;
  std::size_t at_;
  std::size_t end_;
  std::string& out_;
};

}  // namespace

bool read_name(std::span<const std::uint8_t> message, std::size_t& at, std::size_t end,
               std::string& out) {
  const std::size_t first = out.size();
  std::size_t position = at;
  std::size_t lowest = at;
  std::size_t limit = end;
  int pointers = 0;
  for (;;) {
    if (position >= limit) return false;
    const std::uint8_t length = message[position];
    if (length >= 0xc0) {
      if (position + 2 > limit || ++pointers > kMaxPointers) return false;
      if (pointers == 1) at = position + 2;
      const std::size_t target = load_u16(message.data() + position) & 0x3fffu;
      if (target < kHeaderSize || target >= lowest) return false;
      position = lowest = target;
      limit = message.size();
      continue;
    }
    if (length > kMaxLabelLength) return false;
    if (position + 1 + length > limit) return false;
    if (out.size() - first + 1 + length > kMaxNameLength - (length != 0 ? 1 : 0)) return false;
    out.append(reinterpret_cast<const char*>(message.data() + position), std::size_t{1} + length);
    position += std::size_t{1} + length;
    if (length == 0) break;
  }
  if (pointers == 0) at = position;
  return true;
}

const char* rdata_shape(Type type, Class rclass) {
  const auto number = static_cast<std::uint16_t>(type);
  for (const Shape& shape : kShapes)
    if (shape.type == number) return shape.in_only && rclass != Class::In ? nullptr : shape.fields;
  return nullptr;
}

bool read_rdata(std::span<const std::uint8_t> message, std::size_t at, std::size_t end,
                const char* shape, std::string& out) {
  return RdataReader(message, at, end, out).read(shape);
}

bool has_known_shape(Type type, Class rclass, std::string_view rdata) {
  const char* const shape = rdata_shape(type, rclass);
  if (shape == nullptr) return false;
  const std::span octets(reinterpret_cast<const std::uint8_t*>(rdata.data()), rdata.size());
  std::string expanded;
  return read_rdata(octets, 0, octets.size(), shape, expanded) && expanded == rdata;
}

}  // namespace meshdns::wire
