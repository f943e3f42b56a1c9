// SPDX-License-Identifier: Apache-2.0
// An upstream's message behind other aliases, and where its own lead on.
#pragma once

#include <cstdint>

#include "dnsd/cache/cached_message.hpp"
#include "dnsd/query/alias_chain.hpp"
#include "dnsd/query/decision.hpp"
#include "dnsd/query/upstreams.hpp"
#include "wire/message_writer.hpp"

namespace meshdns::dnsd {

// The way on from an upstream's chain of aliases.
enum class Continuation : std::uint8_t {
  None,  // the message is the whole answer
  Into,  // a name that is ours to answer
  On,    // a name that is to be asked for: of other servers, or since the message ends there
  Loop,  // the chain has no end, or goes through a name that is none
};

// RFC 1034, section 4.3.2, step 3a: the query goes on with the name that an alias leads to.  This
// holds for the first one that the registry answers for this client, or that a zone of
// upstream.zones or of a link has other servers for; and for the last one, where the message has an
// alias alone, or denies a name that other servers know.  Then the message's aliases up to there
// are added to `chain`.
Continuation continue_chain(const registry::View& view, const Asked& asked,
                            const Upstreams& upstreams, const CachedMessage& message,
                            Freshness freshness, AliasChain& chain);

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
