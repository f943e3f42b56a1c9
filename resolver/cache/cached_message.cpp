// SPDX-License-Identifier: Apache-2.0
#include "resolver/cache/cached_message.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <new>

#include "registry/base/enum_text.hpp"
#include "registry/base/hash.hpp"
#include "registry/base/host_name.hpp"
#include "resolver/cache/denied_answers.hpp"
#include "resolver/wire/octets.hpp"

namespace meshdns::dnsd {
namespace {

using wire::load_u16;
using wire::load_u32;
using wire::store_u16;
using wire::store_u32;

constexpr std::size_t kOptSize = 11;
constexpr std::size_t kTtlToRdata = 6;  // TTL and RDLENGTH

// The last octet of a cache key.
constexpr int kDnssecOkFlag = 1;
constexpr int kCheckingDisabledFlag = 2;
constexpr int kNameErrorFlag = 4;

// Lower-cases eight octets at a time.  Length octets are below 64 and no letters: a whole name in
// wire form can be treated alike.  Octets above 127 are left alone (RFC 4343).
std::uint64_t lower_eight(std::uint64_t octets) {
  constexpr std::uint64_t kOnes = 0x0101010101010101ULL;
  const std::uint64_t low7 = octets & (kOnes * 0x7f);
  const std::uint64_t from_a = low7 + kOnes * (0x80 - 'A');
  const std::uint64_t past_z = low7 + kOnes * (0x80 - 'Z' - 1);
  const std::uint64_t upper = from_a & ~past_z & ~octets & (kOnes * 0x80);
  return octets | (upper >> 2);
}

void copy_lower(char* out, const char* in, std::size_t size) {
  std::size_t i = 0;
  for (; i + 8 <= size; i += 8) {
    std::uint64_t octets;
    std::memcpy(&octets, in + i, 8);
    octets = lower_eight(octets);
    std::memcpy(out + i, &octets, 8);
  }
  for (; i < size; ++i) out[i] = to_lower(in[i]);
}

// The options of the reply's OPT record: those of the frame, then the extended error.
struct OptContent {
  std::span<const std::uint8_t> options;
  bool has_ede = false;
  wire::Ede ede = wire::Ede::Other;
  std::string_view ede_text;

