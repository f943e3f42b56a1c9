// SPDX-License-Identifier: Apache-2.0
// The life of answers, denials and failures against a model: what is used, fresh or stale, what
// pauses, and what is saved.  Nothing is evicted here; cache_test.cpp has that.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>

#include "resolver/cache/cache.hpp"
#include "tests/fewer.hpp"
#include "tests/resolver/cache/messages.hpp"

namespace meshdns::dnsd::test {
namespace {

using wire::Rcode;

constexpr Millis kSecond = 1'000;
constexpr Millis kStaleLife = 60 * kSecond;

// By the rules of docs/forwarding.md: RFC 2308, RFC 8767 and RFC 9520.
struct ModelEntry {
  MessageKind kind = MessageKind::Positive;
  std::string shown;  // "192.0.2.1", or the rcode
  Millis received = 0;
  Millis fresh_until = 0;
  Millis paused_at = 0;
  unsigned failures = 0;  // in a row before this one
  bool is_unreachable = false;
};

class CacheModel {
 public:
  void store(const std::string& name, ModelEntry entry) {
    const bool is_name_error = entry.shown == "NXDOMAIN";
    entries_.erase(name);
    name_errors_.erase(name);
    (is_name_error ? name_errors_ : entries_)[name] = std::move(entry);
  }
  void fail(const std::string& name, Millis now, bool is_unreachable) {
    constexpr Millis kLives[] = {1 * kSecond, 2 * kSecond, 4 * kSecond, 5 * kSecond};
    unsigned failures = 0;
    if (const auto found = entries_.find(name); found != entries_.end()) {
      ModelEntry& old = found->second;
      const bool is_failure = old.kind == MessageKind::Failure;
      if (!is_failure && now < old.fresh_until) return;
      if (is_stale(name, now)) {
        old.paused_at = now;
        return;
      }
      if (is_failure && now < old.fresh_until + 10 * kSecond)
        failures = std::min(old.failures + 1, 3U);
    }
    entries_[name] = {.kind = MessageKind::Failure,
                      .shown = "SERVFAIL",
                      .received = now,
                      .fresh_until = now + kLives[failures],
                      .failures = failures,
                      .is_unreachable = is_unreachable};
  }
  void recover(Millis now) { recovered_at_ = now; }

  std::string use(const std::string& name, Millis now) const {
    if (const std::string shown = use(find(entries_, name), now); shown != "miss") return shown;
    return use(find(name_errors_, name), now);
  }
  // Returns the entry that lies in the cache, used or not.
  std::string seen(const std::string& name, Millis now) const {
    if (is_stale(name, now)) return find(entries_, name)->shown;
    return use(name, now);
  }
  bool is_stale(const std::string& name, Millis now) const {
    const ModelEntry* const entry = find(entries_, name);
    return entry != nullptr && entry->kind == MessageKind::Positive && now >= entry->fresh_until &&
           now < entry->fresh_until + kStaleLife;
  }
  bool is_paused(const std::string& name, Millis now) const {
    return is_paused(*find(entries_, name), now);
  }
  bool is_saved(const std::string& name, Millis now) const {
    const ModelEntry* const entry = find(entries_, name);
    return entry != nullptr && entry->kind == MessageKind::Positive && now < entry->fresh_until;
  }

 private:
  using Entries = std::map<std::string, ModelEntry>;

  static const ModelEntry* find(const Entries& entries, const std::string& name) {
    const auto found = entries.find(name);
    return found == entries.end() ? nullptr : &found->second;
  }
  bool is_paused(const ModelEntry& entry, Millis now) const {
    return entry.paused_at > recovered_at_ && now < entry.paused_at + Cache::kRetryPause;
  }
  std::string use(const ModelEntry* entry, Millis now) const {
    if (entry == nullptr) return "miss";
    if (now < entry->fresh_until) {
      const bool is_over = entry->is_unreachable && entry->received < recovered_at_;
      return is_over ? "miss" : entry->shown;
    }
    const bool is_kept =
        entry->kind == MessageKind::Positive && now < entry->fresh_until + kStaleLife;
    return is_kept && is_paused(*entry, now) ? "stale " + entry->shown : "miss";
  }

  Entries entries_;      // by the type that is asked for
  Entries name_errors_;  // for all types
  Millis recovered_at_ = 0;
};

class CacheModelTest : public ::testing::Test {
 protected:
  static CacheConfig config() {
    CacheConfig config;
    config.size_bytes = std::size_t{1} << 20;
    config.serve_stale = std::chrono::seconds(kStaleLife / kSecond);
    return config;
  }
  static CacheKey key_of(const std::string& name) { return CacheKey(question(name), false, false); }

