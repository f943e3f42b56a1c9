// SPDX-License-Identifier: Apache-2.0
// Answers queries of class CH: the server's version and identity, the client's identity, and the
// explanation of a name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "dnsd/answer/forwarding_facts.hpp"
#include "dnsd/answer/query_settings.hpp"
#include "dnsd/kernel/kernel_feed.hpp"
#include "dnsd/net/query_sink.hpp"
#include "registry/snapshot/snapshot.hpp"
#include "resolver/wire/message_writer.hpp"
#include "resolver/wire/query_message.hpp"

namespace meshdns::dnsd {

// Says whether a client of class CH is a program of this machine, whose users are its operators.
enum class Origin : std::uint8_t {
  Here,  // on loopback; or it asks the address that it has, and is a socket of this machine
  Elsewhere,
  Unproven,  // asks over UDP the address that it has; over TCP it can be found
};
Origin origin_of(const Peer& client);

bool may_ask_chaos(ChaosAccess access, Origin client);

struct ChaosQuery {
  const wire::QueryMessage& query;
  const Peer& source;
  Origin origin;
  const registry::Snapshot& snapshot;
  const registry::Client& client;
  const QuerySettings& settings;
  DescribeForwarding forwarding = {};
  const KernelFeed* kernel = nullptr;
};

// Writes the answer: one TXT record a fact.  Types other than TXT and ANY are empty.
// REQUIRES: may_ask_chaos().
void answer_chaos(const ChaosQuery& chaos, wire::MessageWriter& writer);

}  // namespace meshdns::dnsd
