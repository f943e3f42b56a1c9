// SPDX-License-Identifier: Apache-2.0
#include "resolver/wire/response_message.hpp"

#include <algorithm>

#include "registry/base/host_name.hpp"
#include "resolver/wire/octets.hpp"
#include "resolver/wire/rdata_shape.hpp"

namespace meshdns::wire {
namespace {

std::uint32_t usable_ttl(std::uint32_t ttl) {
  if ((ttl & 0x80000000u) != 0) return 0;  // RFC 2181, section 8
  return std::min(ttl, kMaxTtl);
}

enum class SectionOf : std::uint8_t { Answer, Authority, Additional };

class Reader {
 public:
  Reader(std::span<const std::uint8_t> message, ResponseMessage& out)
      : message_(message), out_(out) {}

  bool read_header();
  bool read_question();
  bool read_records();
  // Returns the place and the reason at which reading stopped.
  Error error() const {
    return {std::string(what_) + " at octet " + std::to_string(at_) + " of " +
            std::to_string(message_.size())};
  }

 private:
  bool wrong(const char* what) {
    what_ = what;
    return false;
  }
  std::uint16_t u16(std::size_t at) const { return load_u16(message_.data() + at); }
  bool read_section(SectionOf section, std::size_t count);
  bool read_record(SectionOf section);
  bool read_opt(SectionOf section, const std::string& owner, std::size_t fields, std::size_t rdata,
                std::size_t end);
  bool read_options(std::size_t at, std::size_t end);

