// SPDX-License-Identifier: Apache-2.0
// Turns what an upstream sent into what the cache keeps and clients get: the chain of aliases that
// begins at the question's name, the records of the type asked for at its end, the SOA of a
// negative answer, and nothing else: other records could be forged ones.
#pragma once

#include <chrono>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "resolver/cache/cached_message.hpp"
#include "resolver/cache/denied_answers.hpp"
#include "resolver/wire/response_message.hpp"

namespace meshdns::dnsd {

struct AnswerRules {
  std::chrono::seconds min_ttl{0};
  std::chrono::seconds max_ttl{3600};
  std::chrono::seconds negative_max_ttl{30};
  DeniedAddresses denied;
};

// Records of one set that are kept of an upstream's answer, as other resolvers bound them, too:
// what a client gets from the cache is copied for each query.  A signed set that is larger is
// unusable, since its signature would not match the rest.
inline constexpr std::size_t kMaxRecordsPerSet = 1000;
// Sets that an answer to ANY keeps (RFC 8482, section 4.1: a subset of them will do).
inline constexpr std::size_t kMaxSetsOfAny = 16;

struct UpstreamAnswer {
  // REQUIRES: the response passed is_reply_to() for this question.
  const wire::Question& question;
  bool dnssec_ok = false;
  bool checking_disabled = false;
  // As it was spelled to the upstream: its odd case (0x20) is taken out of names that repeat it.
  std::string_view sent_name;
  const wire::ResponseMessage& response;
  Carrier carrier = Carrier::Unknown;
  // The server that sent it (UpstreamServer::to_string()).
  std::string_view server = {};
};

// Why there is nothing in a response that a client could use.
struct UnusableAnswer {
  std::string why;
  bool denied = false;  // by deny_answers: other upstreams would say the same
};

// A Positive or Negative message.  Unusable: a loop of aliases, a referral, only denied addresses,
// or an rcode other than NOERROR and NXDOMAIN.
std::expected<MessageRef, UnusableAnswer> build_answer(const UpstreamAnswer& answer,
                                                       const AnswerRules& rules, Millis now);

struct FailureText {
  wire::Rcode rcode = wire::Rcode::ServFail;
  wire::Ede ede = wire::Ede::NoReachableAuthority;
  std::string text;
  bool unreachable = false;
  std::string_view server = {};  // whose failure it is; empty = no server said anything
};
// A Failure message.  An rcode above 15 becomes SERVFAIL.  How long it is kept is the cache's
// matter.
MessageRef build_failure(const CacheKey& key, const FailureText& failure, Millis now);

}  // namespace meshdns::dnsd
