// SPDX-License-Identifier: Apache-2.0
#include "resolver/address_answer.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>

#include "registry/base/host_name.hpp"

namespace meshdns::resolver {
namespace {

constexpr std::size_t kHeaderBytes = 12;
constexpr std::size_t kMaxNameOctets = 255;
constexpr int kMaxLinks = 8;
// Pointers in one name; a name has at most 127 labels, and no more pointers make sense.
constexpr int kMaxPointers = 127;
// Addresses of one name that are taken; a larger answer only makes endpoint sets dear.
constexpr std::size_t kMaxAddresses = 256;

constexpr std::uint16_t kTypeA = 1;
constexpr std::uint16_t kTypeCname = 5;
constexpr std::uint16_t kTypeSoa = 6;
constexpr std::uint16_t kTypeAaaa = 28;
constexpr std::uint16_t kClassIn = 1;

constexpr std::uint8_t kRcodeNoError = 0;
constexpr std::uint8_t kRcodeNxDomain = 3;

// A cursor that never leaves the message: past a failure it reads zeros and says so in ok().
class Reader {
 public:
  explicit Reader(std::span<const std::uint8_t> message) : message_(message) {}

  bool ok() const { return ok_; }
  std::size_t position() const { return position_; }

  std::uint8_t u8() {
    if (!has(1)) return 0;
    return message_[position_++];
  }
  std::uint16_t u16() {
    const std::uint16_t high = u8();
    return static_cast<std::uint16_t>(high << 8 | u8());
  }
  std::uint32_t u32() {
    const std::uint32_t high = u16();
    return high << 16 | u16();
  }
  std::span<const std::uint8_t> bytes(std::size_t count) {
    if (!has(count)) return {};
    const auto taken = message_.subspan(position_, count);
    position_ += count;
    return taken;
  }
  // Lower case without the final dot; octets that could be taken for another name are escaped.
  // Pointers lead strictly backward, so that there are no loops (RFC 9267, section 2).
  std::string name();

 private:
  bool has(std::size_t count) {
    ok_ = ok_ && message_.size() - position_ >= count;
    return ok_;
  }

