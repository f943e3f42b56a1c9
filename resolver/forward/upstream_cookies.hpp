// SPDX-License-Identifier: Apache-2.0
// The cookies between one worker and one upstream (RFC 7873): whoever forges a reply over UDP does
// not see the query, and so does not know the cookie in it.
//
// Once the upstream has shown that it knows cookies, a reply over UDP without ours is not believed
// (section 5.3): the question is asked over TCP, where a forger has no chance and the upstream
// shows whether it still knows them.  Where it does not, or where it has no TCP either, replies
// without are believed again for a while, so that an upstream that has lost its cookies is not
// lost.
#pragma once

#include <string>
#include <string_view>

#include "resolver/cache/cached_message.hpp"
#include "resolver/forward/random_pool.hpp"

namespace meshdns::dnsd {

// The reactor's thread.
class UpstreamCookies {
 public:
  static constexpr std::size_t kClientSize = 8;
  static constexpr std::size_t kMaxSize = 40;
  // Time for which replies without a cookie are accepted after the upstream lost its cookies.
  static constexpr Millis kTrustTime = 900'000;  // 15 min
  // Questions in a row with replies without a cookie and failed TCP, before the cookies count as
  // lost.
  static constexpr unsigned kMaxFailures = 3;

  explicit UpstreamCookies(RandomPool& random);

  // The option for a query: ours, fixed, and the upstream's as last learned.
  std::string option() const { return client_ + server_; }

  enum class Verdict : std::uint8_t {
    Ours,     // it echoes our cookie
    Foreign,  // it has another client's: to be ignored (section 5.3)
    Absent,   // it has none, and none was to be expected
    Missing,  // it has none where one was to be expected: not to be believed over UDP
  };
  // `option`: of a reply to a query that had our option; empty = it has none.
  Verdict judge(std::string_view option, Millis now) const;
  bool is_expected(Millis now) const { return !server_.empty() && now >= trusting_until_; }

  // A reply whose option is Ours.
  void learn(std::string_view option);
  // After a reply over UDP that lacked a cookie: the reply over TCP.  True: the upstream has lost
  // its cookies, which is news.
  bool note_stream_reply(std::string_view option, Millis now);
  // After a reply over UDP that lacked a cookie: TCP failed.  As above.
  bool note_stream_failure(Millis now);

 private:
  bool lose(Millis now);

  std::string client_;
  std::string server_;  // empty = not known
  Millis trusting_until_ = 0;
  unsigned failures_ = 0;
};

}  // namespace meshdns::dnsd
