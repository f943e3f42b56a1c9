// SPDX-License-Identifier: Apache-2.0
// The pages about the cache: /cache and /cache/flush.
#include <uv.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "dnsd/admin/admin_routes.hpp"
#include "dnsd/admin/http_request.hpp"
#include "dnsd/admin/json.hpp"
#include "dnsd/admin/registry_streams.hpp"
#include "dnsd/answer/forwarding_facts.hpp"
#include "registry/base/host_name.hpp"
#include "registry/base/printable.hpp"
#include "resolver/cache/cache.hpp"
#include "resolver/wire/name_text.hpp"
#include "resolver/wire/record_text.hpp"

namespace meshdns::dnsd {
namespace {

constexpr std::uint64_t kUsualEntries = 1'000;
constexpr std::uint64_t kUsualLargest = 20;
constexpr std::uint64_t kMostEntries = 10'000;
constexpr std::size_t kRecordsOfEntry = 32;

Millis now_of_cache() { return uv_hrtime() / 1'000'000; }

std::string_view kind_name(MessageKind kind) {
  return kind == MessageKind::Positive   ? "positive"
         : kind == MessageKind::Negative ? "negative"
                                         : "failure";
}

// The entries that a client asks for.
struct CacheChoice {
  enum class By : std::uint8_t { Name, Zone, Size };
  By by = By::Name;
  std::string wire_name;  // lower case; empty for Size
  std::size_t limit = 0;

  bool has(const CachedMessage& message) const {
    if (by == By::Size) return true;
    return by == By::Name ? message.name() == wire_name : is_in_zone(message.name(), wire_name);
  }
};

struct ListedEntry {
  Cache::Entry entry;
  std::string name;  // text
};

// Looks through the whole cache, and then writes what it has found: the first entries, and how many
// there are.  By their names, or the largest first.
class CacheList final : public TextFeed {
 public:
  // REQUIRES: the cache outlives it.
  CacheList(Cache& cache, CacheChoice choice) : cache_(cache), choice_(std::move(choice)) {}

  bool has_work() const override { return !is_done_; }
  bool is_done() const override { return is_done_; }
  void step(std::string& text) override {
    if (place_)
      look();
    else
      write(text);
  }

 private:
  bool comes_before(const ListedEntry& a, const ListedEntry& b) const {
    const auto size = [&](const ListedEntry& listed) {
      return choice_.by == CacheChoice::By::Size ? listed.entry.message->size_bytes() : 0;
    };
    return std::forward_as_tuple(size(b), a.name, a.entry.message->key()) <
           std::forward_as_tuple(size(a), b.name, b.entry.message->key());
  }

  // Keeps no more entries than it will write: a heap whose first entry is the last of them.
  void take(Cache::Entry entry) {
    const auto order = [this](const auto& a, const auto& b) { return comes_before(a, b); };
    ++found_;
    ListedEntry listed{std::move(entry), {}};
    listed.name = wire::name_to_text(listed.entry.message->name());
    if (entries_.size() == choice_.limit) {
      if (!comes_before(listed, entries_.front())) return;
      std::ranges::pop_heap(entries_, order);
      entries_.pop_back();
    }
    entries_.push_back(std::move(listed));
    std::ranges::push_heap(entries_, order);
  }

  void look() {
    std::vector<Cache::Entry> slice;
    place_ = cache_.list_some(
        *place_, now_of_cache(),
        [this](const CachedMessage& message) { return choice_.has(message); }, slice);
    for (Cache::Entry& entry : slice) take(std::move(entry));
    if (!place_)
      std::ranges::sort(entries_,
                        [this](const auto& a, const auto& b) { return comes_before(a, b); });
  }

  void write(std::string& text) {
    if (written_ == 0) text += "{\"entries\":[";
    if (written_ < entries_.size()) {
      if (written_ > 0) text += ',';
      text += json_text([&](Json& json) { put_entry(json, entries_[written_]); });
      ++written_;
      return;
    }
    text += "],";
    // The other members of the object.
    const std::string rest = json_text([&](Json& json) {
      json.StartObject();
      put(json, "found", found_);
      put_bool(json, "complete", found_ <= entries_.size());
      put_bool(json, "enabled", cache_.is_enabled());
      json.EndObject();
    });
    text += rest.substr(1) + "\n";
    is_done_ = true;
  }

  void put_entry(Json& json, const ListedEntry& listed) const {
    const CachedMessage& message = *listed.entry.message;
    const CachedMessage::Variant variant = message.variant();
    const Millis now = now_of_cache();
    const bool is_stale = now >= listed.entry.fresh_until;
    const auto seconds_until = [now](Millis then) {
      return then > now ? (then - now + 999) / 1000 : 0;
    };
    json.StartObject();
    put(json, "name", listed.name);
    put(json, "type", variant.is_of_all_types ? "all" : wire::to_string(variant.type));
    if (variant.qclass != wire::Class::In)
      put(json, "class", static_cast<std::uint64_t>(variant.qclass));
    put_bool(json, "dnssecOk", variant.dnssec_ok);
    put_bool(json, "checkingDisabled", variant.checking_disabled);
    put(json, "kind", kind_name(message.kind()));
    put(json, "rcode", wire::to_string(message.rcode()));
    put(json, "cached", describe_entry(listed.entry, now));
    put(json, "ttl", seconds_until(listed.entry.fresh_until));
    put(json, "ageSeconds", (now - std::min(now, message.received_at())) / 1000);
    put_bool(json, "stale", is_stale);
    if (is_stale) {
      put(json, "keptSeconds", seconds_until(listed.entry.kept_until));
      put_bool(json, "refreshFailed", listed.entry.is_refresh_paused);
    }
    put(json, "server", message.server());
    put(json, "bytes", message.size_bytes());
    put(json, "answers", message.answer_count());
    if (choice_.by == CacheChoice::By::Name)
      put(json, "records",
          records_of(message, now, is_stale ? Freshness::Stale : Freshness::Fresh));
    json.EndObject();
  }

