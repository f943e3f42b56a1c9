// SPDX-License-Identifier: Apache-2.0
// The names of the registry that appeared, vanished or were answered differently, since the start
// or as far back as memory allows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "registry/controller.hpp"
#include "registry/snapshot/snapshot.hpp"

namespace meshdns::dnsd {

// A change of one name in one namespace.
struct AnswerEvent {
  enum class Kind : std::uint8_t { Appeared, Vanished, Different };
  std::int64_t unix_seconds = 0;
  Kind kind = Kind::Appeared;
  std::string name;    // "*.example.org" for a wildcard
  std::string ns;      // of the service
  std::string before;  // "10.0.0.1, 10.0.0.2"; empty: it was not there
  std::string after;
  std::string object;  // that changed, or whose service it is: "ServiceEntry shop/api"
  std::string source;  // of the object, with the line: "shop.yaml:14"
};
std::string_view to_string(AnswerEvent::Kind kind);

// "2026-11-25T02:47:06Z"
std::string time_text(std::int64_t unix_seconds);
// "from 10.0.0.7 to 10.0.0.8", "10.0.0.7" for a name that appeared or vanished.
std::string answers_text(const AnswerEvent& event);
// "appeared, 10.0.0.7; ServiceEntry shop/api (shop.yaml:14)".
std::string change_text(const AnswerEvent& event);

// Keeps the changes of commits that changed answers.  Changes between two looks count once, by
// their outcome.  New addresses of endpoint names alone are no change: those of large providers
// turn with each look-up.  Control thread, but for last_change().
class AnswerHistory {
 public:
  // Together the events take at most kMaxBytes.
  static constexpr std::size_t kMaxEvents = 10'000;
  static constexpr std::size_t kMaxBytes = 3 << 20;

  struct Counts {
    std::uint64_t appeared = 0;
    std::uint64_t vanished = 0;
    std::uint64_t different = 0;
    std::uint64_t all() const { return appeared + vanished + different; }
  };

  // Changes count from this generation on.
  void begin(const registry::Snapshot& snapshot, std::int64_t unix_seconds);
  // Takes the changes of a commit, for the next look.
  void add(const registry::Changes& changes);
  // Makes events of the changes since the last look.
  void look(const registry::Snapshot& snapshot, std::int64_t unix_seconds);
  // Adds a change that somebody else has found.
  void keep(AnswerEvent&& event);

  // The oldest first.
  const std::deque<AnswerEvent>& events() const { return events_; }
  // Null: none is known.
  const AnswerEvent* last_of(std::string_view name) const;
  // When the answer for `host` changed last, as a sentence: "since 2026-11-25T02:47:06Z: ...".
  // `ns` is the namespace whose service answers the client; empty: none does.  The change of
  // another namespace's service need not be why the answer is what it is.  Empty: nothing is known
  // of the name.  Any thread.
  std::string last_change(std::string_view host, std::string_view ns) const;
  // The moment since which all changes are known; nullopt before begin().
  std::optional<std::int64_t> known_since() const { return known_since_; }
  // Returns whether that moment is the start.
  bool is_whole() const { return !has_forgotten_; }
  // Since begin().
  const Counts& counts() const { return counts_; }
  std::size_t bytes() const { return bytes_; }

 private:
  void note(const registry::RecordChange& change, const registry::OriginNames& origins,
            std::int64_t unix_seconds);
  void forget_oldest();

  // Since the last look, by host and namespace.
  std::map<std::pair<std::string, std::string>, registry::RecordChange> pending_;
  Ref<const registry::OriginNames> origins_;  // of the last look
  mutable std::mutex mutex_;
  // Guarded by mutex_, but for reading on the control thread.
  std::deque<AnswerEvent> events_;
  std::optional<std::int64_t> known_since_;
  bool has_forgotten_ = false;

  Counts counts_;
  std::size_t bytes_ = 0;
};

}  // namespace meshdns::dnsd
