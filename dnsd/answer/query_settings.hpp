// SPDX-License-Identifier: Apache-2.0
// The settings for answers, compiled from the configuration for fast use.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dnsd/answer/local_names.hpp"
#include "dnsd/answer/locally_served.hpp"
#include "dnsd/answer/registry_only.hpp"
#include "dnsd/config/config.hpp"
#include "dnsd/config/cookie_secrets.hpp"
#include "registry/base/ip_address.hpp"

namespace meshdns::registry {
class View;
}

namespace meshdns::dnsd {

// `server.allow`, as masks: two compares a prefix whatever the family.
class AccessList {
 public:
  AccessList() = default;
  explicit AccessList(const std::vector<IpPrefix>& prefixes);
  bool contains(const IpAddress& address) const;

 private:
  struct Mask {
    std::uint64_t high_mask, high, low_mask, low;
  };
  std::vector<Mask> masks_;
};

// Returns sentences about the past of the answer for a name, for operators.  Any thread.
using DescribePast =
    std::function<std::vector<std::string>(const registry::View& view, std::string_view name)>;

struct QuerySettings {
  AccessList allow;
  ChaosAccess chaos = ChaosAccess::Loopback;
  std::string nsid;  // empty = none
  RateLimitConfig rate_limit;
  CookieMode cookies = CookieMode::Auto;    // whose are answered
  std::chrono::milliseconds timeout{2000};  // upstream.timeout: how long an answer is waited for
  std::string server_version = "meshdns";   // CH version.server
  std::string server_identity;              // CH id.server: this host's name
  std::vector<IpAddress> server_addresses;  // A and AAAA of ns.dns: bound ones, without loopback

  std::optional<IpPrefix> dns64;  // RFC 6147: how IPv4 is translated; nullopt = not
  // The hosts file and the overrides; null = neither.  The caller's to fill in: from() reads no
  // file.
  std::shared_ptr<const LocalNames> local;
  std::shared_ptr<const LocallyServedZones> served;  // null = none
  // Null: nothing is refused for REGISTRY_ONLY.
  std::shared_ptr<const RegistryOnly> registry_only;

  // For explanations; empty: nothing is known.  Set by the caller.
  DescribePast past;

  // The secrets for cookies; nullopt = cookies are off.  Also set by the caller.
  std::optional<CookieSecrets> cookie_secrets;

  // Returns whether the cookie of such a client is answered with one of ours (RFC 7873).
  bool answers_cookies_of(const IpAddress& client) const;

  // From the configuration and this host's name.
  static QuerySettings from(const Config& config);
};

}  // namespace meshdns::dnsd