  std::span<const std::uint8_t> message_;
  ResponseMessage& out_;
  std::size_t at_ = 0;
  const char* what_ = "";
};

bool Reader::read_header() {
  if (message_.size() < kHeaderSize) return wrong("message shorter than a header");
  const std::uint8_t high = message_[2];
  const std::uint8_t low = message_[3];
  if ((high & 0x80) == 0) return wrong("not a response (QR=0)");
  if ((high & 0x78) != 0) return wrong("opcode other than QUERY");
  out_.id = u16(0);
  out_.authoritative = (high & 0x04) != 0;
  out_.truncated = (high & 0x02) != 0;
  out_.recursion_available = (low & 0x80) != 0;
  out_.authentic_data = (low & 0x20) != 0;
  out_.checking_disabled = (low & 0x10) != 0;
  out_.rcode = static_cast<Rcode>(low & 0x0f);
  at_ = kHeaderSize;
  return true;
}

bool Reader::read_question() {
  const std::uint16_t questions = u16(4);
  if (questions > 1) return wrong("more than one question");
  if (questions == 0) return true;
  if (!read_name(message_, at_, message_.size(), out_.question_name))
    return wrong("malformed name in the question");
  if (message_.size() - at_ < 4) return wrong("question cut short");
  out_.question.name = to_lower(out_.question_name);
  out_.question.type = static_cast<Type>(u16(at_));
  out_.question.qclass = static_cast<Class>(u16(at_ + 2));
  at_ += 4;
  return true;
}

bool Reader::read_records() {
  const std::size_t records = std::size_t{u16(6)} + u16(8) + u16(10);
  if (records > kMaxResponseRecords) return wrong("more records than are accepted");
  if (!read_section(SectionOf::Answer, u16(6)) || !read_section(SectionOf::Authority, u16(8)) ||
      !read_section(SectionOf::Additional, u16(10)))
    return false;
  return at_ == message_.size() || wrong("octets after the last record");
}

bool Reader::read_section(SectionOf section, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    if (!read_record(section)) return false;
  return true;
}

bool Reader::read_record(SectionOf section) {
  ResponseRecord record;
  if (!read_name(message_, at_, message_.size(), record.owner))
    return wrong("malformed name of a record");
  if (message_.size() - at_ < kFixedFields) return wrong("record cut short");
  const std::size_t fields = at_;
  record.type = static_cast<Type>(u16(fields));
  record.rclass = static_cast<Class>(u16(fields + 2));
  record.ttl = usable_ttl(load_u32(message_.data() + fields + 4));
  const std::size_t rdata = fields + kFixedFields;
  const std::size_t end = rdata + u16(fields + 8);
  if (end > message_.size()) return wrong("record data cut short");

  if (record.type == Type::Opt) {
    if (!read_opt(section, record.owner, fields, rdata, end)) return false;
    at_ = end;
    return true;
  }
  if (const char* shape = rdata_shape(record.type, record.rclass)) {
    if (!read_rdata(message_, rdata, end, shape, record.rdata))
      return wrong("record data do not fit the type");
  } else {
    record.rdata.assign(reinterpret_cast<const char*>(message_.data() + rdata), end - rdata);
  }
  at_ = end;
  if (record.type == Type::Tsig) return true;  // not ours to check: we send none
  auto& records = section == SectionOf::Answer      ? out_.answer
                  : section == SectionOf::Authority ? out_.authority
                                                    : out_.additional;
  records.push_back(std::move(record));
  return true;
}

bool Reader::read_opt(SectionOf section, const std::string& owner, std::size_t fields,
                      std::size_t rdata, std::size_t end) {
  if (section != SectionOf::Additional) return wrong("OPT outside the additional section");
  if (owner.size() != 1) return wrong("OPT not at the root");
  if (out_.has_edns) return wrong("more than one OPT");
  out_.has_edns = true;
  out_.udp_payload = u16(fields + 2);
  const unsigned upper = message_[fields + 4];
  out_.rcode = static_cast<Rcode>(upper << 4 | static_cast<unsigned>(out_.rcode));
  return read_options(rdata, end);
}

bool Reader::read_options(std::size_t at, std::size_t end) {
  constexpr std::size_t kMaxExtendedErrors = 8;
  while (at < end) {
    if (end - at < 4) return wrong("EDNS option cut short");
    const std::uint16_t code = u16(at);
    const std::size_t size = u16(at + 2);
    at += 4;
    if (end - at < size) return wrong("EDNS option cut short");
    const char* const value = reinterpret_cast<const char*>(message_.data() + at);
    if (code == 10) {
      // RFC 7873, section 5.3: client and server cookie, or the client's alone.
      if (size != 8 && (size < 16 || size > 40)) return wrong("cookie of a wrong length");
      if (out_.cookie.empty()) out_.cookie.assign(value, size);
    } else if (code == 15 && out_.extended_errors.size() < kMaxExtendedErrors) {
      if (size < 2) return wrong("extended error cut short");
      out_.extended_errors.emplace_back(u16(at), std::string(value + 2, size - 2));
    }
    at += size;
  }
  return true;
}

}  // namespace

bool is_reply_to(std::span<const std::uint8_t> datagram, std::uint16_t id, std::string_view name,
                 Type type, Class qclass, bool* case_differs) {
  if (case_differs != nullptr) *case_differs = false;
  if (datagram.size() < kHeaderSize + name.size() + 4) return false;
  const std::uint8_t* const header = datagram.data();
  const bool response = (header[2] & 0xf8) == 0x80;  // QR=1, opcode QUERY
  if (!response || load_u16(header) != id || load_u16(header + 4) != 1) return false;
  const std::uint8_t* const fields = header + kHeaderSize + name.size();
  if (load_u16(fields) != static_cast<std::uint16_t>(type) ||
      load_u16(fields + 2) != static_cast<std::uint16_t>(qclass))
    return false;
  // A name in wire form ends where its root octet says, so equal octets are equal names.
  const std::string_view asked(reinterpret_cast<const char*>(header + kHeaderSize), name.size());
  if (asked == name) return true;
  if (case_differs != nullptr) *case_differs = equals_ignoring_case(asked, name);
  return false;
}

Result<ResponseMessage> parse_response(std::span<const std::uint8_t> datagram) {
  ResponseMessage response;
  Reader reader(datagram, response);
  if (!reader.read_header() || !reader.read_question()) return std::unexpected(reader.error());
  if (reader.read_records()) return response;
  if (!response.truncated) return std::unexpected(reader.error());
  response.answer.clear();
  response.authority.clear();
  response.additional.clear();
  return response;
}

}  // namespace meshdns::wire
