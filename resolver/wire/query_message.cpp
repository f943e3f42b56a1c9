// SPDX-License-Identifier: Apache-2.0
#include "resolver/wire/query_message.hpp"

#include <algorithm>
#include <array>

#include "resolver/wire/octets.hpp"

namespace meshdns::wire {
namespace {

using Octets = std::uint8_t __attribute__((vector_size(16)));

// Sixteen octets at a time: their lower-case form, and whether any is a dot or a NUL.  A name in
// wire form is its text but for the length octets, and those are below 'A': they pass unchanged.
inline Octets lower_case(Octets in) {
  const Octets upper = (in >= 'A') & (in <= 'Z');
  return in | (upper & 0x20);
}

// The first `n` octets of a block set, from kFirst + 16 - n.
constexpr std::array<std::uint8_t, 32> kFirst = [] {
  std::array<std::uint8_t, 32> octets{};
  for (std::size_t i = 0; i < 16; ++i) octets[i] = 0xff;
  return octets;
}();

inline Octets load_octets(const std::uint8_t* from) {
  Octets block;
  std::memcpy(&block, from, sizeof block);
  return block;
}

inline bool copy_lower_case(const std::uint8_t* from, std::size_t size, std::size_t readable,
                            char* to) {
  Octets odd{};
  std::size_t i = 0;
  // The last block may reach behind the name: what it writes there is behind the text, but inside
  // the array (253 rounds up to 256), and what it sees there does not count.
  for (; i < size && i + sizeof(Octets) <= readable; i += sizeof(Octets)) {
    Octets block = load_octets(from + i);
    const std::size_t ours = std::min(size - i, sizeof(Octets));
    odd |= ((block == '.') | (block == 0)) & load_octets(kFirst.data() + 16 - ours);
    block = lower_case(block);
    std::memcpy(to + i, &block, sizeof block);
  }
  bool found = false;
  for (; i < size; ++i) {
    const std::uint8_t c = from[i];
    found |= c == '.' || c == 0;
    to[i] = static_cast<char>(c >= 'A' && c <= 'Z' ? c + 0x20 : c);
  }
  std::uint64_t halves[2];
  std::memcpy(halves, &odd, sizeof halves);
  return found || (halves[0] | halves[1]) != 0;
}

bool label_has_odd_octets(const std::uint8_t* label, std::size_t length) {
  for (std::size_t i = 0; i < length; ++i)
    if (label[i] == '.' || label[i] == 0) return true;
  return false;
}

// copy_lower_case sees length octets and what follows the name, too; this does not.
bool has_odd_octets(const std::uint8_t* name) {
  for (std::size_t at = 0; name[at] != 0; at += name[at] + std::size_t{1})
    if (label_has_odd_octets(name + at + 1, name[at])) return true;
  return false;
}

// The question at offset 12.  False: not well-formed, and query.question stays empty.
inline bool parse_question(std::span<const std::uint8_t> datagram, QueryMessage& query) {
  const std::uint8_t* const name = datagram.data() + kHeaderSize;
  const std::size_t available = datagram.size() - kHeaderSize;
  // The places of the dots in the text: label n+1 begins there.
  std::array<std::uint8_t, kMaxNameLength / 2 + 2> dots;
  std::size_t labels = 0;
  std::size_t at = 0;
  for (;;) {
    if (at >= available) return false;
    const std::uint8_t length = name[at];
    if (length == 0) break;
    if (length > kMaxLabelLength) return false;  // compression or a reserved kind of label
    dots[labels++] = static_cast<std::uint8_t>(at);
    at += length + std::size_t{1};
    if (at >= kMaxNameLength) return false;  // no room for the root octet
  }
  const std::size_t size = at + 1;
  if (available < size + 4) return false;

  query.qname_size = size;
  query.qtype = static_cast<Type>(load_u16(name + size));
  query.qclass = static_cast<Class>(load_u16(name + size + 2));
  query.question = datagram.subspan(kHeaderSize, size + 4);
  query.has_odd_octets = false;
  query.qname_text_size = 0;
  if (labels == 0) return true;

  query.qname_text_size = size - 2;
  if (copy_lower_case(name + 1, size - 2, available - 1, query.qname_text.data())) [[unlikely]]
    query.has_odd_octets = has_odd_octets(name);
  for (std::size_t i = 1; i < labels; ++i) query.qname_text[dots[i] - 1] = '.';
  return true;
}

// RFC 6891, section 6.1.2.  False: options that overrun, or a cookie of a length that RFC 7873,
// section 5.2.2 answers with FORMERR.
bool parse_options(const std::uint8_t* at, std::size_t left, Edns& edns) {
  while (left > 0) {
    if (left < 4) return false;
    const std::uint16_t code = load_u16(at);
    const std::uint16_t length = load_u16(at + 2);
    at += 4;
    left -= 4;
    if (length > left) return false;
    switch (code) {
      case 3:
        edns.nsid = true;
        break;
      case 10:
        if (edns.cookie_length != 0) break;  // the first counts (RFC 7873, section 5.2)
        if (length != 8 && (length < 16 || length > 40)) return false;
        edns.cookie_length = static_cast<std::uint8_t>(length);
        std::memcpy(edns.cookie.data(), at, length);
        break;
      case 11:
        edns.keepalive = true;
        break;
      case 12:
        edns.padding = true;
        break;
      default:  // RFC 6891, section 6.1.2: unknown ones are ignored
        break;
    }
    at += length;
    left -= length;
  }
  return true;
}

// `fields` points at the class of an OPT record, `rdata` at its options.
bool parse_opt(const std::uint8_t* fields, const std::uint8_t* rdata, std::size_t size,
               QueryMessage& query) {
  if (query.has_edns) return false;  // RFC 6891, section 6.1.1: more than one
  query.has_edns = true;
  Edns& edns = query.edns;
  edns.udp_payload = load_u16(fields);
  edns.version = fields[3];
  edns.dnssec_ok = (fields[4] & 0x80) != 0;
  edns.nsid = edns.keepalive = edns.padding = false;
  edns.cookie_length = 0;
  // Options of a later EDNS version can have another format, so they are not checked.
  return edns.version != 0 || parse_options(rdata, size, edns);
}

// The octets of the name at `at`, pointers not followed but checked to point back; 0 = malformed.
std::size_t skip_name(std::span<const std::uint8_t> datagram, std::size_t at) {
  const std::size_t start = at;
  for (;;) {
    if (at >= datagram.size()) return 0;
    const std::uint8_t length = datagram[at];
    if (length == 0) return at + 1 - start;
    if (length >= 0xc0) {
      if (at + 2 > datagram.size()) return 0;
      const std::size_t target = load_u16(datagram.data() + at) & 0x3fffu;
      return target >= kHeaderSize && target < start ? at + 2 - start : 0;
    }
    if (length > kMaxLabelLength) return 0;
    at += length + std::size_t{1};
    if (at - start >= kMaxNameLength) return 0;
  }
}

// Everything after the question.  Records other than OPT are checked and ignored: what we forward
// is built anew, and a server that refuses them helps nobody.
bool parse_records(std::span<const std::uint8_t> datagram, std::size_t at,
                   std::size_t before_additional, std::size_t additional, QueryMessage& query) {
  for (std::size_t i = 0; i < before_additional + additional; ++i) {
    const std::size_t owner = skip_name(datagram, at);
    if (owner == 0 || datagram.size() - at < owner + kFixedFields) return false;
    const std::uint8_t* const fields = datagram.data() + at + owner;
    const std::size_t rdlength = load_u16(fields + 8);
    const std::size_t size = owner + kFixedFields + rdlength;
    if (datagram.size() - at < size) return false;
    if (load_u16(fields) == static_cast<std::uint16_t>(Type::Opt)) {
      if (i < before_additional || datagram[at] != 0) return false;
      if (!parse_opt(fields + 2, fields + kFixedFields, rdlength, query)) return false;
    }
    at += size;
  }
  return at == datagram.size();
}

}  // namespace

ParseOutcome parse_query(std::span<const std::uint8_t> datagram, QueryMessage& query) {
  if (datagram.size() < kHeaderSize) return ParseOutcome::Drop;
  const std::uint8_t* const header = datagram.data();
  if ((header[2] & 0x80) != 0) return ParseOutcome::Drop;

  query.id = load_u16(header);
  query.opcode = static_cast<Opcode>((header[2] >> 3) & 0xf);
  query.recursion_desired = (header[2] & 0x01) != 0;
  query.authentic_data = (header[3] & 0x20) != 0;
  query.checking_disabled = (header[3] & 0x10) != 0;
  query.question = {};
  query.has_edns = false;
  const std::uint16_t questions = load_u16(header + 4);
  const bool parsed = questions == 1 && parse_question(datagram, query);

  if (!parsed) {
    query.qname_size = 0;
    query.qname_text_size = 0;
    query.has_odd_octets = false;
    query.qtype = Type{0};
    query.qclass = Class{0};
  }
  if (query.opcode != Opcode::Query) return ParseOutcome::NotImp;
  if (!parsed && questions != 0) return ParseOutcome::FormErr;

  const std::size_t end = kHeaderSize + query.question.size();
  const std::size_t before_additional = std::size_t{load_u16(header + 6)} + load_u16(header + 8);
  const std::size_t additional = load_u16(header + 10);
  if (!parse_records(datagram, end, before_additional, additional, query))
    return ParseOutcome::FormErr;
  if (!parsed)
    return query.has_edns && query.edns.cookie_length != 0 ? ParseOutcome::CookieOnly
                                                           : ParseOutcome::FormErr;
  return query.has_edns && query.edns.version != 0 ? ParseOutcome::BadVers : ParseOutcome::Ok;
}

}  // namespace meshdns::wire
