// SPDX-License-Identifier: Apache-2.0
#include "resolver/cache/cache_shard.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <utility>

namespace meshdns::dnsd {
namespace {

// Octets of capacity to one bucket of seven: a small answer takes about 300.
constexpr std::size_t kBytesPerBucket = 1024;
constexpr std::size_t kBytesPerGhost = 512;
constexpr std::size_t kMinBuckets = 16;
// The part of the whole that is left for chunks of memory that are not full.
constexpr std::size_t kSparePart = 16;
// The parts of the whole that negative answers and failures may have.
constexpr std::size_t kNegativePart = 5;
constexpr std::size_t kFailurePart = 20;
// The part of each share that the queue of newcomers may have before its entries are evicted first.
constexpr std::size_t kSmallPart = 10;
// The largest message that a shard takes, as a part of it.
constexpr std::size_t kLargestPart = 4;
// Second chances given in one eviction: bounds the time under the lock.
constexpr int kMaxChances = 32;
constexpr std::uint8_t kMaxFrequency = 3;

// RFC 9520, section 3.2: at least a second, growing, at most five minutes.
constexpr Millis kFirstFailure = 1'000;
constexpr std::uint8_t kMaxFailureDoublings = 2;
constexpr Millis kLongestFailure = 5'000;
// Failures further apart than this are not in a row.
constexpr Millis kFailureMemory = 10'000;

constexpr Millis kPrefetchPart = 10;

// Buckets of one slice of a list, each with about four messages.
constexpr std::size_t kListedBuckets = 512;

}  // namespace

void CacheQueue::push(const CachedMessage* message) {
  auto& links = message->links_;
  links.newer = nullptr;
  links.older = newest_;
  (newest_ != nullptr ? newest_->links_.newer : oldest_) = message;
  newest_ = message;
  bytes_ += message->size_bytes();
  ++count_;
}

void CacheQueue::remove(const CachedMessage* message) {
  auto& links = message->links_;
  (links.older != nullptr ? links.older->links_.newer : oldest_) = links.newer;
  (links.newer != nullptr ? links.newer->links_.older : newest_) = links.older;
  links.newer = links.older = nullptr;
  bytes_ -= message->size_bytes();
  --count_;
}

void CacheQueue::replace(const CachedMessage* old, const CachedMessage* fresh) {
  auto& links = fresh->links_;
  links.newer = old->links_.newer;
  links.older = old->links_.older;
  (links.older != nullptr ? links.older->links_.newer : oldest_) = fresh;
  (links.newer != nullptr ? links.newer->links_.older : newest_) = fresh;
  bytes_ += fresh->size_bytes();
  bytes_ -= old->size_bytes();
}

CacheShard::CacheShard(std::size_t capacity) : capacity_(capacity) { resize_tables(); }

CacheShard::~CacheShard() {
  remove_if([](const CachedMessage&) { return true; });
}

void CacheShard::resize_tables() {
  table_.resize(std::bit_ceil(std::max(capacity_ / kBytesPerBucket, kMinBuckets)));
  ghosts_ =
      ZeroedArray<std::uint32_t>(std::bit_ceil(std::max(capacity_ / kBytesPerGhost, kMinBuckets)));
}

std::uint8_t CacheShard::Table::tag_of(std::uint64_t hash) {
  // Neither the bucket's part of the hash nor the shard's; never kAnyTag.
  return static_cast<std::uint8_t>(hash >> 40 | 1u);
}

void CacheShard::Table::resize(std::size_t buckets) {
  Table before;
  before.buckets_ = std::exchange(buckets_, ZeroedArray<Bucket>(buckets));
  before.for_each([this](const CachedMessage& message) { insert(&message); });
}

const CachedMessage* CacheShard::Table::find(std::string_view key, std::uint64_t hash) const {
  const Bucket& bucket = buckets_[index_of(hash)];
  const std::uint8_t tag = tag_of(hash);
  for (std::size_t i = 0; i < kSlots; ++i) {
    if (bucket.tags[i] != tag && bucket.tags[i] != kAnyTag) continue;
    for (const CachedMessage* message = bucket.slots[i]; message != nullptr;
         message = message->links_.chain)
      if (message->hash() == hash && message->key() == key) return message;
  }
  return nullptr;
}

void CacheShard::Table::insert(const CachedMessage* message) {
  Bucket& bucket = buckets_[index_of(message->hash())];
  const auto free = std::ranges::find(bucket.slots, nullptr);
  if (free != bucket.slots.end()) {
    message->links_.chain = nullptr;
    *free = message;
    bucket.tags[static_cast<std::size_t>(free - bucket.slots.begin())] = tag_of(message->hash());
    return;
  }
  const std::size_t slot = (message->hash() >> 32) % kSlots;
  message->links_.chain = bucket.slots[slot];
  bucket.slots[slot] = message;
  bucket.tags[slot] = kAnyTag;
}

void CacheShard::Table::remove(const CachedMessage* message) {
  Bucket& bucket = buckets_[index_of(message->hash())];
  const std::uint8_t tag = tag_of(message->hash());
  for (std::size_t i = 0; i < kSlots; ++i) {
    if (bucket.tags[i] != tag && bucket.tags[i] != kAnyTag) continue;
    const CachedMessage** at = &bucket.slots[i];
    while (*at != nullptr && *at != message) at = &(*at)->links_.chain;
    if (*at == nullptr) continue;
    *at = message->links_.chain;
    message->links_.chain = nullptr;
    const CachedMessage* const left = bucket.slots[i];
    const bool alone = left != nullptr && left->links_.chain == nullptr;
    bucket.tags[i] = alone ? tag_of(left->hash()) : kAnyTag;
    return;
  }
  assert(false);
}

Millis CacheShard::fresh_until(const CachedMessage& message) {
  if (message.kind() != MessageKind::Failure) return message.expires_at();
  const unsigned doublings = std::min<unsigned>(message.links_.failures, kMaxFailureDoublings + 1);
  return message.received_at() + std::min(kFirstFailure << doublings, kLongestFailure);
}

bool CacheShard::is_paused(const CachedMessage& message, const CacheMoment& moment) const {
  const Millis paused_at = message.links_.paused_at;
  return paused_at != 0 && paused_at > moment.recovered_at &&
         moment.now < paused_at + Cache::kRetryPause;
}

CacheShard::Use CacheShard::usable(const CachedMessage& message, const CacheMoment& moment) const {
  if (moment.now < fresh_until(message)) {
    const bool over = message.is_unreachable() && message.received_at() < moment.recovered_at;
    return over ? Use::No : Use::Fresh;
  }
  return is_paused(message, moment) && !is_dead(message, moment) ? Use::Stale : Use::No;
}

bool CacheShard::is_dead(const CachedMessage& message, const CacheMoment& moment) const {
  const Millis stale = message.kind() == MessageKind::Positive ? moment.serve_stale : 0;
  return moment.now >= fresh_until(message) + stale;
}

void CacheShard::note_hit(const CachedMessage& message, Cache::Hit& hit,
                          const CacheMoment& moment) {
  auto& links = message.links_;
  ++share_of(message).hits;
  if (hit.freshness == Freshness::Stale) ++stale_hits_;
  const bool asked_before = links.frequency > 0;
  if (links.frequency < kMaxFrequency) ++links.frequency;
  if (!moment.prefetch || !asked_before || links.refresh_signalled ||
      message.kind() != MessageKind::Positive || hit.freshness == Freshness::Stale)
    return;
  const Millis lifetime = message.expires_at() - message.received_at();
  const Millis left = message.expires_at() - moment.now;
  if (left * kPrefetchPart >= lifetime) return;
  links.refresh_signalled = true;
  ++refreshes_;
  hit.refresh_due = true;
}

bool CacheShard::answer(const CacheKey& key, const wire::QueryMessage& query,
                        const ReplyFrame& frame, const CacheMoment& moment, std::uint32_t rotation,
                        Cache::Hit& hit) {
  const std::lock_guard lock(mutex_);
  const CachedMessage* const message = look_up(key);
  const Use use = message != nullptr ? usable(*message, moment) : Use::No;
  if (use == Use::No) return false;
  hit.freshness = use == Use::Stale ? Freshness::Stale : Freshness::Fresh;
  hit.rcode = message->rcode();
  hit.kind = message->kind();
  note_hit(*message, hit, moment);
  if (message->has_alias()) {
    hit.message = MessageRef(message);
  } else {
    hit.size = message->write_reply(query, frame, moment.now, rotation, hit.freshness);
  }
  return true;
}

// Once for each message and rule: a reload or another network may deny what is here or have other
// servers, and what is read back from a file was stored under a rule that nobody knows any more.
const CachedMessage* CacheShard::judge(const CachedMessage* message) {
  const bool is_of_other_server =
      !message->server().empty() && !servers_->has(message->name(), message->server());
  if (is_of_other_server ||
      (message->has_denied_address(denied_->addresses()) && !denied_->is_exempt(message->name()))) {
    erase(message);
    return nullptr;
  }
  message->links_.judged_by = rule_;
  return message;
}

void CacheShard::deny(const std::shared_ptr<const DeniedAnswers>& denied) {
  const std::lock_guard lock(mutex_);
  if (*denied == *denied_) return;
  denied_ = denied;
  ++rule_;
}

void CacheShard::use_servers(const std::shared_ptr<const AskedServers>& servers) {
  const std::lock_guard lock(mutex_);
  if (*servers == *servers_) return;
  servers_ = servers;
  ++rule_;
}

std::shared_ptr<const AskedServers> CacheShard::servers() const {
  const std::lock_guard lock(mutex_);
  return servers_;
}

void CacheShard::remove(const CacheKey& key) {
  const std::lock_guard lock(mutex_);
  if (const CachedMessage* const message = look_up(key)) erase(message);
}

MessageRef CacheShard::find(const CacheKey& key, const CacheMoment& moment) {
  const std::lock_guard lock(mutex_);
  const CachedMessage* const message = look_up(key);
  if (message == nullptr || usable(*message, moment) != Use::Fresh) return nullptr;
  if (message->links_.frequency < kMaxFrequency) ++message->links_.frequency;
  ++share_of(*message).hits;
  return MessageRef(message);
}

MessageRef CacheShard::find_stale(const CacheKey& key, const CacheMoment& moment) {
  const std::lock_guard lock(mutex_);
  const CachedMessage* const message = look_up(key);
  if (message == nullptr || message->kind() != MessageKind::Positive ||
      moment.now < message->expires_at() || is_dead(*message, moment))
    return nullptr;
  if (message->links_.frequency < kMaxFrequency) ++message->links_.frequency;
  return MessageRef(message);
}

bool CacheShard::is_refresh_paused(const CacheKey& key, const CacheMoment& moment) {
  const std::lock_guard lock(mutex_);
  const CachedMessage* const message = look_up(key);
  return message != nullptr && is_paused(*message, moment);
}

Cache::Entry CacheShard::peek(const CacheKey& key, const CacheMoment& moment) {
  const std::lock_guard lock(mutex_);
  return entry_of(look_up(key), moment);
}

Cache::Entry CacheShard::entry_of(const CachedMessage* message, const CacheMoment& moment) const {
  if (message == nullptr || is_dead(*message, moment)) return {};
  const Millis fresh = fresh_until(*message);
  if (moment.now < fresh && usable(*message, moment) == Use::No) return {};  // a failure, overcome
  return {.message = MessageRef(message),
          .fresh_until = fresh,
          .kept_until = fresh + moment.serve_stale,
          .is_refresh_paused = is_paused(*message, moment)};
}

std::optional<std::size_t> CacheShard::list_some(std::size_t bucket, const CacheMoment& moment,
                                                 const Cache::Wants& wants,
                                                 std::vector<Cache::Entry>& found) {
  const std::lock_guard lock(mutex_);
  const std::size_t end = std::min(bucket + kListedBuckets, table_.size());
  table_.for_each_in(bucket, end, [&](const CachedMessage& message) {
    if (!wants(message)) return;
    if (Cache::Entry entry = entry_of(allowed(&message), moment); entry.message)
      found.push_back(std::move(entry));
  });
  return end < table_.size() ? std::optional(end) : std::nullopt;
}

void CacheShard::store(const MessageRef& message, const CacheMoment& moment) {
  const std::lock_guard lock(mutex_);
  if (message->size_bytes() > room() / kLargestPart) return;
  if (const CachedMessage* const old = table_.find(message->key(), message->hash())) {
    if (old->kind() == message->kind()) {
      replace(old, message);
      make_room(0, message->kind(), moment);
      return;
    }
    erase(old);
  }
  make_room(message->size_bytes(), message->kind(), moment);
  insert(message);
}

void CacheShard::store_failure(const MessageRef& failure, const CacheMoment& moment) {
  const std::lock_guard lock(mutex_);
  const CachedMessage* const old = look_up(failure->to_key());
  std::uint8_t in_a_row = 0;
  if (old != nullptr && old->kind() != MessageKind::Failure) {
    if (moment.now < old->expires_at()) return;  // a refresh ahead of time failed: no harm
    if (old->kind() == MessageKind::Positive && !is_dead(*old, moment)) {
      old->links_.paused_at = moment.now;
      return;
    }
  } else if (old != nullptr && moment.now < fresh_until(*old) + kFailureMemory) {
    in_a_row = std::min<std::uint8_t>(old->links_.failures + 1, kMaxFailureDoublings + 1);
  }
  if (old != nullptr) erase(old);
  failure->links_.failures = in_a_row;
  make_room(failure->size_bytes(), MessageKind::Failure, moment);
  insert(failure);
}

void CacheShard::insert(const MessageRef& message) {
  message->add_ref();
  message->links_.in_main = take_ghost(message->hash());
  table_.insert(message.get());
  queue_of(*message).push(message.get());
  ++insertions_;
}

// A name in use keeps its place and its frequency from one TTL to the next.
void CacheShard::replace(const CachedMessage* old, const MessageRef& fresh) {
  assert(old != fresh.get());
  fresh->add_ref();
  fresh->links_.in_main = old->links_.in_main;
  fresh->links_.frequency = old->links_.frequency;
  table_.remove(old);
  table_.insert(fresh.get());
  queue_of(*old).replace(old, fresh.get());
  ++insertions_;
  if (old->drop_ref()) CachedMessage::destroy(old);
}

void CacheShard::erase(const CachedMessage* message) {
  queue_of(*message).remove(message);
  table_.remove(message);
  if (message->drop_ref()) CachedMessage::destroy(message);
}

std::size_t CacheShard::total_bytes() const {
  return shares_[0].bytes() + shares_[1].bytes() + shares_[2].bytes();
}

// Returns the bytes that messages may use.  The tables count as part of the size, too.
std::size_t CacheShard::room() const {
  const std::size_t tables = table_.bytes() + ghosts_.size() * sizeof(ghosts_[0]) + sizeof *this;
  const std::size_t usable = capacity_ - capacity_ / kSparePart;
  return usable > tables ? usable - tables : 0;
}

void CacheShard::make_room(std::size_t bytes, MessageKind kind, const CacheMoment& moment) {
  const std::size_t all = room();
  Share& own = shares_[static_cast<std::size_t>(kind)];
  const std::size_t limit = kind == MessageKind::Positive   ? all
                            : kind == MessageKind::Negative ? all / kNegativePart
                                                            : all / kFailurePart;
  while (own.bytes() > 0 && own.bytes() + bytes > limit) evict_from(own, moment);
  while (total_bytes() > 0 && total_bytes() + bytes > all) {
    Share& positive = shares_[0];
    evict_from(positive.bytes() > 0     ? positive
               : own.bytes() > 0        ? own
               : shares_[1].bytes() > 0 ? shares_[1]
                                        : shares_[2],
               moment);
  }
}

void CacheShard::evict_from(Share& share, const CacheMoment& moment) {
  for (int chances = kMaxChances;; --chances) {
    const bool from_small =
        share.small.count() > 0 &&
        (share.main.count() == 0 || share.small.bytes() * kSmallPart > share.bytes());
    CacheQueue& queue = from_small ? share.small : share.main;
    const CachedMessage* const message = queue.oldest();
    auto& links = message->links_;
    if (links.frequency == 0 || chances == 0 || is_dead(*message, moment)) {
      if (from_small) leave_ghost(message->hash());
      ++share.evictions;
      erase(message);
      return;
    }
    queue.remove(message);
    links.frequency = from_small ? 0 : static_cast<std::uint8_t>(links.frequency - 1);
    links.in_main = true;
    share.main.push(message);
  }
}

// The table remembers about as many as the shard holds, the newest in each place.
void CacheShard::leave_ghost(std::uint64_t hash) {
  ghosts_[(hash >> 16) & (ghosts_.size() - 1)] = static_cast<std::uint32_t>(hash >> 32) | 1u;
}

bool CacheShard::take_ghost(std::uint64_t hash) {
  std::uint32_t& ghost = ghosts_[(hash >> 16) & (ghosts_.size() - 1)];
  if (ghost != (static_cast<std::uint32_t>(hash >> 32) | 1u)) return false;
  ghost = 0;
  return true;
}

void CacheShard::set_capacity(std::size_t capacity, const CacheMoment& moment) {
  const std::lock_guard lock(mutex_);
  if (capacity == capacity_) return;
  capacity_ = capacity;
  resize_tables();
  for (const MessageKind kind :
       {MessageKind::Failure, MessageKind::Negative, MessageKind::Positive})
    make_room(0, kind, moment);
}

void CacheShard::add_to(CacheStatistics& statistics) const {
  const std::lock_guard lock(mutex_);
  CacheStatistics::Kind* const kinds[] = {&statistics.positive, &statistics.negative,
                                          &statistics.failure};
  for (std::size_t i = 0; i < shares_.size(); ++i) {
    kinds[i]->entries += shares_[i].small.count() + shares_[i].main.count();
    kinds[i]->bytes += shares_[i].bytes();
    kinds[i]->hits += shares_[i].hits;
    kinds[i]->evictions += shares_[i].evictions;
  }
  statistics.stale_hits += stale_hits_;
  statistics.insertions += insertions_;
  statistics.refreshes += refreshes_;
}

}  // namespace meshdns::dnsd
