// SPDX-License-Identifier: Apache-2.0
// Writes an upstream's message behind other aliases.
#pragma once

#include <cstdint>

#include "dnsd/answer/alias_chain.hpp"
#include "registry/base/ip_address.hpp"
#include "resolver/cache/cached_message.hpp"
#include "resolver/wire/message_writer.hpp"

namespace meshdns::dnsd {

// Writes the records of `aliases`.  `owner`: where the name lies that they begin with, then the one
// that they lead to.  False when one did not fit.
bool write_aliases(const RepliedAliases& aliases, Millis now, wire::MessageWriter& writer,
                   wire::MessageWriter::NameRef& owner);

// Writes the message's records behind the chain's; `owner` is where its last name lies, which the
// message answers.  Addresses begin at `rotation`.
struct ForwardedPart {
  const CachedMessage& message;
  Freshness freshness = Freshness::Fresh;
  Millis now = 0;
  std::uint32_t rotation = 0;
  // Addresses of IPv4 become those of IPv6, with this TTL at most; null = as they are.
  const IpPrefix* dns64 = nullptr;
  std::uint32_t max_translated_ttl = 0;
};
void write_forwarded(const ForwardedPart& part, wire::MessageWriter& writer,
                     wire::MessageWriter::NameRef owner);
// The extended error that a failed or stale message comes with, if any.
void write_extended_error(const CachedMessage& message, Freshness freshness,
                          wire::MessageWriter& writer);

}  // namespace meshdns::dnsd
