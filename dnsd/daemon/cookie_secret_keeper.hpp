// SPDX-License-Identifier: Apache-2.0
// The secrets of our cookies: those of a file, or random ones of our own, another one every day.
#pragma once

#include <chrono>
#include <string>

#include "dnsd/config/cookie_secrets.hpp"
#include "dnsd/log/log.hpp"

namespace meshdns::dnsd {

// The control thread.
class CookieSecretKeeper {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // Time for which a random secret is the current one; it is accepted for the same time afterwards.
  static constexpr std::chrono::hours kLifetime{24};

  // Has random secrets.  REQUIRES: `log` outlives it.
  CookieSecretKeeper(Log& log, Time now);

  // Takes the secrets of `file`, read anew; empty = random ones.  An error in the file is
  // logged and leaves the secrets as they are.
  void follow(const std::string& file, Time now);
  // Call every second or so.  True: the secrets are others now.
  bool tick(Time now);

  const CookieSecrets& secrets() const { return secrets_; }

 private:
  void renew(Time now);

  Log& log_;
  CookieSecrets secrets_;
  bool is_from_file_ = false;
  Time renewed_at_;  // only while they are random
};

}  // namespace meshdns::dnsd
