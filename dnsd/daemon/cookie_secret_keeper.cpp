// SPDX-License-Identifier: Apache-2.0
#include "dnsd/daemon/cookie_secret_keeper.hpp"

#include "resolver/forward/random_pool.hpp"

namespace meshdns::dnsd {
namespace {

CookieSecret random_secret() {
  CookieSecret secret;
  RandomPool().fill(secret.data(), secret.size());
  return secret;
}

}  // namespace

CookieSecretKeeper::CookieSecretKeeper(Log& log, Time now)
    : log_(log), secrets_{random_secret(), std::nullopt}, renewed_at_(now) {}

void CookieSecretKeeper::follow(const std::string& file, Time now) {
  if (file.empty()) {
    if (is_from_file_) renew(now);
    is_from_file_ = false;
    return;
  }
  const auto read = read_cookie_secrets(file);
  if (!read) {
    log_.error("cannot use server.cookies.secret_file",
               {{"reason", std::string_view(read.error().message)}});
    return;
  }
  secrets_ = *read;
  is_from_file_ = true;
}

bool CookieSecretKeeper::tick(Time now) {
  if (is_from_file_ || now < renewed_at_ + kLifetime) return false;
  renew(now);
  return true;
}

// Cookies of the current secret stay valid until clients have asked again.
void CookieSecretKeeper::renew(Time now) {
  secrets_ = {random_secret(), secrets_.current};
  renewed_at_ = now;
}

}  // namespace meshdns::dnsd