  static std::vector<std::string> records_of(const CachedMessage& message, Millis now,
                                             Freshness freshness) {
    std::vector<std::string> texts;
    const wire::ResponseMessage expanded = message.expand(now, freshness);
    for (const auto* section : {&expanded.answer, &expanded.authority})
      for (const wire::ResponseRecord& record : *section) {
        if (texts.size() == kRecordsOfEntry) {
          texts.emplace_back("; and more");
          return texts;
        }
        texts.push_back(wire::record_to_text(record));
      }
    return texts;
  }

  Cache& cache_;
  const CacheChoice choice_;
  std::optional<Cache::Place> place_ = Cache::Place{};  // nullopt: all has been looked at
  std::vector<ListedEntry> entries_;
  std::uint64_t found_ = 0;
  std::size_t written_ = 0;
  bool is_done_ = false;
};

// An Error names the argument that is wrong.
Result<CacheChoice> cache_choice(const HttpRequest& request) {
  CacheChoice choice;
  const auto name = request.argument("name");
  const auto zone = request.argument("zone");
  const bool is_largest = !request.argument("top").empty();
  if ((name.empty() ? 0 : 1) + (zone.empty() ? 0 : 1) + (is_largest ? 1 : 0) > 1)
    return fail("name=, zone= and top= exclude each other");
  if (is_largest)
    choice.by = CacheChoice::By::Size;
  else if (name.empty())
    choice.by = CacheChoice::By::Zone;
  if (!is_largest) {
    const auto wire_name = wire::name_from_text(name.empty() ? zone : name);
    if (!wire_name) return fail((name.empty() ? "zone=: " : "name=: ") + wire_name.error().message);
    choice.wire_name = to_lower(*wire_name);
  }
  const auto limit = number_argument(request, "limit", is_largest ? kUsualLargest : kUsualEntries);
  if (!limit || *limit == 0 || *limit > kMostEntries)
    return fail("limit=: " + in_quotes(request.argument("limit")) + " is not a number from 1 to " +
                std::to_string(kMostEntries));
  choice.limit = *limit;
  return choice;
}

HttpResponse show_cache_statistics(const ShownDaemon& daemon) {
  const CacheStatistics cache = daemon.engine.forwarding->cache.statistics();
  return object_response([&](Json& json) {
    const auto put_kind = [&](const char* name, const CacheStatistics::Kind& kind) {
      put_object(json, name, [&] {
        put(json, "entries", kind.entries);
        put(json, "bytes", kind.bytes);
        put(json, "hits", kind.hits);
        put(json, "evictions", kind.evictions);
      });
    };
    put_kind("positive", cache.positive);
    put_kind("negative", cache.negative);
    put_kind("failure", cache.failure);
    put(json, "staleHits", cache.stale_hits);
    put(json, "misses", cache.misses);
    put(json, "insertions", cache.insertions);
    put(json, "refreshes", cache.refreshes);
    put(json, "capacityBytes", cache.capacity_bytes);
  });
}

}  // namespace

HttpResponse show_cache(const ShownDaemon& daemon, const HttpRequest& request) {
  const auto is_given = [&](std::string_view name) { return !request.argument(name).empty(); };
  if (!is_given("name") && !is_given("zone") && !is_given("top"))
    return show_cache_statistics(daemon);
  auto choice = cache_choice(request);
  if (!choice) return bad_request(choice.error().message);
  return daemon.streams.list(
      std::make_unique<CacheList>(daemon.engine.forwarding->cache, *std::move(choice)));
}

HttpResponse flush_cache(const ShownDaemon& daemon, const HttpRequest& request) {
  const auto name = request.argument("name");
  const auto zone = request.argument("zone");
  if (name.empty() == zone.empty())
    return bad_request("name=NAME or zone=ZONE is needed, one of them; zone=. is everything");
  const auto wire_name = wire::name_from_text(name.empty() ? zone : name);
  if (!wire_name) return bad_request(wire_name.error().message);
  Cache& cache = daemon.engine.forwarding->cache;
  const std::size_t removed =
      name.empty() ? cache.flush_zone(*wire_name) : cache.flush_name(*wire_name);
  daemon.engine.log.info(
      "cache flushed",
      {{name.empty() ? "zone" : "name", name.empty() ? zone : name}, {"entries", removed}});
  return object_response([&](Json& json) { put(json, "removed", removed); });
}

}  // namespace meshdns::dnsd