  std::size_t size() const { return options.size() + (has_ede ? 6 + ede_text.size() : 0); }
};

std::uint8_t* write_opt(std::uint8_t* at, bool dnssec_ok, const OptContent& content) {
  *at++ = 0;
  store_u16(at, static_cast<std::uint16_t>(wire::Type::Opt));
  store_u16(at + 2, wire::kMaxUdpPayload);
  store_u32(at + 4, dnssec_ok ? 0x8000u : 0u);
  store_u16(at + 8, static_cast<std::uint16_t>(content.size()));
  at += 10;
  if (!content.options.empty()) {
    std::memcpy(at, content.options.data(), content.options.size());
    at += content.options.size();
  }
  if (content.has_ede) {
    store_u16(at, 15);
    store_u16(at + 2, static_cast<std::uint16_t>(2 + content.ede_text.size()));
    store_u16(at + 4, static_cast<std::uint16_t>(content.ede));
    at += 6;
    at = std::copy(content.ede_text.begin(), content.ede_text.end(), at);
  }
  return at;
}

}  // namespace

CacheKey::CacheKey(const wire::QueryMessage& query) {
  copy_lower(bytes_.data(), reinterpret_cast<const char*>(query.question.data()), query.qname_size);
  size_ = query.qname_size;
  finish(query.qtype, query.qclass, query.has_edns && query.edns.dnssec_ok,
         query.checking_disabled);
}

CacheKey::CacheKey(const wire::Question& question, bool dnssec_ok, bool checking_disabled) {
  assert(question.name.size() <= wire::kMaxNameLength);
  size_ = std::min(question.name.size(), wire::kMaxNameLength);
  std::memcpy(bytes_.data(), question.name.data(), size_);
  finish(question.type, question.qclass, dnssec_ok, checking_disabled);
}

void CacheKey::finish(wire::Type type, wire::Class qclass, bool dnssec_ok, bool checking_disabled) {
  auto* at = reinterpret_cast<std::uint8_t*>(bytes_.data() + size_);
  store_u16(at, static_cast<std::uint16_t>(type));
  store_u16(at + 2, static_cast<std::uint16_t>(qclass));
  at[4] = static_cast<std::uint8_t>((dnssec_ok ? kDnssecOkFlag : 0) |
                                    (checking_disabled ? kCheckingDisabledFlag : 0));
  size_ += kTail;
  hash_ = hash_bytes(bytes());
}

CacheKey::CacheKey(std::string_view bytes) : size_(std::min(bytes.size(), sizeof bytes_)) {
  std::memcpy(bytes_.data(), bytes.data(), size_);
  hash_ = hash_bytes(this->bytes());
}

CacheKey CacheKey::to_name_error() const {
  CacheKey key = *this;
  char* const tail = key.bytes_.data() + key.name().size();
  tail[0] = tail[1] = 0;
  tail[4] = static_cast<char>(tail[4] | kNameErrorFlag);
  key.hash_ = hash_bytes(key.bytes());
  return key;
}

wire::Question question_of(const wire::QueryMessage& query) {
  wire::Question question;
  question.name.resize(query.qname_size);
  copy_lower(question.name.data(), reinterpret_cast<const char*>(query.question.data()),
             query.qname_size);
  question.type = query.qtype;
  question.qclass = query.qclass;
  return question;
}

CachedMessage::Variant CachedMessage::variant() const {
  const auto* const at = reinterpret_cast<const std::uint8_t*>(key().data() + name().size());
  return {.type = static_cast<wire::Type>(load_u16(at)),
          .qclass = static_cast<wire::Class>(load_u16(at + 2)),
          .dnssec_ok = (at[4] & kDnssecOkFlag) != 0,
          .checking_disabled = (at[4] & kCheckingDisabledFlag) != 0,
          .is_of_all_types = (at[4] & kNameErrorFlag) != 0};
}

std::string_view to_string(Carrier carrier) {
  return enum_text<Carrier::SavedCache>(carrier, {"", "UDP", "TCP", "TLS", ""});
}

MessageRef CachedMessage::create(const MessageParts& parts) {
  const std::size_t question_end = wire::kHeaderSize + parts.key.bytes().size() - 1;
  assert(parts.message.empty() || parts.message.size() >= question_end);
  const std::size_t body = parts.message.empty() ? 0 : parts.message.size() - question_end;
  const std::size_t ede_text =
      parts.has_ede ? std::min<std::size_t>(parts.ede_text.size(), 255) : 0;
  std::size_t size = sizeof(CachedMessage) + parts.key.bytes().size() + ede_text + body +
                     (parts.ttl_offsets.size() + parts.pointers.size()) * sizeof(std::uint16_t) +
                     parts.server.size();
  for (const MessageParts::Alias& alias : parts.aliases)
    size += sizeof(std::uint16_t) + 1 + alias.target.size();
  void* memory = message_memory::allocate(size);
  return MessageRef(new (memory) CachedMessage(parts, size));
}

void CachedMessage::destroy(const CachedMessage* message) {
  const std::size_t size = message->allocated_;
  message->~CachedMessage();
  message_memory::release(const_cast<CachedMessage*>(message), size);
}

CachedMessage::CachedMessage(const MessageParts& parts, std::size_t allocated)
    : allocated_(static_cast<std::uint32_t>(allocated)),
      hash_(parts.key.hash()),
      received_at_(parts.received_at),
      expires_at_(parts.received_at + parts.lifetime),
      rcode_(parts.rcode),
      ede_(parts.ede),
      key_size_(static_cast<std::uint16_t>(parts.key.bytes().size())),
      answer_count_(parts.answer_count),
      authority_count_(parts.authority_count),
      run_begin_(parts.run_begin),
      run_count_(parts.run_count),
      pointer_count_(static_cast<std::uint16_t>(parts.pointers.size())),
      server_size_(static_cast<std::uint16_t>(parts.server.size())),
      kind_(parts.kind),
      ede_text_size_(static_cast<std::uint8_t>(
          parts.has_ede ? std::min<std::size_t>(parts.ede_text.size(), 255) : 0)),
      alias_count_(static_cast<std::uint16_t>(parts.aliases.size())),
      carrier_(parts.carrier),
      has_ede_(parts.has_ede),
      authentic_data_(parts.authentic_data),
      unreachable_(parts.unreachable),
      leads_on_(parts.leads_on) {
  char* at = tail();
  std::memcpy(at, parts.key.bytes().data(), key_size_);
  at += key_size_;
  std::memcpy(at, parts.ede_text.data(), ede_text_size_);
  at += ede_text_size_;
  body_size_ =
      static_cast<std::uint16_t>(parts.message.empty() ? 0 : parts.message.size() - question_end());
  if (body_size_ > 0) std::memcpy(at, parts.message.data() + question_end(), body_size_);
  at += body_size_;
  for (const auto* offsets : {&parts.ttl_offsets, &parts.pointers}) {
    const std::size_t size = offsets->size() * sizeof(std::uint16_t);
    if (size > 0) std::memcpy(at, offsets->data(), size);
    at += size;
  }
  assert(parts.ttl_offsets.size() == record_count());
  for (const MessageParts::Alias& alias : parts.aliases) {
    std::memcpy(at, &alias.record, sizeof alias.record);
    at[sizeof alias.record] = static_cast<char>(alias.target.size());
    at += sizeof alias.record + 1;
    at = std::ranges::copy(alias.target, at).out;
  }
  std::ranges::copy(parts.server, at);
}

std::uint32_t CachedMessage::record_ttl(std::size_t index, Millis now, Freshness freshness) const {
  if (freshness == Freshness::Stale) return kStaleTtl;
  const std::uint32_t ttl = load_u32(body() + (ttl_offset(index) - question_end()));
  const auto age = age_at(now);
  return ttl > age ? ttl - age : 0;
}

std::array<std::uint16_t, 2> CachedMessage::copy_records(std::span<std::uint8_t> out, Millis now,
                                                         std::uint32_t rotation,
                                                         Freshness freshness) const {
  assert(out.size() >= wire::kMinUdpPayload);
  std::memcpy(out.data() + wire::kHeaderSize, key().data(), key_size_ - 1u);
  return copy(out.data() + question_end(), out.size() - question_end(), now, rotation, freshness)
      .counts;
}

CachedMessage::Copied CachedMessage::copy_behind(std::span<std::uint8_t> room, std::size_t at,
                                                 const NamePlaces& name, Millis now,
                                                 std::uint32_t rotation,
                                                 Freshness freshness) const {
  assert(at <= kMaxOctetsBefore);
  const Copied copied = copy(room.data(), room.size(), now, rotation, freshness);
  move_pointers(room.data(), copied, at, name);
  return copied;
}

// The sizes of names do not change, so every record keeps its distance from the first one.
void CachedMessage::move_pointers(std::uint8_t* records, const Copied& copied, std::size_t at,
                                  const NamePlaces& name) const {
  constexpr std::size_t kPointerTypeClass = 6;
  const std::size_t start = question_end();
  const auto move = [&](std::size_t offset) {
    std::uint8_t* const pointer = records + (offset - start);
    const std::size_t pointee = load_u16(pointer) & 0x3fffu;
    const std::size_t moved =
        pointee < start ? name[pointee - wire::kHeaderSize] : pointee - start + at;
    store_u16(pointer, static_cast<std::uint16_t>(0xc000u | moved));
  };
  for (std::size_t i = 0; i < std::size_t{copied.counts[0]} + copied.counts[1]; ++i)
    if (record_begin(i) + kPointerTypeClass == ttl_offset(i)) move(record_begin(i));
  for (std::size_t i = 0; i < pointer_count_ && pointer(i) < start + copied.size; ++i)
    move(pointer(i));
}

std::uint32_t CachedMessage::age_at(Millis now) const {
  return static_cast<std::uint32_t>(now > received_at_ ? (now - received_at_) / 1000 : 0);
}

std::uint16_t CachedMessage::offset(std::size_t index) const {
  std::uint16_t offset;
  std::memcpy(&offset, body() + body_size_ + index * sizeof offset, sizeof offset);
  return offset;
}

std::size_t CachedMessage::record_end(std::size_t index) const {
  const std::size_t ttl = ttl_offset(index);
  return ttl + kTtlToRdata + load_u16(body() + (ttl + 4 - question_end()));
}

wire::Type CachedMessage::record_type(std::size_t index) const {
  constexpr std::size_t kTypeAndClass = 4;  // before the TTL
  return static_cast<wire::Type>(
      load_u16(body() + (ttl_offset(index) - kTypeAndClass - question_end())));
}

std::string_view CachedMessage::record_data(std::size_t index) const {
  const std::size_t begin = ttl_offset(index) + kTtlToRdata;
  return {reinterpret_cast<const char*>(body()) + (begin - question_end()),
          record_end(index) - begin};
}

bool CachedMessage::has_denied_address(const DeniedAddresses& denied) const {
  if (denied.empty()) return false;
  for (std::size_t i = 0; i < answer_count_; ++i)
    if (denied.has_record(record_type(i), record_data(i))) return true;
  return false;
}

std::size_t CachedMessage::record_begin(std::size_t index) const {
  return index == 0 ? question_end() : record_end(index - 1);
}

CachedMessage::Copied CachedMessage::copy(std::uint8_t* records, std::size_t room, Millis now,
                                          std::uint32_t rotation, Freshness freshness) const {
  const Copied copied =
      body_size_ <= room ? Copied{copy_whole(records, rotation), {answer_count_, authority_count_}}
                         : copy_fitting(records, room, rotation);
  age_ttls(records, std::size_t{copied.counts[0]} + copied.counts[1], now, freshness);
  return copied;
}

std::size_t CachedMessage::copy_whole(std::uint8_t* records, std::uint32_t rotation) const {
  std::memcpy(records, body(), body_size_);
  if (run_count_ > 1) {
    const std::size_t shift = rotation % run_count_;
    if (shift != 0) {
      const std::size_t begin = record_begin(run_begin_);
      const std::size_t record = record_end(run_begin_) - begin;
      const std::size_t first = shift * record;
      const std::size_t all = run_count_ * record;
      const std::size_t place = begin - question_end();
      const std::uint8_t* const run = body() + place;
      std::memcpy(records + place, run + first, all - first);
      std::memcpy(records + place + (all - first), run, first);
    }
  }
  return body_size_;
}

CachedMessage::Copied CachedMessage::copy_fitting(std::uint8_t* records, std::size_t room,
                                                  std::uint32_t rotation) const {
  const std::size_t shift = run_count_ > 1 ? rotation % run_count_ : 0;
  Copied copied;
  for (std::size_t i = 0; i < record_count(); ++i) {
    std::size_t from = i;
    if (i >= run_begin_ && i < std::size_t{run_begin_} + run_count_)
      from = run_begin_ + (i - run_begin_ + shift) % run_count_;
    const std::size_t begin = record_begin(from);
    const std::size_t record = record_end(from) - begin;
    if (copied.size + record > room) break;
    // Rotated records are of one size, so every record stays at an offset that pointers know.
    std::memcpy(records + copied.size, body() + (begin - question_end()), record);
    copied.size += record;
    ++copied.counts[i < answer_count_ ? 0 : 1];
  }
  return copied;
}

void CachedMessage::age_ttls(std::uint8_t* records, std::size_t count, Millis now,
                             Freshness freshness) const {
  const std::uint32_t age = freshness == Freshness::Stale ? 0 : age_at(now);
  if (freshness == Freshness::Fresh && age == 0) return;
  for (std::size_t i = 0; i < count; ++i) {
    std::uint8_t* const at = records + (ttl_offset(i) - question_end());
    const std::uint32_t ttl = load_u32(at);
    store_u32(at, freshness == Freshness::Stale ? kStaleTtl : ttl > age ? ttl - age : 0);
  }
}

std::size_t CachedMessage::write_reply(const wire::QueryMessage& query, const ReplyFrame& frame,
                                       Millis now, std::uint32_t rotation,
                                       Freshness freshness) const {
  assert(query.question.size() == question_end() - wire::kHeaderSize);
  assert(frame.limit <= frame.buffer.size() && frame.limit >= wire::kMinUdpPayload);
  std::uint8_t* const out = frame.buffer.data();
  if (out + wire::kHeaderSize != query.question.data())
    std::memmove(out + wire::kHeaderSize, query.question.data(), query.question.size());

  OptContent opt;
  std::size_t opt_size = 0;
  if (query.has_edns) {
    opt.options = frame.options;
    if (freshness == Freshness::Stale) {
      opt.has_ede = true;
      opt.ede = wire::Ede::StaleAnswer;
    } else if (has_ede_) {
      opt.has_ede = true;
      opt.ede = ede_;
      opt.ede_text = ede_text();
    }
    if (question_end() + kOptSize + opt.size() > frame.limit) opt = {};
    opt_size = kOptSize + opt.size();
  }

  const Copied copied =
      copy(out + question_end(), frame.limit - question_end() - opt_size, now, rotation, freshness);
  const auto& counts = copied.counts;
  const bool truncated = counts[0] < answer_count_;
  const bool wants_ad = query.authentic_data || (query.has_edns && query.edns.dnssec_ok);
  store_u16(out, query.id);
  out[2] =
      static_cast<std::uint8_t>(0x80 | static_cast<unsigned>(query.opcode) << 3 |
                                (truncated ? 0x02u : 0u) | (query.recursion_desired ? 0x01u : 0u));
  out[3] = static_cast<std::uint8_t>(
      0x80 | (authentic_data_ && wants_ad && freshness == Freshness::Fresh ? 0x20u : 0u) |
      (query.checking_disabled ? 0x10u : 0u) | (static_cast<unsigned>(rcode_) & 0x0fu));
  store_u16(out + 4, 1);
  store_u16(out + 6, counts[0]);
  store_u16(out + 8, counts[1]);
  store_u16(out + 10, query.has_edns ? 1 : 0);
  std::size_t size = question_end() + copied.size;
  if (query.has_edns) {
    const std::uint8_t* const end = write_opt(out + size, query.edns.dnssec_ok, opt);
    size = static_cast<std::size_t>(end - out);
  }
  return size;
}

std::vector<std::uint8_t> CachedMessage::assemble(Millis now, Freshness freshness) const {
  std::vector<std::uint8_t> message(question_end() + body_size_);
  message[2] = 0x80;
  message[3] = static_cast<std::uint8_t>(0x80u | (static_cast<unsigned>(rcode_) & 0x0fu));
  store_u16(message.data() + 4, 1);
  store_u16(message.data() + 6, answer_count_);
  store_u16(message.data() + 8, authority_count_);
  std::memcpy(message.data() + wire::kHeaderSize, key().data(), key_size_ - 1u);
  copy(message.data() + question_end(), body_size_, now, 0, freshness);
  return message;
}

std::vector<std::uint8_t> CachedMessage::to_wire(Millis now) const {
  return assemble(now, Freshness::Fresh);
}

wire::ResponseMessage CachedMessage::expand(Millis now, Freshness freshness) const {
  auto expanded = wire::parse_response(assemble(now, freshness));
  assert(expanded.has_value());
  return expanded ? std::move(*expanded) : wire::ResponseMessage{};
}

}  // namespace meshdns::dnsd