  std::span<const std::uint8_t> message_;
  std::size_t position_ = 0;
  bool ok_ = true;
};

void append_label(std::string& name, std::span<const std::uint8_t> label) {
  if (!name.empty()) name += '.';
  for (const std::uint8_t octet : label) {
    const char c = static_cast<char>(octet);
    if (octet > 0x20 && octet < 0x7f && c != '.' && c != '\\') {
      name += to_lower(c);
      continue;
    }
    std::array<char, 5> escaped{};
    std::snprintf(escaped.data(), escaped.size(), "\\%03u", static_cast<unsigned>(octet));
    name += escaped.data();
  }
}

std::string Reader::name() {
  std::string name;
  std::size_t octets = 1;  // the root's
  std::optional<std::size_t> resume;
  std::size_t lowest = position_;
  int pointers = 0;
  while (true) {
    const std::uint8_t length = u8();
    if (!ok_ || length == 0) break;
    if ((length & 0xc0) == 0xc0) {
      const std::size_t target = static_cast<std::size_t>(length & 0x3f) << 8 | u8();
      if (!resume) resume = position_;
      ok_ = ok_ && target < lowest && ++pointers <= kMaxPointers;
      if (!ok_) break;
      lowest = position_ = target;
      continue;
    }
    octets += length + std::size_t{1};
    ok_ = (length & 0xc0) == 0 && octets <= kMaxNameOctets;
    const auto label = bytes(length);
    if (!ok_) break;
    append_label(name, label);
  }
  if (ok_ && resume) position_ = *resume;
  return name;
}

struct Record {
  std::string owner;
  std::uint16_t type = 0;
  std::chrono::seconds ttl{0};
  IpAddress address;                // A, AAAA
  std::string target;               // CNAME
  std::chrono::seconds minimum{0};  // SOA
};

std::chrono::seconds to_ttl(std::uint32_t value) {
  return std::chrono::seconds{value > 0x7fffffffU ? 0 : value};
}

template <std::size_t N>
std::array<std::uint8_t, N> to_octets(std::span<const std::uint8_t> bytes) {
  std::array<std::uint8_t, N> octets{};
  std::copy_n(bytes.begin(), N, octets.begin());
  return octets;
}

// The next record, with what matters of its data; nullopt when the message does not hold it.
std::optional<Record> read_record(Reader& reader) {
  Record record;
  record.owner = reader.name();
  record.type = reader.u16();
  const std::uint16_t record_class = reader.u16();
  record.ttl = to_ttl(reader.u32());
  const std::size_t length = reader.u16();
  const std::size_t end = reader.position() + length;
  if (!reader.ok()) return std::nullopt;
  if (record_class != kClassIn) record.type = 0;
  switch (record.type) {
    case kTypeA:
      if (length != 4) return std::nullopt;
      if (const auto data = reader.bytes(4); reader.ok())
        record.address = IpAddress::v4(to_octets<4>(data));
      break;
    case kTypeAaaa:
      if (length != 16) return std::nullopt;
      if (const auto data = reader.bytes(16); reader.ok())
        record.address = IpAddress::v6(to_octets<16>(data));
      break;
    case kTypeCname:
      record.target = reader.name();
      break;
    case kTypeSoa:
      reader.name();
      reader.name();
      reader.bytes(16);  // serial, refresh, retry, expire
      record.minimum = to_ttl(reader.u32());
      break;
    default:
      reader.bytes(length);
  }
  if (!reader.ok() || reader.position() != end) return std::nullopt;
  return record;
}

std::optional<std::vector<Record>> read_records(Reader& reader, std::size_t count) {
  std::vector<Record> records;
  for (std::size_t i = 0; i < count; ++i) {
    auto record = read_record(reader);
    if (!record) return std::nullopt;
    records.push_back(std::move(*record));
  }
  return records;
}

Answer failed(std::string error) {
  return {.status = Answer::Status::Failed, .error = std::move(error)};
}

std::string rcode_text(std::uint8_t rcode) {
  switch (rcode) {
    case 1:
      return "FORMERR";
    case 2:
      return "SERVFAIL";
    case 4:
      return "NOTIMP";
    case 5:
      return "REFUSED";
    default:
      return "rcode " + std::to_string(rcode);
  }
}

// Not what a client could connect to: 0.0.0.0, ::, and IPv4 in the disguise of IPv6.
bool is_usable(const IpAddress& address, Family family) {
  return !address.is_unspecified() && address.is_v4() == (family == Family::V4);
}

// Collects what the chain from `host` leads to.
Answer follow_chain(const std::vector<Record>& records, std::string_view host, Family family) {
  const std::uint16_t type = family == Family::V4 ? kTypeA : kTypeAaaa;
  Answer answer{.status = Answer::Status::NoData, .ttl = std::chrono::seconds::max()};
  std::string current(host);
  for (int link = 0; link <= kMaxLinks; ++link) {
    std::unordered_set<IpAddress> seen;
    const Record* alias = nullptr;
    for (const Record& record : records) {
      if (record.owner != current) continue;
      if (record.type == kTypeCname && alias == nullptr) alias = &record;
      if (record.type != type || !is_usable(record.address, family)) continue;
      answer.ttl = std::min(answer.ttl, record.ttl);
      if (answer.addresses.size() < kMaxAddresses && seen.insert(record.address).second)
        answer.addresses.push_back(record.address);
    }
    if (!answer.addresses.empty()) answer.status = Answer::Status::Addresses;
    if (!answer.addresses.empty() || alias == nullptr) return answer;
    answer.ttl = std::min(answer.ttl, alias->ttl);
    current = alias->target;
  }
  return failed("the chain of aliases has more than 8 links");
}

void take_negative_ttl(Answer& answer, const std::vector<Record>& authority) {
  const auto soa = std::ranges::find(authority, kTypeSoa, &Record::type);
  answer.has_ttl = soa != authority.end();
  if (answer.has_ttl) answer.ttl = std::min({answer.ttl, soa->ttl, soa->minimum});
}

}  // namespace

Answer read_address_answer(std::span<const std::uint8_t> message, std::string_view host,
                           Family family) {
  if (message.size() < kHeaderBytes) return failed("the answer is shorter than a header");
  Reader reader(message);
  reader.u16();  // the ID has been compared by whoever received the message
  const std::uint8_t flags_high = reader.u8();
  const std::uint8_t rcode = reader.u8() & 0x0f;
  const std::uint16_t questions = reader.u16();
  const std::uint16_t answers = reader.u16();
  const std::uint16_t authorities = reader.u16();
  reader.u16();  // additional records are nobody's answer
  if ((flags_high & 0xf8) != 0x80) return failed("not a response to a query");
  if (questions != 1) return failed("the answer does not repeat the question");
  const std::string qname = reader.name();
  const std::uint16_t qtype = reader.u16();
  const std::uint16_t qclass = reader.u16();
  if (!reader.ok() || qname != host || qclass != kClassIn ||
      qtype != (family == Family::V4 ? kTypeA : kTypeAaaa))
    return failed("the answer is to another question");
  if (rcode != kRcodeNoError && rcode != kRcodeNxDomain) return failed(rcode_text(rcode));
  if ((flags_high & 0x02) != 0) return failed("the answer is truncated");
  const auto records = read_records(reader, answers);
  const auto authority = records ? read_records(reader, authorities) : std::nullopt;
  if (!authority) return failed("the answer is malformed");
  Answer answer = follow_chain(*records, host, family);
  if (answer.status == Answer::Status::Failed) return answer;
  if (rcode == kRcodeNxDomain) {
    answer.addresses.clear();
    answer.status = Answer::Status::NoName;
  }
  if (answer.status != Answer::Status::Addresses) take_negative_ttl(answer, *authority);
  return answer;
}

}  // namespace meshdns::resolver
