// SPDX-License-Identifier: Apache-2.0
// The way of lookups to answers: the query path of the server that the engine is a part of.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace meshdns::resolver {

struct PathQuery {
  std::string ns;  // it is asked as a client of this namespace asks, with its default Sidecar
  // The endpoint name that is looked up: the services of the namespace that have it do not count.
  std::string host;
  std::vector<std::uint8_t> message;  // a DNS message, as it comes over TCP without its length
};

// Control thread.
class QueryPath {
 public:
  // An empty reply: nothing will come.
  using Reply = std::function<void(std::span<const std::uint8_t> message)>;

  virtual ~QueryPath() = default;
  // Answers the query as one over TCP: `reply` is called exactly once, in bounded time, maybe
  // before ask() has returned.  Answers that are past their time fail.
  virtual void ask(PathQuery query, Reply reply) = 0;
};

}  // namespace meshdns::resolver
