// SPDX-License-Identifier: Apache-2.0
#include "dnsd/answer/forwarded_answer.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string>

#include "dnsd/answer/dns64.hpp"
#include "registry/base/host_name.hpp"
#include "resolver/wire/name_text.hpp"
#include "resolver/wire/octets.hpp"
#include "resolver/wire/rdata_shape.hpp"

namespace meshdns::dnsd {
namespace {

using wire::MessageWriter;
using wire::Section;
using wire::Type;

// Returns the place in the reply of each octet of the name at `owner`.
CachedMessage::NamePlaces places_of(std::span<const std::uint8_t> reply, std::size_t owner) {
  CachedMessage::NamePlaces places{};
  std::size_t at = owner;
  for (std::size_t i = 0; i < wire::kMaxNameLength;) {
    while (reply[at] >= 0xc0) at = wire::load_u16(reply.data() + at) & std::size_t{0x3fff};
    places[i] = static_cast<std::uint16_t>(at);
    if (reply[at] == 0) break;
    i += reply[at] + std::size_t{1};
    at += reply[at] + std::size_t{1};
  }
  return places;
}

void write_as_it_is(const ForwardedPart& part, MessageWriter& writer,
                    MessageWriter::NameRef owner) {
  const CachedMessage& message = part.message;
  const CachedMessage::Copied copied =
      message.copy_behind(writer.unwritten(), writer.size(), places_of(writer.buffer(), owner),
                          part.now, part.rotation, part.freshness);
  writer.take_written(copied.size, copied.counts[0], copied.counts[1]);
  if (copied.counts[0] < message.answer_count()) writer.set_truncated();
}

// A record of CachedMessage::copy_records(), as offsets.
struct CopiedRecord {
  std::size_t owner = 0;
  Type type = Type::A;
  wire::Class rclass = wire::Class::In;
  std::uint32_t ttl = 0;
  std::size_t rdata = 0;
  std::size_t end = 0;
};

// Reads copied records one after the other.  They are ours: well-formed, pointers point back.
class CopiedRecords {
 public:
  CopiedRecords(std::span<const std::uint8_t> message, std::size_t begin)
      : message_(message), at_(begin) {}

  // REQUIRES: there is another.
  CopiedRecord next() {
    CopiedRecord record{.owner = name_at(at_)};
    while (message_[at_] != 0 && message_[at_] < 0xc0) at_ += message_[at_] + std::size_t{1};
    at_ += message_[at_] == 0 ? 1 : 2;
    const std::uint8_t* const fields = message_.data() + at_;
    record.type = static_cast<Type>(wire::load_u16(fields));
    record.rclass = static_cast<wire::Class>(wire::load_u16(fields + 2));
    record.ttl = wire::load_u32(fields + 4);
    record.rdata = at_ + wire::kFixedFields;
    record.end = record.rdata + wire::load_u16(fields + 8);
    at_ = record.end;
    return record;
  }
  // Returns the offset at which the name at `offset` begins after pointers are followed.  Names
  // that share all their octets have the same one.
  std::size_t name_at(std::size_t offset) const {
    while (message_[offset] >= 0xc0)
      offset = wire::load_u16(message_.data() + offset) & std::size_t{0x3fff};
    return offset;
  }
  // The whole name, in wire form.
  std::string name(std::size_t offset) const {
    std::string name;
    wire::read_name(message_, offset, message_.size(), name);
    return name;
  }
  // The record's data, names expanded.  Valid until the next call.
  std::span<const std::uint8_t> data(const CopiedRecord& record) {
    const char* const shape = wire::rdata_shape(record.type, record.rclass);
    if (shape == nullptr || std::strchr(shape, 'n') == nullptr)
      return message_.subspan(record.rdata, record.end - record.rdata);
    expanded_.clear();
    wire::read_rdata(message_, record.rdata, record.end, shape, expanded_);
    return {reinterpret_cast<const std::uint8_t*>(expanded_.data()), expanded_.size()};
  }

 private:
  std::span<const std::uint8_t> message_;
  std::size_t at_;
  std::string expanded_;
};

// Writes records one by one: under the chain's last name, then under the targets of the message's
// own aliases.  Needed for the addresses of DNS64, whose sizes differ from those of the message,
// and for parts of an answer.
class AnswerTranslator {
 public:
  AnswerTranslator(CopiedRecords& records, const ForwardedPart& part, MessageWriter& writer,
                   MessageWriter::NameRef owner)
      : records_(records), part_(part), writer_(writer), owner_(owner) {}

  // False: it does not fit.
  bool add(const CopiedRecord& record) {
    std::span<const std::uint8_t> data = records_.data(record);
    if (part_.dns64 == nullptr) return add(record, record.type, record.ttl, data);
    const std::uint32_t ttl = std::min(record.ttl, part_.max_translated_ttl);
    if (is_signature_of_a(record.type, {reinterpret_cast<const char*>(data.data()), data.size()}))
      return true;
    if (record.type != Type::A || data.size() != 4)
      return add(record, record.type, record.ttl, data);
    std::array<std::uint8_t, 4> v4;
    std::ranges::copy(data, v4.begin());
    const IpAddress address = IpAddress::v4(v4);
    if (!may_translate(*part_.dns64, address)) return true;
    return add(record, Type::Aaaa, ttl, translate(*part_.dns64, address).octets());
  }
  // The name that the aliases so far lead to.
  MessageWriter::NameRef owner() const { return owner_; }

