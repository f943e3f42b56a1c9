// SPDX-License-Identifier: Apache-2.0
// The scripted upstream of the scenarios that run inside the test process: answers from records,
// misbehaves where a rule says so, and counts queries.  It serves UDP and TCP on one port of
// 127.0.0.1, on the test's loop.  Records and rules mean the same as in
// tests/harness/fake_upstream.py.
#pragma once

#include <uv.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "resolver/wire/ldns.hpp"
#include "tests/in_process/fake_loop.hpp"
#include "tests/upstream/records.hpp"

namespace meshdns::dnsd::test {

struct FreePacket {
  void operator()(ldns_pkt* packet) const { ldns_pkt_free(packet); }
};
using PacketPtr = std::unique_ptr<ldns_pkt, FreePacket>;

// Records by name and type, with wildcards.
class UpstreamZone {
 public:
  // Throws std::invalid_argument for text that is no record.
  explicit UpstreamZone(const std::vector<std::string>& lines = {});

  struct Reply {
    ldns_pkt_rcode rcode = LDNS_RCODE_NOERROR;
    std::vector<RecordPtr> answer;
    std::vector<RecordPtr> authority;
  };
  // `name` is in lower case.
  Reply answer(std::string name, ldns_rr_type type) const;

 private:
  using Types = std::map<ldns_rr_type, std::vector<RecordPtr>>;
  const Types* types_at(const std::string& name) const;
  RecordPtr soa_above(std::string name) const;

  std::map<std::string, Types> records_;
};

struct UpstreamRule {
  std::string match;      // "www.example.org. A" or "*.example.org."; empty = every query
  std::string transport;  // empty = both
  int times = -1;         // queries that it still applies to; -1 = all
  bool drop = false;
  std::uint64_t delay_ms = 0;
  std::string rcode;
  bool truncate = false;
  std::vector<std::string> answer;
  std::vector<std::string> authority;
  std::vector<std::string> additional;
  std::string forge;
  bool then = false;
  bool formerr_on_edns = false;
  std::string when;  // "edns", "options": queries that have these; empty = all
};

class ScriptedUpstream {
 public:
  // REQUIRES: the loop outlives it.
  explicit ScriptedUpstream(FakeLoop& loop);
  ~ScriptedUpstream();
  ScriptedUpstream(const ScriptedUpstream&) = delete;
  ScriptedUpstream& operator=(const ScriptedUpstream&) = delete;

  std::string server() const;  // "127.0.0.1:PORT"
  // Replaces what is answered from the next query on.
  void set(UpstreamZone zone, std::vector<UpstreamRule> rules);
  const UpstreamZone& zone() const { return zone_; }
  // Queries for `name` (lower case) so far.
  std::size_t received(const std::string& name) const;
  // All queries so far, as "www.example.org. A" with the name in lower case.
  const std::vector<std::string>& asked() const { return asked_; }

 private:
  struct Connection;
  struct Delayed;
  using Send = std::function<void(const std::vector<std::uint8_t>&)>;
  struct Arrival {
    bool tcp = false;
    Send send;
    std::function<void()> close;
    std::function<void(const std::vector<std::uint8_t>&)> send_from_other_port;
  };

  void handle(std::span<const std::uint8_t> wire, const Arrival& arrival);
  UpstreamRule* rule_for(const ldns_pkt& query, const std::string& name, ldns_rr_type type,
                         bool tcp);
  void after(std::uint64_t delay_ms, std::function<void()> task);
  void accept();

  FakeLoop& loop_;
  uv_udp_t* udp_;       // freed by its close callback
  uv_tcp_t* listener_;  // freed by its close callback
  std::uint16_t port_ = 0;
  std::set<Connection*> connections_;
  std::set<Delayed*> delayed_;
  UpstreamZone zone_;
  std::vector<UpstreamRule> rules_;
  std::vector<std::string> asked_;
};

}  // namespace meshdns::dnsd::test
