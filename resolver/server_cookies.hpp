// SPDX-License-Identifier: Apache-2.0
// DNS cookies of lookups (RFC 7873): whoever forges a reply over UDP does not see the query, and so
// does not know the cookie in it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "resolver/refresh_schedule.hpp"

namespace meshdns::resolver {

// One thread.  Servers are named as in CaresOptions::servers_for.
class ServerCookies {
 public:
  virtual ~ServerCookies() = default;

  // The option for a query: 8 octets of ours, then the server's as last learned.
  virtual std::string option(const std::string& server) = 0;

  enum class Verdict : std::uint8_t {
    Believed,
    Foreign,  // another client's cookie: to be ignored
    Missing,  // none where one was to be expected: the question is asked over TCP
  };
  // Judges a reply over UDP to a query that had the option, and learns from it.  `option`: of the
  // reply; empty = it has none.
  virtual Verdict judge(const std::string& server, std::string_view option, TimePoint now) = 0;
  // After a Missing one: the option of the reply over TCP, or that TCP failed.
  virtual void note_stream_reply(const std::string& server, std::string_view option,
                                 TimePoint now) = 0;
  virtual void note_stream_failure(const std::string& server, TimePoint now) = 0;
};

}  // namespace meshdns::resolver
