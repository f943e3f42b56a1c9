// SPDX-License-Identifier: Apache-2.0
// Writes a reply into a buffer that the caller owns, records whole or not at all, names compressed
// (RFC 1035, section 4.1.4) against those already written.  Never allocates.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "registry/base/ip_address.hpp"
#include "resolver/wire/query_message.hpp"
#include "resolver/wire/types.hpp"
#include "resolver/wire/written_names.hpp"

namespace meshdns::wire {

enum class Section : std::uint8_t { Answer, Authority, Additional };

// The fields of a SRV record beside its target (RFC 2782).
struct SrvFields {
  std::uint16_t priority = 0;
  std::uint16_t weight = 0;
  std::uint16_t port = 0;
};

// The owner of a record about to be written: the question's name, an offset returned earlier, or
// text. Text is dotted (presentation escapes `\.` `\DDD` not interpreted): registry names only.
class MessageWriter {
 public:
  // Starts a reply to `query` in `buffer`: header with id, opcode, RD and CD of the query, QR=1,
  // RA=1 and the question echoed as sent.  `limit`: octets of message the client takes; room for
  // the OPT record is reserved when the query has EDNS.  REQUIRES: buffer.size() >= limit >= 512.
  // `buffer` may be the memory that holds the query's own datagram; of `query` nothing is kept.
  MessageWriter(std::span<std::uint8_t> buffer, std::size_t limit, const QueryMessage& query);

  void set_rcode(Rcode rcode);
  void set_authoritative(bool aa);

  // A name to be used as owner or in rdata more than once; kQuestionName is the question's.
  using NameRef = std::uint16_t;  // offset in the message
  static constexpr NameRef kQuestionName = kHeaderSize;

  // Each returns false, and leaves the message as it was, when the record does not fit (or when a
  // name given as text is none: an empty label, one over 63 octets, over 255 in all).
  // REQUIRES: sections in ascending order; kQuestionName only when the query's question was whole.
  bool add_a(Section section, NameRef owner, std::uint32_t ttl,
             std::span<const std::uint8_t, 4> address);
  bool add_aaaa(Section section, NameRef owner, std::uint32_t ttl,
                std::span<const std::uint8_t, 16> address);
  bool add_address(Section section, NameRef owner, std::uint32_t ttl, const IpAddress& address);
  bool add_name_record(
      Section section, NameRef owner, Type type, std::uint32_t ttl, std::string_view target,
      NameRef* target_ref = nullptr);  // CNAME, NS, PTR; *target_ref = where the target lies
  bool add_srv(Section section, NameRef owner, std::uint32_t ttl, std::uint16_t priority,
               std::uint16_t weight, std::uint16_t port, std::string_view target,
               NameRef* target_ref = nullptr);  // RFC 2782: target uncompressed
  // The same with `label` (empty = none) in front of a name in wire form: for long sets whose
  // targets share their ends.  REQUIRES: a label without dots and a name.
  bool add_srv_below(Section section, NameRef owner, std::uint32_t ttl, const SrvFields& fields,
                     std::string_view label, std::string_view wire_name,
                     NameRef* target_ref = nullptr);
  // A string over 255 octets becomes several; none at all becomes one empty string.  Of the
  // question's class: CHAOS answers are TXT.
  bool add_txt(Section section, NameRef owner, std::uint32_t ttl,
               std::span<const std::string_view> strings);
  bool add_soa(Section section, std::string_view zone, std::uint32_t ttl, std::string_view mname,
               std::string_view rname, std::uint32_t serial, std::uint32_t refresh,
               std::uint32_t retry, std::uint32_t expire, std::uint32_t minimum);
  // Owner as text (compressed); rdata already in wire form and free of compression.
  bool add_record(Section section, std::string_view owner, Type type, Class rclass,
                  std::uint32_t ttl, std::span<const std::uint8_t> rdata);
  bool add_record(Section section, NameRef owner, Type type, Class rclass, std::uint32_t ttl,
                  std::span<const std::uint8_t> rdata);
  // For records that the caller writes: the memory behind those that are there, as much as may be
  // taken; then how much was, and how many records of answer and authority lie in it.
  std::span<std::uint8_t> unwritten() const { return buffer_.subspan(size_, room()); }
  void take_written(std::size_t octets, std::uint16_t answers, std::uint16_t authorities);
  // Returns the place of `name` in the message if it has been written as a whole; else 0.
  NameRef find_name(std::string_view name) const;

  // Says that answer records had to go: TC on UDP (RFC 2181, section 9).
  void set_truncated();

  // Options of the reply's OPT record, copied; ignored when the query had no EDNS or no room is
  // left. Text of an extended error is cut to what fits; calls add up (RFC 8914, section 2).
  void set_extended_error(Ede code, std::string_view text);
  void set_nsid(std::string_view nsid);
  void set_keepalive(std::uint16_t units_of_100ms);
  void set_cookie(std::span<const std::uint8_t> cookie);

  // Patches counts and flags, appends OPT if the query had one, and returns the message's size.
  std::size_t finish();

  std::size_t size() const { return size_; }
  // Octets that records may still take.
  std::size_t room() const { return limit_ - reserved_ - size_; }
  std::span<std::uint8_t> buffer() const { return buffer_; }
  std::uint16_t answer_count() const { return counts_[0]; }
  std::uint16_t count(Section section) const { return counts_[static_cast<std::size_t>(section)]; }

 private:
  // A record under way: remembers where it began, to take it back when it does not fit.
  class Record;

  bool put_address(Section section, NameRef owner, Type type, std::uint32_t ttl,
                   std::span<const std::uint8_t> octets);
  bool put_octet(std::uint8_t value);
  bool put_u16(std::uint16_t value);
  bool put_u32(std::uint32_t value);
  bool put_octets(std::span<const std::uint8_t> octets);
  bool put_ref(NameRef ref);  // a pointer, or the name once more where no pointer reaches
  enum class Compression : bool { Off, On };
  bool put_name(std::string_view name, Compression compression);
  bool put_option(std::uint16_t code, std::span<const std::uint8_t> head,
                  std::string_view tail = {});
  void append_opt();

  void prepare_names();

  std::span<std::uint8_t> buffer_;
  std::size_t size_ = 0;
  std::size_t limit_ = 0;
  std::size_t reserved_ = 0;  // for OPT
  std::array<std::uint16_t, 3> counts_{};
  Rcode rcode_ = Rcode::NoError;
  Class qclass_ = Class::In;
  bool has_question_ = false;
  bool has_edns_ = false;
  bool dnssec_ok_ = false;
  std::uint16_t options_size_ = 0;
  WrittenNames names_;
  // Not initialised: written before it is read, and never written by the usual answer.
  std::array<std::uint8_t, 512> options_;
};

}  // namespace meshdns::wire
