// SPDX-License-Identifier: Apache-2.0
#include "resolver/wire/message_writer.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "resolver/wire/octets.hpp"

namespace meshdns::wire {
namespace {

constexpr std::uint8_t kTruncated = 0x02;
constexpr std::uint8_t kAuthoritative = 0x04;

std::string_view without_final_dot(std::string_view name) {
  if (name.ends_with('.')) name.remove_suffix(1);
  return name;
}

}  // namespace

// Owner, type, class and TTL on construction; the rest by put_*; then done().
class MessageWriter::Record {
 public:
  Record(MessageWriter& writer, Section section)
      : writer_(writer), section_(section), start_(writer.size_) {
    for (auto later = static_cast<std::size_t>(section) + 1; later < 3; ++later)
      assert(writer.counts_[later] == 0 && "sections are written in order");
  }
  Record(const Record&) = delete;
  Record& operator=(const Record&) = delete;
  ~Record() {
    if (done_) return;
    writer_.size_ = start_;
    writer_.names_.forget_after(start_);
  }

  bool begin(Type type, Class rclass, std::uint32_t ttl) {
    if (writer_.room() < 10) return false;
    std::uint8_t* const at = writer_.buffer_.data() + writer_.size_;
    store_u16(at, static_cast<std::uint16_t>(type));
    store_u16(at + 2, static_cast<std::uint16_t>(rclass));
    store_u32(at + 4, ttl);
    writer_.size_ += 10;
    rdata_ = writer_.size_;
    return true;
  }
  bool done() {
    const std::size_t rdlength = writer_.size_ - rdata_;
    if (rdlength > 0xffff) return false;
    store_u16(writer_.buffer_.data() + rdata_ - 2, static_cast<std::uint16_t>(rdlength));
    ++writer_.counts_[static_cast<std::size_t>(section_)];
    done_ = true;
    return true;
  }

