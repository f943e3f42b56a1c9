// SPDX-License-Identifier: Apache-2.0
// The cache of forwarded answers, shared by all workers: shards, each with its data inside its
// lock, bounded in octets with all overhead counted.
//
// Eviction is S3-FIFO: what is asked once passes through a small queue and leaves; only what is
// asked again gets into the main one.  A flood of random names therefore pushes out itself, not the
// hot names.  Negative answers and failures have shares of their own that they cannot exceed.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "resolver/cache/asked_servers.hpp"
#include "resolver/cache/cached_message.hpp"
#include "resolver/cache/denied_answers.hpp"
#include "resolver/settings.hpp"

namespace meshdns::dnsd {

class CacheShard;
struct CacheMoment;

// Returns whether `name` is `zone` or below it.  REQUIRES: both are lower-case names in wire form.
bool is_in_zone(std::string_view name, std::string_view zone);

// Totals since the start; `entries` and `bytes` are of now.
struct CacheStatistics {
  struct Kind {
    std::uint64_t entries = 0;
    std::uint64_t bytes = 0;
    std::uint64_t hits = 0;
    std::uint64_t evictions = 0;
  };
  Kind positive;
  Kind negative;
  Kind failure;
  std::uint64_t stale_hits = 0;
  std::uint64_t misses = 0;
  std::uint64_t insertions = 0;
  std::uint64_t refreshes = 0;  // times that a hot entry near its end was found
  std::uint64_t capacity_bytes = 0;
};

// Any thread.
class Cache {
 public:
  // RFC 8767, section 5: how long no upstream is asked again for what could not be refreshed.
  static constexpr Millis kRetryPause = 30'000;

  explicit Cache(const CacheConfig& config);
  ~Cache();
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;

  struct Hit {
    // Octets of reply written; 0: nothing written (a miss, or `message` is set).
    std::size_t size = 0;
    wire::Rcode rcode = wire::Rcode::NoError;
    MessageKind kind = MessageKind::Positive;
    Freshness freshness = Freshness::Fresh;
    // A hot entry near its end: ask Forwarder::refresh for it, after the reply.  Said once.
    bool refresh_due = false;
    // Set, and nothing written, when the answer goes through an alias: the caller checks that the
    // chain does not reach the registry (QueryHandler::use_alias), then calls write_reply() itself.
    MessageRef message;
  };
  // Answers `query` in `frame` if that can be done without asking anybody: from a fresh entry, or
  // from a stale one whose last refresh failed less than kRetryPause ago.  Never allocates.
  // `rotation`: any number, one higher with each query.
  Hit answer(const wire::QueryMessage& query, const ReplyFrame& frame, Millis now,
             std::uint32_t rotation);

  // The entry, if fresh; null otherwise.
  MessageRef find(const CacheKey& key, Millis now);
  // RFC 8020: the fresh name error of a name above `key`'s; null: there is none.
  MessageRef find_denial_above(const CacheKey& key, Millis now);
  // A positive entry that is past its time, but by less than serve_stale; null otherwise.  Nothing
  // negative is ever served stale.
  MessageRef find_stale(const CacheKey& key, Millis now);
  // Returns whether that entry's refresh failed so shortly ago that nobody is to be asked again.
  bool is_refresh_paused(const CacheKey& key, Millis now);

  // Returns the entry for a question, for explanations.  Does not count as a use of it.
  struct Entry {
    MessageRef message;  // null: nothing that would be used
    Millis fresh_until = 0;
    // Past its time: until then it serves should no upstream answer ...
    Millis kept_until = 0;
    // ... or, since its refresh failed lately, without any being asked.
    bool is_refresh_paused = false;
  };
  Entry peek(const CacheKey& key, Millis now);
  // A walk through all entries, in slices of some thousand, so that no worker waits for it.
  struct Place {
    std::size_t shard = 0;
    std::size_t bucket = 0;
  };
  using Wants = std::function<bool(const CachedMessage&)>;
  // Appends the entries of the slice at `place` that would be used and that `wants` returns true
  // for, which is called under a lock.  Does not count as a use of them.  Returns the place of the
  // next slice; nullopt: there is none.  Entries that come, leave or move (reconfigure()) between
  // two slices may be left out, or come twice.
  std::optional<Place> list_some(Place place, Millis now, const Wants& wants,
                                 std::vector<Entry>& found);

  // Keeps `message` unless it is not cacheable or too large for a shard; in place of what has the
  // same key, and of what was there for the question `asked`: a name error is kept once for all
  // types.  REQUIRES: kind() is not Failure, and the message is in no cache.
  void store(const MessageRef& message, const CacheKey& asked);
  // Notes that nothing usable came (RFC 9520): a stale positive entry stays and is paused;
  // otherwise the failure is kept for 1 s, doubling up to 5 s while it goes on.
  // REQUIRES: kind() is Failure.
  void store_failure(const MessageRef& failure, Millis now);
  // Call this when an upstream server answers again: ends cached failures and pauses that came from
  // unreachable servers.
  void note_recovery(Millis now) { recovered_at_.store(now, std::memory_order_relaxed); }

  // Removes entries of this name (all types), or at and below it; wire form, any case.  Returns how
  // many.  Takes each shard's lock in turn.
  std::size_t flush_name(std::string_view wire_name);
  std::size_t flush_zone(std::string_view wire_name);

  // Saves fresh positive entries for a later start, each with its server: save() returns one block
  // of bytes with a checksum; load() takes the entries that are still valid and returns their
  // number.  An entry without a server, which former versions saved, counts as one of a server that
  // is asked for its name now.  Anything else than such a block is an Error.  `unix_now`: seconds
  // of the wall clock, which alone goes on between two runs; a block from the future counts as one
  // of now.
  std::vector<std::uint8_t> save(std::int64_t unix_now, Millis now) const;
  Result<std::size_t> load(std::span<const std::uint8_t> block, std::int64_t unix_now, Millis now);

  // From now on answers that have a denied address are not found, whenever and under whatever rule
  // they were stored or saved.
  void deny(const DeniedAnswers& denied);
  // From now on answers are found only if their server is asked for their name.
  void use_servers(const AskedServers& servers);

  // Takes over size and serve_stale; entries stay as far as they fit.
  void reconfigure(const CacheConfig& config);
  bool is_enabled() const { return capacity_.load(std::memory_order_relaxed) != 0; }
  CacheStatistics statistics() const;

 private:
  CacheMoment moment(Millis now) const;
  CacheShard& shard_of(std::uint64_t hash) const;
  template <typename Matches>
  std::size_t flush_if(Matches matches);

  // Constant after construction.
  std::vector<std::unique_ptr<CacheShard>> shards_;

  std::atomic<std::size_t> capacity_{0};
  std::atomic<Millis> serve_stale_{0};
  std::atomic<bool> prefetch_{true};
  std::atomic<Millis> recovered_at_{0};
  std::atomic<std::uint64_t> misses_{0};
};

}  // namespace meshdns::dnsd
