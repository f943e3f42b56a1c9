// SPDX-License-Identifier: Apache-2.0
// One question for the addresses of one name in one family, for one namespace.  The engine knows no
// more of DNS than this; CaresLookups asks by c-ares, tests have their own.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "registry/base/ip_address.hpp"

namespace meshdns::resolver {

enum class Family : std::uint8_t { V4, V6 };
std::string_view to_string(Family family);  // "A", "AAAA"

struct Answer {
  enum class Status : std::uint8_t {
    Addresses,  // `addresses` is not empty
    NoData,     // the name exists, without addresses of this family
    NoName,     // NXDOMAIN
    Failed,     // nobody gave a usable answer; `error` says why
  };
  Status status = Status::Failed;
  std::vector<IpAddress> addresses{};  // in the order of the answer, unique
  std::chrono::seconds ttl{0};         // least of the chain's; for NoData and NoName RFC 2308's
  bool has_ttl = true;                 // false: a negative answer without SOA
  // The targets of the aliases that it led through, canonical: the first ones and the last.
  std::vector<std::string> via{};
  std::string error{};
};

// A lookup under way.  Destroying it cancels it: the callback is not called any more.
class Lookup {
 public:
  virtual ~Lookup() = default;
};

using LookupCallback = std::function<void(Answer&&)>;

// Control thread.
class Lookups {
 public:
  virtual ~Lookups() = default;
  // Asks once, as a client of the namespace `ns`, for `host` (canonical).  The callback comes
  // exactly once, on the loop's thread, within a bounded time and never before start() has
  // returned; the Lookup may be destroyed inside it.
  virtual std::unique_ptr<Lookup> start(const std::string& ns, const std::string& host,
                                        Family family, LookupCallback callback) = 0;
};

}  // namespace meshdns::resolver
