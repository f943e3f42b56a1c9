// SPDX-License-Identifier: Apache-2.0
#include "resolver/cache/cache.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstring>

#include "registry/base/durable_file.hpp"
#include "registry/base/host_name.hpp"
#include "resolver/cache/answer_builder.hpp"
#include "resolver/cache/cache_shard.hpp"
#include "resolver/wire/name_text.hpp"
#include "resolver/wire/octets.hpp"

namespace meshdns::dnsd {
namespace {

// So many shards that workers rarely meet, but each large enough for the largest message.
constexpr std::size_t kMaxShards = 64;
constexpr std::size_t kMinShardSize = std::size_t{512} << 10;

constexpr std::string_view kBlockMagic = "meshdns cache 3\n";

constexpr std::size_t kChecksumSize = 4;

void put_u64(std::vector<std::uint8_t>& out, std::uint64_t value) {
  for (int shift = 56; shift >= 0; shift -= 8)
    out.push_back(static_cast<std::uint8_t>(value >> shift));
}

std::uint64_t get_u64(const std::uint8_t* at) {
  return std::uint64_t{wire::load_u32(at)} << 32 | wire::load_u32(at + 4);
}

// The server of a saved message is the data of a record of its additional section, which former
// versions read and ignore.  Its type is for private use (RFC 6895, section 3.1).
constexpr wire::Type kServerType{65'280};

// False: the message would be too long for one.
bool add_server(std::vector<std::uint8_t>& octets, std::string_view server) {
  if (octets.size() + wire::kFixedFields + 1 + server.size() > wire::kMaxMessageSize) return false;
  wire::store_u16(octets.data() + 10, 1);  // of additional records; the cache keeps none
  std::array<std::uint8_t, 1 + wire::kFixedFields> head{};  // the owner is the root
  wire::store_u16(head.data() + 1, static_cast<std::uint16_t>(kServerType));
  wire::store_u16(head.data() + 3, static_cast<std::uint16_t>(wire::Class::In));
  wire::store_u16(head.data() + 9, static_cast<std::uint16_t>(server.size()));
  octets.insert(octets.end(), head.begin(), head.end());
  octets.insert(octets.end(), server.begin(), server.end());
  return true;
}

std::string_view server_of(const wire::ResponseMessage& saved) {
  const auto found = std::ranges::find(saved.additional, kServerType, &wire::ResponseRecord::type);
  return found == saved.additional.end() ? std::string_view() : std::string_view(found->rdata);
}

void put_message(std::vector<std::uint8_t>& block, const CachedMessage& message, Millis now) {
  std::vector<std::uint8_t> octets = message.to_wire(now);
  if (!message.server().empty() && !add_server(octets, message.server())) return;
  block.push_back(static_cast<std::uint8_t>(message.key().back()));
  block.push_back(static_cast<std::uint8_t>(octets.size() >> 8));
  block.push_back(static_cast<std::uint8_t>(octets.size()));
  block.insert(block.end(), octets.begin(), octets.end());
}

// A message read back has lost `elapsed` of every TTL; false when it has none left.
bool age_records(std::vector<wire::ResponseRecord>& records, std::uint32_t elapsed) {
  for (wire::ResponseRecord& record : records) {
    if (record.ttl <= elapsed) return false;
    record.ttl -= elapsed;
  }
  return true;
}

}  // namespace

bool is_in_zone(std::string_view name, std::string_view zone) {
  while (name.size() > zone.size()) name.remove_prefix(1u + static_cast<unsigned char>(name[0]));
  return name == zone;
}

Cache::Cache(const CacheConfig& config) {
  const std::size_t shards =
      std::clamp(std::bit_floor(std::max<std::size_t>(config.size_bytes / kMinShardSize, 1)),
                 std::size_t{1}, kMaxShards);
  for (std::size_t i = 0; i < shards; ++i)
    shards_.push_back(std::make_unique<CacheShard>(config.size_bytes / shards));
  reconfigure(config);
}

Cache::~Cache() = default;

CacheShard& Cache::shard_of(std::uint64_t hash) const {
  return *shards_[(hash >> 48) & (shards_.size() - 1)];
}

CacheMoment Cache::moment(Millis now) const {
  return {now, serve_stale_.load(std::memory_order_relaxed),
          recovered_at_.load(std::memory_order_relaxed), prefetch_.load(std::memory_order_relaxed)};
}

Cache::Hit Cache::answer(const wire::QueryMessage& query, const ReplyFrame& frame, Millis now,
                         std::uint32_t rotation) {
  const CacheKey key(query);
  const CacheMoment at = moment(now);
  Hit hit;
  if (shard_of(key.hash()).answer(key, query, frame, at, rotation, hit)) return hit;
  const CacheKey name_error = key.to_name_error();
  CacheShard& shard = shard_of(name_error.hash());
  if (!shard.answer(name_error, query, frame, at, rotation, hit))
    misses_.fetch_add(1, std::memory_order_relaxed);
  return hit;
}

MessageRef Cache::find(const CacheKey& key, Millis now) {
  const CacheMoment at = moment(now);
  if (MessageRef found = shard_of(key.hash()).find(key, at)) return found;
  const CacheKey name_error = key.to_name_error();
  return shard_of(name_error.hash()).find(name_error, at);
}

MessageRef Cache::find_denial_above(const CacheKey& key, Millis now) {
  const CacheKey denied = key.to_name_error();
  const CacheMoment at = moment(now);
  std::string_view bytes = denied.bytes();
  std::string_view name = denied.name();
  // A denial of the root would be one of everything.
  while (name.size() > 1) {
    const std::size_t label = 1u + static_cast<unsigned char>(name[0]);
    bytes.remove_prefix(label);
    name.remove_prefix(label);
    if (name.size() <= 1) break;
    const CacheKey above(bytes);
    if (MessageRef found = shard_of(above.hash()).find(above, at)) return found;
  }
  return {};
}

MessageRef Cache::find_stale(const CacheKey& key, Millis now) {
  return shard_of(key.hash()).find_stale(key, moment(now));
}

bool Cache::is_refresh_paused(const CacheKey& key, Millis now) {
  return shard_of(key.hash()).is_refresh_paused(key, moment(now));
}

Cache::Entry Cache::peek(const CacheKey& key, Millis now) {
  const CacheMoment at = moment(now);
  if (Entry entry = shard_of(key.hash()).peek(key, at); entry.message) return entry;
  const CacheKey name_error = key.to_name_error();
  return shard_of(name_error.hash()).peek(name_error, at);
}

std::optional<Cache::Place> Cache::list_some(Place place, Millis now, const Wants& wants,
                                             std::vector<Entry>& found) {
  const auto next = shards_[place.shard]->list_some(place.bucket, moment(now), wants, found);
  if (next) return Place{place.shard, *next};
  if (place.shard + 1 == shards_.size()) return std::nullopt;
  return Place{place.shard + 1, 0};
}

void Cache::store(const MessageRef& message, const CacheKey& asked) {
  assert(message->kind() != MessageKind::Failure);
  if (!message->is_cacheable() || !is_enabled()) return;
  const CacheMoment at = moment(message->received_at());
  shard_of(message->hash()).store(message, at);
  // The name came to be, or it is gone: what said otherwise must not outlive that.
  const bool is_name_error = message->key() != asked.bytes();
  const CacheKey outdated = is_name_error ? asked : asked.to_name_error();
  shard_of(outdated.hash()).remove(outdated);
}

void Cache::store_failure(const MessageRef& failure, Millis now) {
  assert(failure->kind() == MessageKind::Failure);
  if (!is_enabled()) return;
  shard_of(failure->hash()).store_failure(failure, moment(now));
}

template <typename Matches>
std::size_t Cache::flush_if(Matches matches) {
  std::size_t removed = 0;
  for (const auto& shard : shards_) removed += shard->remove_if(matches);
  return removed;
}

std::size_t Cache::flush_name(std::string_view wire_name) {
  const std::string name = to_lower(wire_name);
  return flush_if([&](const CachedMessage& message) { return message.name() == name; });
}

std::size_t Cache::flush_zone(std::string_view wire_name) {
  const std::string zone = to_lower(wire_name);
  return flush_if([&](const CachedMessage& message) { return is_in_zone(message.name(), zone); });
}

// Layout: magic, the CRC-32 of what follows (4 octets), the time (8 octets), then for each message
// DO and CD (1 octet), its size (2 octets) and the message as it goes over the wire, TTLs as of
// now, and its server as an additional record.
std::vector<std::uint8_t> Cache::save(std::int64_t unix_now, Millis now) const {
  std::vector<std::uint8_t> block(kBlockMagic.begin(), kBlockMagic.end());
  const std::size_t sum_at = block.size();
  block.resize(sum_at + kChecksumSize);
  put_u64(block, static_cast<std::uint64_t>(unix_now));
  std::vector<MessageRef> fresh;
  for (const auto& shard : shards_) {
    // The lock is held for counting references only: workers wait for it.
    shard->for_each([&](const CachedMessage& message) {
      if (message.kind() == MessageKind::Positive && now < message.expires_at())
        fresh.emplace_back(&message);
    });
    for (const MessageRef& message : fresh) put_message(block, *message, now);
    fresh.clear();
  }
  wire::store_u32(block.data() + sum_at,
                  checksum(std::span(block).subspan(sum_at + kChecksumSize)));
  return block;
}

Result<std::size_t> Cache::load(std::span<const std::uint8_t> block, std::int64_t unix_now,
                                Millis now) {
  const std::size_t sum_end = kBlockMagic.size() + kChecksumSize;
  const std::size_t head = sum_end + 8;
  if (block.size() < head || std::memcmp(block.data(), kBlockMagic.data(), kBlockMagic.size()) != 0)
    return fail("not a cache file of this version");
  if (wire::load_u32(block.data() + kBlockMagic.size()) != checksum(block.subspan(sum_end)))
    return fail("damaged: the checksum differs");
  const auto saved_at = static_cast<std::int64_t>(get_u64(block.data() + sum_end));
  // Any number may stand in the file: bounded before it is subtracted.
  const auto gone = static_cast<std::uint32_t>(
      unix_now - std::clamp<std::int64_t>(saved_at, unix_now - wire::kMaxTtl, unix_now) + 1);
  // Limits were applied when the answers came.
  AnswerRules rules;
  rules.max_ttl = std::chrono::seconds(wire::kMaxTtl);
  const auto servers = shards_.front()->servers();
  std::size_t loaded = 0;
  std::size_t at = head;
  while (at < block.size()) {
    if (block.size() - at < 3) return fail("cut short");
    const unsigned flags = block[at];
    const std::size_t size = wire::load_u16(block.data() + at + 1);
    at += 3;
    if (block.size() - at < size) return fail("cut short");
    auto response = wire::parse_response(block.subspan(at, size));
    at += size;
    if (!response || !age_records(response->answer, gone)) continue;
    std::string_view server = server_of(*response);
    if (server.empty()) server = servers->any(response->question.name);
    if (server.empty() && servers->is_known()) continue;
    const auto message = build_answer({.question = response->question,
                                       .dnssec_ok = (flags & 1u) != 0,
                                       .checking_disabled = (flags & 2u) != 0,
                                       .sent_name = {},
                                       .response = *response,
                                       .carrier = Carrier::SavedCache,
                                       .server = server},
                                      rules, now);
    if (!message || (*message)->kind() != MessageKind::Positive) continue;
    store(*message, (*message)->to_key());
    ++loaded;
  }
  return loaded;
}

void Cache::deny(const DeniedAnswers& denied) {
  const auto shared = std::make_shared<const DeniedAnswers>(denied);
  for (const auto& shard : shards_) shard->deny(shared);
}

void Cache::use_servers(const AskedServers& servers) {
  const auto shared = std::make_shared<const AskedServers>(servers);
  for (const auto& shard : shards_) shard->use_servers(shared);
}

void Cache::reconfigure(const CacheConfig& config) {
  capacity_.store(config.size_bytes, std::memory_order_relaxed);
  serve_stale_.store(static_cast<Millis>(config.serve_stale.count()) * 1000,
                     std::memory_order_relaxed);
  prefetch_.store(config.prefetch, std::memory_order_relaxed);
  for (const auto& shard : shards_)
    shard->set_capacity(config.size_bytes / shards_.size(), moment(0));
}

CacheStatistics Cache::statistics() const {
  CacheStatistics statistics;
  statistics.misses = misses_.load(std::memory_order_relaxed);
  statistics.capacity_bytes = capacity_.load(std::memory_order_relaxed);
  for (const auto& shard : shards_) shard->add_to(statistics);
  return statistics;
}

}  // namespace meshdns::dnsd