  std::string use(const std::string& name, Millis now) {
    ClientQuery client(name);
    const Cache::Hit hit = cache_.answer(client.query, client.frame(), now, 0);
    if (hit.size == 0) return "miss";
    const auto reply = client.reply(hit.size);
    if (reply.answer.empty()) return std::string(wire::to_string(reply.rcode));
    const std::string text = texts(reply.answer).front();
    return (hit.freshness == Freshness::Stale ? "stale " : "") + text.substr(text.rfind(' ') + 1);
  }
  // One random thing happens to one of few names.
  void step(const std::string& name) {
    const Millis ttl = (1 + random_() % 20) * kSecond;
    const std::string seconds = std::to_string(ttl / kSecond);
    switch (random_() % 7) {
      case 0: {
        const std::string address = "192.0.2." + std::to_string(random_() % 250 + 1);
        put(response(question(name), {name + " " + seconds + " A " + address}));
        model_.store(name, entry(MessageKind::Positive, address, ttl));
        break;
      }
      case 1:
      case 2: {
        const bool is_name_error = random_() % 2 == 0;
        put(response(question(name), {}, {"example.org. " + seconds + " SOA " + seconds},
                     is_name_error ? Rcode::NxDomain : Rcode::NoError));
        model_.store(name,
                     entry(MessageKind::Negative, is_name_error ? "NXDOMAIN" : "NOERROR", ttl));
        break;
      }
      case 3:
      case 4: {
        FailureText text{.text = "test"};
        text.unreachable = random_() % 2 == 0;
        cache_.store_failure(build_failure(key_of(name), text, now_), now_);
        model_.fail(name, now_, text.unreachable);
        break;
      }
      case 5:
        if (random_() % 4 != 0) break;
        cache_.note_recovery(now_);
        model_.recover(now_);
        break;
      default:
        break;
    }
  }
  ModelEntry entry(MessageKind kind, const std::string& shown, Millis ttl) const {
    return {.kind = kind, .shown = shown, .received = now_, .fresh_until = now_ + ttl};
  }
  void put(const wire::ResponseMessage& from) {
    cache_.store(cached(from, now_), CacheKey(from.question, false, false));
  }
  std::string seen(const std::string& name) {
    const Cache::Entry entry = cache_.peek(key_of(name), now_);
    if (!entry.message) return "miss";
    EXPECT_EQ(entry.fresh_until > now_, !model_.is_stale(name, now_));
    const auto records = entry.message->expand(now_, Freshness::Fresh).answer;
    if (records.empty()) return std::string(wire::to_string(entry.message->rcode()));
    const std::string text = texts(records).front();
    return text.substr(text.rfind(' ') + 1);
  }
  void compare(const std::string& name) {
    const CacheKey key = key_of(name);
    ASSERT_EQ(seen(name), model_.seen(name, now_));
    const std::string expected = model_.use(name, now_);
    ASSERT_EQ(use(name, now_), expected);
    ASSERT_EQ(cache_.find(key, now_) != nullptr,
              expected != "miss" && !expected.starts_with("stale"));
    ASSERT_EQ(cache_.find_stale(key, now_) != nullptr, model_.is_stale(name, now_));
    if (model_.is_stale(name, now_)) {
      ASSERT_EQ(cache_.is_refresh_paused(key, now_), model_.is_paused(name, now_));
    }
  }

  std::mt19937 random_;
  Millis now_ = 1'000'000;
  CacheModel model_;
  Cache cache_{config()};
};

TEST_F(CacheModelTest, AnswersDenialsAndFailuresLiveAsTheRulesSay) {
  const std::string names[] = {"a.example.org.", "b.example.org.", "c.example.org."};
  for (unsigned i = 0; i < meshdns::test::fewer(5'000U); ++i) {
    now_ += random_() % 4 == 0 ? random_() % (20 * kSecond) : random_() % kSecond;
    const std::string& name = names[random_() % std::size(names)];
    step(name);
    for (const std::string& each : names) {
      SCOPED_TRACE(each + ", step " + std::to_string(i));
      ASSERT_NO_FATAL_FAILURE(compare(each));
    }
  }
}

TEST_F(CacheModelTest, WhatIsFreshIsSavedAndNothingElse) {
  const std::string names[] = {"a.example.org.", "b.example.org.", "c.example.org."};
  for (unsigned i = 0; i < meshdns::test::fewer(400U); ++i) {
    now_ += random_() % (3 * kSecond);
    step(names[random_() % std::size(names)]);
    const auto block = cache_.save(1'700'000'000, now_);
    Cache next(config());
    ASSERT_TRUE(next.load(block, 1'700'000'000, now_).has_value());
    std::size_t saved = 0;
    for (const std::string& name : names) saved += model_.is_saved(name, now_) ? 1 : 0;
    std::size_t read = 0;
    for (std::size_t at = 28; at < block.size(); ++read)
      at += 3 + (block[at + 1] << 8 | block[at + 2]);
    ASSERT_EQ(read, saved) << "step " << i;
  }
}

}  // namespace
}  // namespace meshdns::dnsd::test
