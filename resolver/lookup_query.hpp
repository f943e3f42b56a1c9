// SPDX-License-Identifier: Apache-2.0
// The query of one try of a lookup.  c-ares brings it to the server without having made it: newer
// versions write an ID and a cookie of their own into queries, and want these in the reply.  They
// get a plain query, and when they send it, ours goes out in its place.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "registry/base/result.hpp"
#include "resolver/lookup.hpp"

namespace meshdns::resolver {

struct LookupQuestion {
  std::string host;
  Family family = Family::V4;
  bool has_random_case = true;  // letters of the name become upper case by chance ("0x20")
  bool has_edns = true;
  std::string cookie = {};  // RFC 7873; empty = none
};

class LookupQuery {
 public:
  LookupQuery() = default;
  // Returns a query with random numbers from the kernel, or why there is none.
  static Result<LookupQuery> make(const LookupQuestion& question);

  // The query as the server gets it.
  std::span<const std::uint8_t> octets() const { return octets_; }
  // The query for c-ares: the same question, without an OPT record.
  std::span<const std::uint8_t> plain() const { return plain_; }

  // Sends the query to the connected socket in place of `of_cares`, whose ID it has from then on.
  // Of a stream both begin with a length.  Returns the size of `of_cares`, or -1 with errno set.
  ssize_t send_in_place_of(std::span<const std::uint8_t> of_cares, int socket, bool is_stream);

 private:
  std::vector<std::uint8_t> octets_;
  std::vector<std::uint8_t> plain_;
};

}  // namespace meshdns::resolver
