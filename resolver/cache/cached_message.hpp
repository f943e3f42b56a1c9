// SPDX-License-Identifier: Apache-2.0
// An upstream's answer as the cache keeps it and clients get it: only the records that belong to
// the question (answer_builder.hpp), already in the form that follows the question in a reply.
//
// Every spelling of a name has the same length, so the octets behind the question, compression
// pointers included, are the same for every client: a reply is a header, the client's own question,
// one copy of these octets, and a few TTLs patched.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "registry/base/ref.hpp"
#include "resolver/wire/query_message.hpp"
#include "resolver/wire/response_message.hpp"
#include "resolver/wire/types.hpp"

namespace meshdns::dnsd {

// Memory of cached messages, apart from the heap: they live for minutes, while all else that a
// query allocates is gone in a moment.  Side by side, each would leave holes that the other cannot
// fill, and the cache would take a third more than its size.
//
// Blocks of one size lie in chunks of their own; a chunk without blocks is given back.
namespace message_memory {

// Any thread.  Throws std::bad_alloc as operator new does.
void* allocate(std::size_t size);
// REQUIRES: `memory` comes from allocate(size).
void release(void* memory, std::size_t size);
// Returns the memory that a message of so many bytes uses, with all overhead.
std::size_t cost(std::size_t size);

}  // namespace message_memory

// Milliseconds of the monotonic clock, as uv_now() gives them; always an argument, never read here.
using Millis = std::uint64_t;

// Identifies a question: (lower-case name, type, class, DO, CD).  The client's
// view is not part of the key, because registry names are never in the cache.
class CacheKey {
 public:
  // REQUIRES: the query's question is whole.
  explicit CacheKey(const wire::QueryMessage& query);
  // REQUIRES: `question.name` is a lower-case name in wire form.
  CacheKey(const wire::Question& question, bool dnssec_ok, bool checking_disabled);

  // REQUIRES: `bytes` comes from bytes().
  explicit CacheKey(std::string_view bytes);
  // The key of the name's name error, which holds for all types.  No question has this key: a flag
  // of its own tells it apart, not a value that a client could send as the type.
  CacheKey to_name_error() const;

  std::string_view bytes() const { return {bytes_.data(), size_}; }
  std::string_view name() const { return {bytes_.data(), size_ - kTail}; }  // wire form
  std::uint64_t hash() const { return hash_; }

  static constexpr std::size_t kTail = 5;  // type, class and flags, behind the name

 private:
  void finish(wire::Type type, wire::Class qclass, bool dnssec_ok, bool checking_disabled);

  std::uint64_t hash_;
  std::size_t size_;
  std::array<char, wire::kMaxNameLength + kTail + 8> bytes_;
};

// The question of a client's query as forwarder and cache know it.
wire::Question question_of(const wire::QueryMessage& query);

enum class MessageKind : std::uint8_t {
  Positive,  // NOERROR with the records asked for
  Negative,  // NXDOMAIN or NODATA
  Failure,   // any other rcode, or nothing usable came
};

enum class Freshness : std::uint8_t { Fresh, Stale };

// Says how a message came: over a protocol, or with the saved cache of an earlier run.
enum class Carrier : std::uint8_t { Unknown, Udp, Tcp, Tls, SavedCache };
// "UDP"; empty: it was none of the protocols.
std::string_view to_string(Carrier carrier);

// The buffer for a reply.
struct ReplyFrame {
  // Holds the query's own datagram at its front (the usual case), or any other memory.
  std::span<std::uint8_t> buffer;
  // Octets of message that the client takes.  REQUIRES: 512 <= limit <= buffer.size().
  std::size_t limit = 0;
  // EDNS options, each with its code and length, for the OPT record that the reply has when the
  // query has one (RFC 7828 keepalive, say).  Left out where no room is left.
  std::span<const std::uint8_t> options;
};

class DeniedAddresses;
struct MessageParts;

// Immutable but for what the cache notes about it; any thread.  Held by Ref<const CachedMessage>.
class CachedMessage final : public RefCounted {
 public:
  // TTL of stale records (RFC 8767, section 4).
  static constexpr std::uint32_t kStaleTtl = 30;

  static Ref<const CachedMessage> create(const MessageParts& parts);
  static void destroy(const CachedMessage* message);

