// SPDX-License-Identifier: Apache-2.0
// An upstream's message behind aliases of our own, and where its aliases come back to us.
#pragma once

#include <cstdint>

#include "dnsd/cache/cached_message.hpp"
#include "dnsd/query/alias_chain.hpp"
#include "dnsd/query/decision.hpp"
#include "wire/message_writer.hpp"

namespace meshdns::dnsd {

enum class Reentry : std::uint8_t {
  None,  // the message's aliases stay outside of the registry
  Into,  // the chain ends at a name that is ours to answer
  Loop,  // the chain has no end, or goes through a name that is none
};

// If an upstream's chain of aliases reaches a name that the registry answers for this client, the
// registry's answer replaces the rest of the upstream's.  Adds the links up to there to
// `chain`.
Reentry reenter_registry(const registry::View& view, const Asked& asked,
                         const CachedMessage& message, Freshness freshness, Millis now,
                         AliasChain& chain);

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
