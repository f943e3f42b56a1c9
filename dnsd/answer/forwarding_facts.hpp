// SPDX-License-Identifier: Apache-2.0
// Facts about the forwarding of a name, for operators: its upstream servers, their state, and its
// cache entry.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "resolver/cache/cache.hpp"
#include "resolver/forward/forwarder.hpp"
#include "resolver/forward/upstream_state.hpp"

namespace meshdns::dnsd {

struct ForwardingFacts {
  std::string servers;  // "10.0.0.53:53, 10.0.1.53:53 (upstream.zones, corp.example)"
  // Known to the running daemon alone:
  std::string cached;               // "2 records, fresh for 240 s more"; empty: not known
  std::vector<std::string> health;  // "10.0.0.53:53 is up, answers in 1.2 ms", a server each
};

// Describes the forwarding of one question; `wire_name`: lower case.
using DescribeForwarding =
    std::function<ForwardingFacts(std::string_view wire_name, wire::Type type)>;

// The servers alone.
std::string describe_route(const Forwarder::Route& route);

// "2 records, for 240 s more (from 10.0.0.53:53)", or that there is none.
std::string describe_entry(const Cache::Entry& entry, Millis now);

// `statuses`: of the servers in use; those of the route are described.
ForwardingFacts forwarding_facts(const Forwarder::Route& route,
                                 std::span<const UpstreamStatus> statuses,
                                 const Cache::Entry& entry, Millis now);

// All of it.  Any thread.  `wire_name`: lower case.
ForwardingFacts forwarding_facts(const Forwarder::Route& route, ForwardShared& shared,
                                 std::string_view wire_name, wire::Type type, Millis now);

}  // namespace meshdns::dnsd