  MessageKind kind() const { return kind_; }
  wire::Rcode rcode() const { return rcode_; }
  std::string_view key() const { return {tail(), key_size_}; }
  std::string_view name() const { return {tail(), key_size_ - CacheKey::kTail}; }  // wire form
  std::uint64_t hash() const { return hash_; }
  CacheKey to_key() const { return CacheKey(key()); }
  // The question behind its name.
  struct Variant {
    wire::Type type = wire::Type::A;
    wire::Class qclass = wire::Class::In;
    bool dnssec_ok = false;
    bool checking_disabled = false;
    bool is_of_all_types = false;  // a name error; `type` means nothing
  };
  Variant variant() const;
  // The time of its receipt, and the end of its freshness; equal if it must not be cached.
  Millis received_at() const { return received_at_; }
  Millis expires_at() const { return expires_at_; }
  bool is_cacheable() const { return expires_at_ > received_at_; }
  // Returns whether the question's name is an alias here: a chain of CNAME (or DNAME) records comes
  // first.
  bool has_alias() const { return alias_count_ > 0; }
  // No record of the type asked for.
  bool is_nodata() const {
    return kind_ == MessageKind::Negative && rcode_ == wire::Rcode::NoError;
  }
  // The failure lies in no upstream being reachable, not in this name.
  bool is_unreachable() const { return unreachable_; }
  // The server that it came from; empty: none.
  std::string_view server() const {
    return {tail() + (allocated_ - sizeof(CachedMessage) - server_size_), server_size_};
  }
  Carrier carrier() const { return carrier_; }
  std::uint16_t answer_count() const { return answer_count_; }
  // RFC 8914; nullopt-like: has_ede() says whether there is one.
  bool has_ede() const { return has_ede_; }
  wire::Ede ede() const { return ede_; }
  std::string_view ede_text() const { return {tail() + key_size_, ede_text_size_}; }

  // Writes the whole reply to `query` at the front of `frame.buffer` and returns its size: id,
  // opcode, RD, CD and the question as the client sent them; RA=1, AA=0, AD only if the upstream is
  // trusted and the client wants it; TTLs less the time since receipt; the addresses begun at
  // `rotation`; OPT if the query has one, with the extended error; TC with as many whole records as
  // fit.  Never allocates.  REQUIRES: `query` asks what this message answers, in any spelling.
  std::size_t write_reply(const wire::QueryMessage& query, const ReplyFrame& frame, Millis now,
                          std::uint32_t rotation, Freshness freshness) const;

  // The records, names expanded, with the TTLs that a client gets now: for chains that go on in the
  // registry and answers put together from several messages.  Allocates.
  wire::ResponseMessage expand(Millis now, Freshness freshness) const;
  // The whole message as an upstream would send it, TTLs as of now.  Allocates.
  std::vector<std::uint8_t> to_wire(Millis now) const;
  // The links of the chain in order; none without has_alias().  Never allocates.
  struct Alias {
    std::size_t record = 0;   // of the answer
    std::string_view target;  // lower-case wire form
  };
  std::size_t alias_count() const { return alias_count_; }
  // Calls `visit` with each, until that returns false.
  template <typename Visit>
  void for_each_alias(const Visit& visit) const;
  // The chain ends with an alias alone: whoever asks is to go on with a question for its target.
  bool leads_on() const { return leads_on_; }

  // Single records, without a look at the others: the answer's come first, then those of the
  // authority.  REQUIRES: index < record_count().
  std::size_t record_count() const { return std::size_t{answer_count_} + authority_count_; }
  wire::Type record_type(std::size_t index) const;
  // In wire form; names in it may be compressed.
  std::string_view record_data(std::size_t index) const;
  std::uint32_t age_at(Millis now) const;  // whole seconds
  // Returns the TTL that a client gets now, in seconds.
  std::uint32_t record_ttl(std::size_t index, Millis now, Freshness freshness) const;

  // Writes as many whole records as fit `out`, behind a header that is not set and the question's
  // name, type and class: a message that pointers can be followed in.  TTLs as of now, addresses
  // begun at `rotation`.  Returns how many records of answer and authority it has.
  // REQUIRES: out.size() >= kMinUdpPayload.
  std::array<std::uint16_t, 2> copy_records(std::span<std::uint8_t> out, Millis now,
                                            std::uint32_t rotation, Freshness freshness) const;
  // For a reply whose names lie elsewhere: where each octet of the question's name, in wire form,
  // lies in the reply.
  using NamePlaces = std::array<std::uint16_t, wire::kMaxNameLength + 1>;
  struct Copied {
    std::size_t size = 0;                   // octets
    std::array<std::uint16_t, 2> counts{};  // records of answer and authority
  };
  // Octets of a reply that may precede the records of copy_behind(): header, question, and some
  // aliases as long as names can be.
  static constexpr std::size_t kMaxOctetsBefore = 3000;
  // Writes as many whole records as fit `room`, which begins at offset `at` of a reply; pointers
  // lead to the same names there.  TTLs as of now, addresses begun at `rotation`. REQUIRES: at <=
  // kMaxOctetsBefore.
  Copied copy_behind(std::span<std::uint8_t> room, std::size_t at, const NamePlaces& name,
                     Millis now, std::uint32_t rotation, Freshness freshness) const;
  // The offset at which the records of copy_records() begin.
  std::size_t question_end() const { return wire::kHeaderSize + key_size_ - 1; }

  // Returns whether a record of the answer has one of these addresses.  Never allocates.
  bool has_denied_address(const DeniedAddresses& denied) const;

  // The memory that it uses.
  std::size_t size_bytes() const { return message_memory::cost(allocated_); }

 private:
  friend class CacheShard;
  friend class CacheQueue;

  explicit CachedMessage(const MessageParts& parts, std::size_t allocated);
  ~CachedMessage() = default;

