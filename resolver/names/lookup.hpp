// SPDX-License-Identifier: Apache-2.0
// One question for the addresses of one name in one family, for one namespace.  The engine knows no
// more of DNS than this; CaresLookups asks by c-ares, tests have their own.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "registry/base/ip_address.hpp"
#include "registry/model/resolved_name.hpp"

namespace meshdns::resolver {

// The way of lookups to answers: the query path of the server that the engine is a part of.
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

// The mesh's own answers for endpoint names, which follow each of its changes at once.
struct MeshAnswer {
  // The mesh does not answer: the name is looked up, and only `via` of the result counts.
  bool is_outside = false;
  registry::ResolvedName result{};
  friend bool operator==(const MeshAnswer&, const MeshAnswer&) = default;
};

// Control thread.
class MeshNames {
 public:
  virtual ~MeshNames() = default;
  // As a client of the namespace finds `name` when it asks for the endpoint name `host`, both
  // canonical: the name itself, or what an alias outside leads to.
  virtual MeshAnswer find(std::string_view ns, std::string_view host, std::string_view name) = 0;
  // All names that the namespace uses, and all namespaces that use any.
  virtual std::vector<std::string> names_of(std::string_view ns) const = 0;
  virtual std::vector<std::string> namespaces() const = 0;
};

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
