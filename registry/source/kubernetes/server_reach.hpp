// SPDX-License-Identifier: Apache-2.0
// Whether the API server answers.  While it does not, one of those who ask goes on, and the others
// wait.
#pragma once

#include <cstdint>
#include <string>

#include "registry/source/kubernetes/reflector.hpp"

namespace meshdns::registry::kubernetes {

class ServerReach {
 public:
  // The first answer of all is `Found`, not `Regained`.
  enum class Change : std::uint8_t { None, Found, Lost, Regained };

  // Returns whether `who` may ask now.  Of a server that does not answer, the first who calls
  // becomes the one that asks.
  bool may_ask(const void* who);
  // Notes how a request of `who` ended; `error` says why, in words.
  Change note(const void* who, ReflectorStatus::Trouble trouble, const std::string& error,
              Milliseconds now);
  // `who` ends: another one may ask in its place.
  void forget(const void* who);

  bool is_reached() const { return state_ == State::Reached; }
  // Since when the server has not answered, and why; empty if it answers or was not asked.
  std::string error(Milliseconds now) const;

 private:
  enum class State : std::uint8_t { Unknown, Reached, Lost };

  State state_ = State::Unknown;
  const void* prober_ = nullptr;  // asks while the server does not answer
  std::string why_;
  Milliseconds lost_at_{0};
};

}  // namespace meshdns::registry::kubernetes