  const char* tail() const { return reinterpret_cast<const char*>(this + 1); }
  char* tail() { return reinterpret_cast<char*>(this + 1); }
  const std::uint8_t* body() const {
    return reinterpret_cast<const std::uint8_t*>(tail() + key_size_ + ede_text_size_);
  }
  const char* aliases() const {
    return reinterpret_cast<const char*>(body()) + body_size_ +
           (record_count() + pointer_count_) * sizeof(std::uint16_t);
  }
  // Offset in the message of the TTL of record `index`; kept unaligned behind the body.
  std::uint16_t ttl_offset(std::size_t index) const { return offset(index); }
  std::uint16_t pointer(std::size_t index) const { return offset(record_count() + index); }
  std::uint16_t offset(std::size_t index) const;
  std::vector<std::uint8_t> assemble(Millis now, Freshness freshness) const;
  std::size_t record_end(std::size_t index) const;
  std::size_t record_begin(std::size_t index) const;
  // Each takes the place of the first record; record offsets count from the message's first octet.
  std::size_t copy_whole(std::uint8_t* records, std::uint32_t rotation) const;
  Copied copy_fitting(std::uint8_t* records, std::size_t room, std::uint32_t rotation) const;
  Copied copy(std::uint8_t* records, std::size_t room, Millis now, std::uint32_t rotation,
              Freshness freshness) const;
  void age_ttls(std::uint8_t* records, std::size_t count, Millis now, Freshness freshness) const;
  void move_pointers(std::uint8_t* records, const Copied& copied, std::size_t at,
                     const NamePlaces& name) const;

  // Constant after construction.
  std::uint32_t allocated_;
  std::uint64_t hash_;
  Millis received_at_;
  Millis expires_at_;
  wire::Rcode rcode_;
  wire::Ede ede_;
  std::uint16_t key_size_;
  std::uint16_t body_size_;
  std::uint16_t answer_count_;
  std::uint16_t authority_count_;
  std::uint16_t run_begin_;  // the records that rotate: equal owners, equal sizes
  std::uint16_t run_count_;
  std::uint16_t pointer_count_;
  std::uint16_t server_size_;
  MessageKind kind_;
  std::uint8_t ede_text_size_;
  std::uint16_t alias_count_;
  Carrier carrier_;
  bool has_ede_ : 1;
  bool authentic_data_ : 1;
  bool unreachable_ : 1;
  bool leads_on_ : 1;

  // Guarded by the mutex of the cache shard that holds it.
  struct CacheLinks {
    const CachedMessage* chain = nullptr;  // next in the bucket
    const CachedMessage* newer = nullptr;  // neighbours in the queue
    const CachedMessage* older = nullptr;
    Millis paused_at = 0;  // a refresh failed then: stale without asking for a while; 0 = none
    bool in_main = false;  // which queue of its kind
    std::uint8_t frequency = 0;  // hits, saturating
    std::uint8_t failures = 0;   // in a row, of this question
    bool refresh_signalled = false;
    std::uint32_t judged_by = 0;  // number of the rules for what may be used; 0 = by none yet
  };
  mutable CacheLinks links_;
};

template <typename Visit>
void CachedMessage::for_each_alias(const Visit& visit) const {
  const char* at = aliases();
  for (std::size_t i = 0; i < alias_count_; ++i) {
    std::uint16_t record;
    std::memcpy(&record, at, sizeof record);
    const auto size = static_cast<unsigned char>(at[sizeof record]);
    at += sizeof record + 1;
    if (!visit(Alias{record, {at, size}})) return;
    at += size;
  }
}

using MessageRef = Ref<const CachedMessage>;

// The parts from which a CachedMessage is made.
struct MessageParts {
  explicit MessageParts(const CacheKey& question_key) : key(question_key) {}

  CacheKey key;
  MessageKind kind = MessageKind::Failure;
  wire::Rcode rcode = wire::Rcode::ServFail;
  Millis received_at = 0;
  Millis lifetime = 0;  // 0 = not to be cached
  // The chain of aliases: which record of the answer each link is, and where it leads (lower-case
  // wire form).
  struct Alias {
    std::uint16_t record = 0;
    std::string target;
  };
  std::vector<Alias> aliases;
  bool leads_on = false;  // the chain's end is another question's
  bool authentic_data = false;
  bool unreachable = false;
  bool has_ede = false;
  wire::Ede ede = wire::Ede::Other;
  std::string ede_text;     // cut to 255 octets
  std::string_view server;  // that it came from; empty = none
  Carrier carrier = Carrier::Unknown;

  // Header (not used), question, records: offsets count from its first octet.
  std::vector<std::uint8_t> message;
  std::vector<std::uint16_t> ttl_offsets;  // one a record
  // Compression pointers, in ascending order; without the owners that are only a pointer.
  std::vector<std::uint16_t> pointers;
  std::uint16_t answer_count = 0;
  std::uint16_t authority_count = 0;
  std::uint16_t run_begin = 0;  // record index
  std::uint16_t run_count = 0;
};

}  // namespace meshdns::dnsd
