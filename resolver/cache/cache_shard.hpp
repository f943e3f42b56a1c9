// SPDX-License-Identifier: Apache-2.0
// One part of the cache: a hash table and, for each kind of message, the two queues of S3-FIFO.
#pragma once

#include <sys/mman.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "resolver/cache/cache.hpp"
#include "resolver/cache/cached_message.hpp"

namespace meshdns::dnsd {

// An array of zero octets, of which memory is taken as it is written to: a large table of which
// little is in use costs little.  A vector would write zeros to all of it.
// REQUIRES: a T of zero octets is a T, and of the same value as T().
template <typename T>
class ZeroedArray {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  ZeroedArray() = default;
  // Throws std::bad_alloc.
  explicit ZeroedArray(std::size_t size) : size_(size) {
    if (size == 0) return;
    void* const memory = ::mmap(nullptr, size * sizeof(T), PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    data_ = static_cast<T*>(memory);
  }
  ~ZeroedArray() {
    if (data_ != nullptr) ::munmap(data_, size_ * sizeof(T));
  }
  ZeroedArray(ZeroedArray&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  ZeroedArray& operator=(ZeroedArray&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }

  std::size_t size() const { return size_; }
  T& operator[](std::size_t index) { return data_[index]; }
  const T& operator[](std::size_t index) const { return data_[index]; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

// Messages in the order in which they came.  Holds no references.
class CacheQueue {
 public:
  void push(const CachedMessage* message);
  void remove(const CachedMessage* message);
  // Puts `fresh` where `old` is.
  void replace(const CachedMessage* old, const CachedMessage* fresh);
  const CachedMessage* oldest() const { return oldest_; }
  std::size_t bytes() const { return bytes_; }
  std::size_t count() const { return count_; }

 private:
  const CachedMessage* oldest_ = nullptr;
  const CachedMessage* newest_ = nullptr;
  std::size_t bytes_ = 0;
  std::size_t count_ = 0;
};

// The settings and the state of the cache that a lookup needs.
struct CacheMoment {
  Millis now = 0;
  Millis serve_stale = 0;
  Millis recovered_at = 0;
  bool prefetch = false;
};

// Any thread: every public function takes the lock.
class alignas(64) CacheShard {
 public:
  explicit CacheShard(std::size_t capacity);
  ~CacheShard();
  CacheShard(const CacheShard&) = delete;
  CacheShard& operator=(const CacheShard&) = delete;

  // The lock is held while the reply is written: it takes less time than counting a reference that
  // all workers count.
  // False: nothing usable.
  bool answer(const CacheKey& key, const wire::QueryMessage& query, const ReplyFrame& frame,
              const CacheMoment& moment, std::uint32_t rotation, Cache::Hit& hit);
  MessageRef find(const CacheKey& key, const CacheMoment& moment);
  MessageRef find_stale(const CacheKey& key, const CacheMoment& moment);
  bool is_refresh_paused(const CacheKey& key, const CacheMoment& moment);
  Cache::Entry peek(const CacheKey& key, const CacheMoment& moment);
  // Does Cache::list_some() for some buckets from `bucket` on, and returns the next one.
  std::optional<std::size_t> list_some(std::size_t bucket, const CacheMoment& moment,
                                       const Cache::Wants& wants, std::vector<Cache::Entry>& found);

  void store(const MessageRef& message, const CacheMoment& moment);
  void store_failure(const MessageRef& failure, const CacheMoment& moment);
  void remove(const CacheKey& key);
  void deny(const std::shared_ptr<const DeniedAnswers>& denied);
  void use_servers(const std::shared_ptr<const AskedServers>& servers);
  std::shared_ptr<const AskedServers> servers() const;
  void set_capacity(std::size_t capacity, const CacheMoment& moment);
  void add_to(CacheStatistics& statistics) const;

  template <typename Matches>
  std::size_t remove_if(const Matches& matches);
  template <typename Visit>
  void for_each(const Visit& visit) const;

 private:
  struct Share {
    CacheQueue small;
    CacheQueue main;
    std::uint64_t hits = 0;
    std::uint64_t evictions = 0;
    std::size_t bytes() const { return small.bytes() + main.bytes(); }
  };
  enum class Use : std::uint8_t { No, Fresh, Stale };

  // Messages by their keys.  A bucket is one line of the core's cache and has an octet of each
  // message's hash: most questions that are not there are found not to be without a look at any
  // message, which would be a read from memory each.  Holds no references.
  class Table {
   public:
    // REQUIRES: a power of two.
    void resize(std::size_t buckets);
    const CachedMessage* find(std::string_view key, std::uint64_t hash) const;
    void insert(const CachedMessage* message);
    // REQUIRES: it is there.
    void remove(const CachedMessage* message);
    // `visit` may remove the message that it is given.
    template <typename Visit>
    void for_each(const Visit& visit) const {
      for_each_in(0, buckets_.size(), visit);
    }
    // Calls `visit` for each entry of the buckets from `first` up to `end`.
    template <typename Visit>
    void for_each_in(std::size_t first, std::size_t end, const Visit& visit) const;
    std::size_t size() const { return buckets_.size(); }
    std::size_t bytes() const { return buckets_.size() * sizeof(Bucket); }

   private:
    static constexpr std::size_t kSlots = 7;
    static constexpr std::uint8_t kAnyTag = 0;  // of a slot that is empty, or has several
    struct alignas(64) Bucket {
      std::array<std::uint8_t, kSlots + 1> tags{};
      std::array<const CachedMessage*, kSlots> slots{};  // each the begin of a chain
    };
    static std::uint8_t tag_of(std::uint64_t hash);
    std::size_t index_of(std::uint64_t hash) const { return hash & (buckets_.size() - 1); }

    ZeroedArray<Bucket> buckets_;
  };

  Use usable(const CachedMessage& message, const CacheMoment& moment) const;
  Cache::Entry entry_of(const CachedMessage* message, const CacheMoment& moment) const;
  // Failures get longer lives the more of them come in a row.
  static Millis fresh_until(const CachedMessage& message);
  bool is_paused(const CachedMessage& message, const CacheMoment& moment) const;
  bool is_dead(const CachedMessage& message, const CacheMoment& moment) const;
  void note_hit(const CachedMessage& message, Cache::Hit& hit, const CacheMoment& moment);

  // The message of that key, if there is one, its server is asked and its addresses are not denied.
  const CachedMessage* look_up(const CacheKey& key) {
    return allowed(table_.find(key.bytes(), key.hash()));
  }
  const CachedMessage* allowed(const CachedMessage* message) {
    if (message == nullptr || message->links_.judged_by == rule_) [[likely]]
      return message;
    return judge(message);
  }
  const CachedMessage* judge(const CachedMessage* message);
  Share& share_of(const CachedMessage& message) {
    return shares_[static_cast<std::size_t>(message.kind())];
  }
  CacheQueue& queue_of(const CachedMessage& message) {
    Share& share = share_of(message);
    return message.links_.in_main ? share.main : share.small;
  }
  void insert(const MessageRef& message);
  void replace(const CachedMessage* old, const MessageRef& fresh);
  void erase(const CachedMessage* message);

  std::size_t total_bytes() const;
  std::size_t room() const;
  void make_room(std::size_t bytes, MessageKind kind, const CacheMoment& moment);
  void evict_from(Share& share, const CacheMoment& moment);
  void resize_tables();
  bool take_ghost(std::uint64_t hash);
  void leave_ghost(std::uint64_t hash);

  mutable std::mutex mutex_;
  // Guarded by mutex_.
  std::size_t capacity_;
  Table table_;
  ZeroedArray<std::uint32_t> ghosts_;  // a power of two: fingerprints of what left the small queues
  std::array<Share, 3> shares_;
  std::shared_ptr<const DeniedAnswers> denied_ = std::make_shared<const DeniedAnswers>();
  std::shared_ptr<const AskedServers> servers_ = std::make_shared<const AskedServers>();
  std::uint32_t rule_ = 1;  // the number of what these two say, for CacheLinks::judged_by
  std::uint64_t stale_hits_ = 0;
  std::uint64_t insertions_ = 0;
  std::uint64_t refreshes_ = 0;
};

template <typename Visit>
void CacheShard::Table::for_each_in(std::size_t first, std::size_t end, const Visit& visit) const {
  for (std::size_t i = first; i < end; ++i) {
    for (const CachedMessage* message : buckets_[i].slots) {
      while (message != nullptr) {
        const CachedMessage* const next = message->links_.chain;
        visit(*message);
        message = next;
      }
    }
  }
}

template <typename Matches>
std::size_t CacheShard::remove_if(const Matches& matches) {
  const std::lock_guard lock(mutex_);
  std::size_t removed = 0;
  table_.for_each([&](const CachedMessage& message) {
    if (!matches(message)) return;
    erase(&message);
    ++removed;
  });
  return removed;
}

template <typename Visit>
void CacheShard::for_each(const Visit& visit) const {
  const std::lock_guard lock(mutex_);
  table_.for_each(visit);
}

}  // namespace meshdns::dnsd
