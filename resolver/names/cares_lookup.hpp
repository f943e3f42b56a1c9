// SPDX-License-Identifier: Apache-2.0
// Lookups through c-ares, as a client of our own query path.
//
// c-ares writes the query, matches the reply, and knows the time-out.  It speaks as over TCP, so
// that no reply is truncated, but its socket functions lead to the query path and not to a network.
// Servers, retries, caches, cookies and the checks of replies are those of the query path alone:
// each lookup has one try, on a channel of its own, without search list, hosts file, cache, EDNS or
// random case, whatever the defaults of the installed version are.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "registry/base/result.hpp"
#include "resolver/names/lookup.hpp"

struct uv_loop_s;  // NOLINT(readability-identifier-naming): libuv's name

namespace meshdns::resolver {

// Control thread.  `loop` must run on for the handles to close after destruction.
class CaresLookups final : public Lookups {
 public:
  // An Error when the library cannot be initialised.  REQUIRES: `path` outlives the lookups, and
  // needs less than `timeout`, of a whole lookup, for an answer.
  static Result<std::unique_ptr<CaresLookups>> open(uv_loop_s* loop, QueryPath& path,
                                                    std::chrono::milliseconds timeout);
  ~CaresLookups() override;

  // For lookups that start from now on.
  void set_timeout(std::chrono::milliseconds timeout) { timeout_ = timeout; }

  std::unique_ptr<Lookup> start(const std::string& ns, const std::string& host, Family family,
                                LookupCallback callback) override;

 private:
  CaresLookups(uv_loop_s* loop, QueryPath& path, std::chrono::milliseconds timeout)
      : loop_(loop), path_(path), timeout_(timeout) {}

  uv_loop_s* loop_;
  QueryPath& path_;
  std::chrono::milliseconds timeout_;
};

// Reads the addresses of `host` (canonical) in `family` from `message`.  Follows the CNAME chain
// from the question's name through the answer section, in any order of the records; ignores records
// that are not on the chain (RFC 2181, section 5.4.1).  TTLs with the top bit set count as 0 (RFC
// 2181, section 8); the chain's TTL is its least.  At most 256 addresses and 16 aliases are taken.
// Negative answers take their TTL from the SOA (RFC 2308, section 5).  Anything that does not
// parse, is no response to this question, or has another rcode than NOERROR or NXDOMAIN is
// Status::Failed with the reason, and the message's own (RFC 8914).
Answer read_address_answer(std::span<const std::uint8_t> message, std::string_view host,
                           Family family);

}  // namespace meshdns::resolver
