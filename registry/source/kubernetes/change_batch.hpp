// SPDX-License-Identifier: Apache-2.0
// Gathers single changes into a batch for the registry: the last word on an object counts, whatever
// came before it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "registry/source/kubernetes/reflector.hpp"
#include "registry/source/source.hpp"

namespace meshdns::registry::kubernetes {

// Whether the API server answers.  While it does not, one of those who ask goes on, and the others
// wait.
class ServerReach {
 public:
  // The first answer of all is `Found`, not `Regained`.
  enum class Change : std::uint8_t { None, Found, Lost, Regained };

  // Returns whether `who` may ask now.  Of a server that does not answer, the first who calls
  // becomes the one that asks.
  bool may_ask(const void* who);
  // Why a request had no answer: the server gave none, or the request was never sent.
  enum class Silence : std::uint8_t { Unanswered, Unasked };

  // Notes how a request of `who` ended; `error` says why, in words.  Another silence is `Lost`
  // again.
  Change note(const void* who, ReflectorStatus::Trouble trouble, const std::string& error,
              Milliseconds now, Silence silence = Silence::Unanswered);
  // `who` ends: another one may ask in its place.
  void forget(const void* who);

  bool is_reached() const { return state_ == State::Reached; }
  // Since when the server has not answered, and why; empty if it answers or was not asked.
  std::string error(Milliseconds now) const;

 private:
  enum class State : std::uint8_t { Unknown, Reached, Lost };

  State state_ = State::Unknown;
  const void* prober_ = nullptr;  // asks while the server does not answer
  Silence silence_ = Silence::Unanswered;
  std::string why_;
  Milliseconds lost_at_{0};
};

// How long changes of the cluster take until they are applied.
class ChangeDelays {
 public:
  // A change has arrived.  `trigger_time_ms`: when it happened, by the cluster's clock (Unix time);
  // 0 = not known.
  void note_arrival(std::int64_t trigger_time_ms);

  // Returns the changes that are about to be applied, for note_applied() afterwards.
  struct Arrival {
    std::chrono::steady_clock::time_point at;
    std::int64_t trigger_time_ms = 0;
  };
  std::vector<Arrival> take_arrivals() { return std::exchange(arrivals_, {}); }
  void note_applied(const std::vector<Arrival>& arrivals);

  const DelayHistogram& from_arrival() const { return from_arrival_; }
  const DelayHistogram& from_trigger() const { return from_trigger_; }

 private:
  std::vector<Arrival> arrivals_;
  DelayHistogram from_arrival_;
  DelayHistogram from_trigger_;
};

class ChangeBatch {
 public:
  void upsert(const std::string& origin, const Resource& resource);
  void remove(const std::string& origin, const ResourceKey& key);
  // The end of a list: what is not in `retained` goes.  As with drop(), take() has to follow before
  // anything new of that origin: a batch adds first and takes away last.
  void retain(const std::string& origin, std::vector<std::uint64_t>&& retained);
  // Everything of the origin goes.
  void drop(const std::string& origin);
  // The origin's findings are other ones now, even if nothing else changes.
  void touch(const std::string& origin) { updates_[origin]; }

  bool empty() const { return updates_.empty() && ends_.empty(); }
  std::size_t size() const { return size_; }  // objects

  // The changes, each with its origin, in order; the batch is empty then.
  std::vector<OriginChange> take();

 private:
  std::map<std::string, OriginChange> updates_;
  std::vector<OriginChange> ends_;  // Retain and Remove
  std::size_t size_ = 0;
};

}  // namespace meshdns::registry::kubernetes