 private:
  bool add(const CopiedRecord& record, Type type, std::uint32_t ttl,
           std::span<const std::uint8_t> data) {
    if (!is_under_owner(record)) return add_by_text(record, type, ttl, data);
    if (!writer_.add_record(Section::Answer, owner_, type, record.rclass, ttl, data)) return false;
    if (type == Type::Cname) {
      owner_ = static_cast<MessageWriter::NameRef>(writer_.size() - data.size());
      owner_at_ = records_.name_at(record.rdata);
    }
    return true;
  }
  bool is_under_owner(const CopiedRecord& record) const {
    return record.owner == owner_at_ ||
           equals_ignoring_case(records_.name(record.owner), records_.name(owner_at_));
  }
  // The owner of a DNAME, say.  A name that text cannot say is left out.
  bool add_by_text(const CopiedRecord& record, Type type, std::uint32_t ttl,
                   std::span<const std::uint8_t> data) {
    std::string host;
    if (!wire::host_from_wire(records_.name(record.owner), host)) return true;
    return writer_.add_record(Section::Answer, host, type, record.rclass, ttl, data);
  }

  CopiedRecords& records_;
  const ForwardedPart& part_;
  MessageWriter& writer_;
  MessageWriter::NameRef owner_;              // in the reply
  std::size_t owner_at_ = wire::kHeaderSize;  // the same name in the copy
};

void write_authority(CopiedRecords& records, std::size_t count, MessageWriter& writer) {
  std::string host;
  for (std::size_t i = 0; i < count; ++i) {
    const CopiedRecord record = records.next();
    if (!wire::host_from_wire(records.name(record.owner), host)) continue;
    writer.add_record(Section::Authority, host, record.type, record.rclass, record.ttl,
                      records.data(record));
  }
}

// The records of a message, copied out of it.  No more of them than there is room for: the cost is
// that of the reply, not that of what an upstream once sent.
class CopiedMessage {
 public:
  CopiedMessage(const ForwardedPart& part, std::size_t room)
      : size_(std::clamp(part.message.question_end() + room, wire::kMinUdpPayload,
                         wire::kMaxMessageSize)),
        octets_(std::make_unique_for_overwrite<std::uint8_t[]>(size_)),
        counts_(part.message.copy_records({octets_.get(), size_}, part.now, part.rotation,
                                          part.freshness)),
        records_({octets_.get(), size_}, part.message.question_end()) {}

  CopiedRecords& records() { return records_; }
  std::size_t answers() const { return counts_[0]; }
  std::size_t authorities() const { return counts_[1]; }

 private:
  std::size_t size_;
  std::unique_ptr<std::uint8_t[]> octets_;
  std::array<std::uint16_t, 2> counts_;
  CopiedRecords records_;
};

void write_one_by_one(const ForwardedPart& part, MessageWriter& writer,
                      MessageWriter::NameRef owner) {
  CopiedMessage copy(part, writer.room());
  AnswerTranslator translator(copy.records(), part, writer, owner);
  bool is_whole = copy.answers() == part.message.answer_count();
  for (std::size_t i = 0; i < copy.answers(); ++i) {
    if (translator.add(copy.records().next())) continue;
    is_whole = false;
    break;
  }
  if (is_whole)
    write_authority(copy.records(), copy.authorities(), writer);
  else
    writer.set_truncated();
}

}  // namespace

bool write_aliases(const RepliedAliases& aliases, Millis now, MessageWriter& writer,
                   MessageWriter::NameRef& owner) {
  const ForwardedPart part{.message = *aliases.message, .freshness = aliases.freshness, .now = now};
  CopiedMessage copy(part, writer.room());
  AnswerTranslator translator(copy.records(), part, writer, owner);
  for (std::size_t i = 0; i < aliases.records; ++i)
    if (i >= copy.answers() || !translator.add(copy.records().next())) return false;
  owner = translator.owner();
  return true;
}

void write_forwarded(const ForwardedPart& part, MessageWriter& writer,
                     MessageWriter::NameRef owner) {
  writer.set_rcode(part.message.rcode());
  // Pointers reach no further.
  const bool is_near = writer.size() <= CachedMessage::kMaxOctetsBefore;
  if (part.dns64 == nullptr && is_near)
    write_as_it_is(part, writer, owner);
  else
    write_one_by_one(part, writer, owner);
  write_extended_error(part.message, part.freshness, writer);
}

void write_extended_error(const CachedMessage& message, Freshness freshness,
                          MessageWriter& writer) {
  if (message.has_ede()) writer.set_extended_error(message.ede(), message.ede_text());
  if (freshness == Freshness::Stale)
    writer.set_extended_error(message.rcode() == wire::Rcode::NxDomain ? wire::Ede::StaleNxdomain
                                                                       : wire::Ede::StaleAnswer,
                              "upstreams cannot be reached");
}

}  // namespace meshdns::dnsd