 private:
  MessageWriter& writer_;
  Section section_;
  std::size_t start_;
  std::size_t rdata_ = 0;
  bool done_ = false;
};

MessageWriter::MessageWriter(std::span<std::uint8_t> buffer, std::size_t limit,
                             const QueryMessage& query)
    : buffer_(buffer), limit_(std::min(limit, buffer.size())) {
  assert(limit_ >= kMinUdpPayload);
  std::uint8_t* const header = buffer_.data();
  // The question first: it may lie in this very buffer, and usually where it belongs already.
  has_question_ = !query.question.empty();
  if (has_question_ && query.question.data() != header + kHeaderSize)
    std::memmove(header + kHeaderSize, query.question.data(), query.question.size());
  size_ = kHeaderSize + query.question.size();

  store_u16(header, query.id);
  const auto opcode = static_cast<unsigned>(query.opcode);
  header[2] = static_cast<std::uint8_t>(0x80u | opcode << 3 | (query.recursion_desired ? 1u : 0u));
  header[3] = static_cast<std::uint8_t>(0x80u | (query.checking_disabled ? 0x10u : 0u));
  if (has_question_) qclass_ = query.qclass;
  has_edns_ = query.has_edns;
  dnssec_ok_ = has_edns_ && query.edns.dnssec_ok;
  if (has_edns_) reserved_ = kOptSize;
}

void MessageWriter::set_rcode(Rcode rcode) { rcode_ = rcode; }

void MessageWriter::set_authoritative(bool aa) {
  buffer_[2] =
      static_cast<std::uint8_t>(aa ? buffer_[2] | kAuthoritative : buffer_[2] & ~kAuthoritative);
}

void MessageWriter::set_truncated() { buffer_[2] |= kTruncated; }

// --- records -------------------------------------------------------------------------------------

bool MessageWriter::put_address(Section section, NameRef owner, Type type, std::uint32_t ttl,
                                std::span<const std::uint8_t> octets) {
  // The record that is written most: with a pointer as owner its size is known beforehand.
  if (owner > kMaxPointee) return add_record(section, owner, type, Class::In, ttl, octets);
  const std::size_t size = 12 + octets.size();
  if (room() < size) return false;
  std::uint8_t* const at = buffer_.data() + size_;
  store_u16(at, static_cast<std::uint16_t>(0xc000u | owner));
  store_u16(at + 2, static_cast<std::uint16_t>(type));
  store_u16(at + 4, static_cast<std::uint16_t>(Class::In));
  store_u32(at + 6, ttl);
  store_u16(at + 10, static_cast<std::uint16_t>(octets.size()));
  std::memcpy(at + 12, octets.data(), octets.size());
  size_ += size;
  ++counts_[static_cast<std::size_t>(section)];
  return true;
}

bool MessageWriter::add_a(Section section, NameRef owner, std::uint32_t ttl,
                          std::span<const std::uint8_t, 4> address) {
  return put_address(section, owner, Type::A, ttl, address);
}

bool MessageWriter::add_aaaa(Section section, NameRef owner, std::uint32_t ttl,
                             std::span<const std::uint8_t, 16> address) {
  return put_address(section, owner, Type::Aaaa, ttl, address);
}

bool MessageWriter::add_address(Section section, NameRef owner, std::uint32_t ttl,
                                const IpAddress& address) {
  const std::span<const std::uint8_t, 16> octets(address.octets());
  return address.is_v4() ? add_a(section, owner, ttl, octets.subspan<12>())
                         : add_aaaa(section, owner, ttl, octets);
}

bool MessageWriter::add_name_record(Section section, NameRef owner, Type type, std::uint32_t ttl,
                                    std::string_view target, NameRef* target_ref) {
  Record record(*this, section);
  if (!put_ref(owner) || !record.begin(type, Class::In, ttl)) return false;
  const std::size_t target_at = size_;
  if (!put_name(target, Compression::On)) return false;
  if (target_ref != nullptr) *target_ref = static_cast<NameRef>(target_at);
  return record.done();
}

bool MessageWriter::add_srv(Section section, NameRef owner, std::uint32_t ttl,
                            std::uint16_t priority, std::uint16_t weight, std::uint16_t port,
                            std::string_view target, NameRef* target_ref) {
  Record record(*this, section);
  if (!put_ref(owner) || !record.begin(Type::Srv, Class::In, ttl)) return false;
  if (!put_u16(priority) || !put_u16(weight) || !put_u16(port)) return false;
  const std::size_t target_at = size_;
  if (!put_name(target, Compression::Off)) return false;
  if (target_ref != nullptr) *target_ref = static_cast<NameRef>(target_at);
  return record.done();
}

bool MessageWriter::add_srv_below(Section section, NameRef owner, std::uint32_t ttl,
                                  const SrvFields& fields, std::string_view label,
                                  std::string_view wire_name, NameRef* target_ref) {
  const std::size_t front = label.empty() ? 0 : label.size() + 1;
  if (label.size() > kMaxLabelLength || front + wire_name.size() > kMaxNameLength) return false;
  Record record(*this, section);
  if (!put_ref(owner) || !record.begin(Type::Srv, Class::In, ttl)) return false;
  if (room() < 6 + front + wire_name.size()) return false;
  std::uint8_t* at = buffer_.data() + size_;
  store_u16(at, fields.priority);
  store_u16(at + 2, fields.weight);
  store_u16(at + 4, fields.port);
  at += 6;
  if (target_ref != nullptr) *target_ref = static_cast<NameRef>(size_ + 6);
  if (!label.empty()) {
    *at++ = static_cast<std::uint8_t>(label.size());
    std::memcpy(at, label.data(), label.size());
    at += label.size();
  }
  std::memcpy(at, wire_name.data(), wire_name.size());
  size_ += 6 + front + wire_name.size();
  return record.done();
}

bool MessageWriter::add_txt(Section section, NameRef owner, std::uint32_t ttl,
                            std::span<const std::string_view> strings) {
  Record record(*this, section);
  if (!put_ref(owner) || !record.begin(Type::Txt, qclass_, ttl)) return false;
  const auto put_string = [this](std::string_view part) {
    if (room() < part.size() + 1) return false;
    buffer_[size_++] = static_cast<std::uint8_t>(part.size());
    std::copy(part.begin(), part.end(), buffer_.begin() + static_cast<std::ptrdiff_t>(size_));
    size_ += part.size();
    return true;
  };
  if (strings.empty() && !put_string({})) return false;
  for (std::string_view rest : strings) {
    do {
      const std::string_view part = rest.substr(0, 255);
      if (!put_string(part)) return false;
      rest.remove_prefix(part.size());
    } while (!rest.empty());
  }
  return record.done();
}

bool MessageWriter::add_soa(Section section, std::string_view zone, std::uint32_t ttl,
                            std::string_view mname, std::string_view rname, std::uint32_t serial,
                            std::uint32_t refresh, std::uint32_t retry, std::uint32_t expire,
                            std::uint32_t minimum) {
  Record record(*this, section);
  if (!put_name(zone, Compression::On) || !record.begin(Type::Soa, Class::In, ttl)) return false;
  if (!put_name(mname, Compression::On) || !put_name(rname, Compression::On)) return false;
  for (const std::uint32_t number : {serial, refresh, retry, expire, minimum})
    if (!put_u32(number)) return false;
  return record.done();
}

bool MessageWriter::add_record(Section section, std::string_view owner, Type type, Class rclass,
                               std::uint32_t ttl, std::span<const std::uint8_t> rdata) {
  Record record(*this, section);
  return put_name(owner, Compression::On) && record.begin(type, rclass, ttl) && put_octets(rdata) &&
         record.done();
}

bool MessageWriter::add_record(Section section, NameRef owner, Type type, Class rclass,
                               std::uint32_t ttl, std::span<const std::uint8_t> rdata) {
  Record record(*this, section);
  return put_ref(owner) && record.begin(type, rclass, ttl) && put_octets(rdata) && record.done();
}

void MessageWriter::take_written(std::size_t octets, std::uint16_t answers,
                                 std::uint16_t authorities) {
  assert(octets <= room() && counts_[1] == 0 && counts_[2] == 0);
  size_ += octets;
  counts_[0] = static_cast<std::uint16_t>(counts_[0] + answers);
  counts_[1] = authorities;
}

bool MessageWriter::put_octet(std::uint8_t value) {
  if (room() < 1) return false;
  buffer_[size_++] = value;
  return true;
}

bool MessageWriter::put_u16(std::uint16_t value) {
  if (room() < 2) return false;
  store_u16(buffer_.data() + size_, value);
  size_ += 2;
  return true;
}

bool MessageWriter::put_u32(std::uint32_t value) {
  if (room() < 4) return false;
  store_u32(buffer_.data() + size_, value);
  size_ += 4;
  return true;
}

bool MessageWriter::put_octets(std::span<const std::uint8_t> octets) {
  if (room() < octets.size()) return false;
  if (!octets.empty()) std::memcpy(buffer_.data() + size_, octets.data(), octets.size());
  size_ += octets.size();
  return true;
}

// --- names ---------------------------------------------------------------------------------------

bool MessageWriter::put_ref(NameRef ref) {
  if (ref <= kMaxPointee) return put_u16(static_cast<std::uint16_t>(0xc000u | ref));
  // Beyond the reach of pointers: a long answer over TCP.
  std::size_t from = ref;
  while (buffer_[from] != 0) {
    if (buffer_[from] >= 0xc0) return put_u16(load_u16(buffer_.data() + from));
    const std::size_t size = buffer_[from] + std::size_t{1};
    if (!put_octets(buffer_.subspan(from, size))) return false;
    from += size;
  }
  return put_octets(buffer_.subspan(from, 1));
}

bool MessageWriter::put_name(std::string_view name, Compression compression) {
  name = without_final_dot(name);
  TextName text;
  if (!text.parse(name)) return false;
  if (text.labels > 0) prepare_names();
  const std::size_t start = size_;
  std::size_t written = 0;
  NameRef known = 0;
  for (; written < text.labels; ++written) {
    const std::string_view suffix = name.substr(text.starts[written]);
    if (compression == Compression::On)
      known = names_.find(buffer_.data(), suffix, text.hashes[written]);
    if (known != 0) break;
    const std::size_t length = text.length(written);
    if (room() < length + 1) return false;
    buffer_[size_] = static_cast<std::uint8_t>(length);
    std::memcpy(buffer_.data() + size_ + 1, suffix.data(), length);
    size_ += length + 1;
  }
  if (known != 0 ? !put_u16(static_cast<std::uint16_t>(0xc000u | known)) : !put_octet(0))
    return false;
  // Not before the name is whole: a search that meets an entry reads on to the name's end.
  for (std::size_t label = 0; label < written; ++label)
    names_.add(text.hashes[label], start + text.starts[label]);
  return true;
}

MessageWriter::NameRef MessageWriter::find_name(std::string_view name) const {
  name = without_final_dot(name);
  TextName text;
  if (name.empty() || !text.parse(name)) return 0;
  if (names_.is_ready()) return names_.find(buffer_.data(), name, text.hashes[0]);
  const bool is_question = has_question_ && name_equals(buffer_.data(), kQuestionName, name);
  return is_question ? kQuestionName : NameRef{0};
}

// The usual answer, addresses under the question's name, never comes here.
void MessageWriter::prepare_names() {
  if (names_.is_ready()) return;
  names_.prepare();
  if (has_question_) names_.add_written(buffer_.data(), kQuestionName);
}

// --- EDNS ----------------------------------------------------------------------------------------

bool MessageWriter::put_option(std::uint16_t code, std::span<const std::uint8_t> head,
                               std::string_view tail) {
  const std::size_t size = 4 + head.size() + tail.size();
  if (!has_edns_ || size > room() || size > options_.size() - options_size_) return false;
  std::uint8_t* at = options_.data() + options_size_;
  store_u16(at, code);
  store_u16(at + 2, static_cast<std::uint16_t>(head.size() + tail.size()));
  at = std::copy(head.begin(), head.end(), at + 4);
  std::copy(tail.begin(), tail.end(), at);
  options_size_ = static_cast<std::uint16_t>(options_size_ + size);
  reserved_ += size;
  return true;
}

void MessageWriter::set_extended_error(Ede code, std::string_view text) {
  if (!has_edns_) return;
  const std::size_t most = std::min(room(), options_.size() - options_size_);
  if (most < 6) return;
  if (text.size() > most - 6) {
    text = text.substr(0, most - 6);
    // RFC 8914, section 2: UTF-8; not cut inside a character.
    while (!text.empty() && (static_cast<std::uint8_t>(text.back()) & 0xc0) == 0x80)
      text.remove_suffix(1);
    if (!text.empty() && static_cast<std::uint8_t>(text.back()) >= 0xc0) text.remove_suffix(1);
  }
  std::array<std::uint8_t, 2> number;
  store_u16(number.data(), static_cast<std::uint16_t>(code));
  put_option(15, number, text);
}

void MessageWriter::set_nsid(std::string_view nsid) { put_option(3, {}, nsid); }

void MessageWriter::set_keepalive(std::uint16_t units_of_100ms) {
  std::array<std::uint8_t, 2> number;
  store_u16(number.data(), units_of_100ms);
  put_option(11, number);
}

void MessageWriter::set_cookie(std::span<const std::uint8_t> cookie) { put_option(10, cookie); }

void MessageWriter::append_opt() {
  std::uint8_t* const at = buffer_.data() + size_;
  at[0] = 0;
  store_u16(at + 1, static_cast<std::uint16_t>(Type::Opt));
  store_u16(at + 3, static_cast<std::uint16_t>(kMaxUdpPayload));
  at[5] = static_cast<std::uint8_t>(static_cast<std::uint16_t>(rcode_) >> 4);
  at[6] = 0;
  at[7] = dnssec_ok_ ? 0x80 : 0;
  at[8] = 0;
  store_u16(at + 9, options_size_);
  if (options_size_ > 0) std::memcpy(at + kOptSize, options_.data(), options_size_);
  size_ += kOptSize + options_size_;
}

std::size_t MessageWriter::finish() {
  std::uint8_t* const header = buffer_.data();
  header[3] =
      static_cast<std::uint8_t>((header[3] & 0xf0u) | (static_cast<std::uint16_t>(rcode_) & 0x0fu));
  store_u16(header + 4, has_question_ ? 1 : 0);
  store_u16(header + 6, counts_[0]);
  store_u16(header + 8, counts_[1]);
  store_u16(header + 10, static_cast<std::uint16_t>(counts_[2] + (has_edns_ ? 1 : 0)));
  if (has_edns_) append_opt();
  return size_;
}

}  // namespace meshdns::wire
