// SPDX-License-Identifier: Apache-2.0
// The scripted upstream: answers from records, misbehaves where a rule says so, and remembers
// queries.  It serves UDP, and TCP or TLS, on one port of 127.0.0.1, on the test's loop.  Records
// and rules mean the same as in tests/harness/fake_upstream.py.
#pragma once

#include <uv.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "resolver/wire/ldns.hpp"
#include "resolver/wire/types.hpp"
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

// In a record of a rule, "@" stands for the name that was asked.
struct UpstreamRule {
  // The queries that it applies to.
  std::string match = {};      // "www.example.org. A" or "*.example.org."; empty = every query
  std::string transport = {};  // empty = both
  // "edns", "options", "cookie", "plain": queries with OPT, an option, a cookie, or without OPT;
  // "new": those without our server cookie.  Empty = all.
  std::string when = {};
  int times = -1;     // queries that it still applies to; -1 = all
  int percent = 100;  // of them, by chance

  // Its effects.
  bool drop = false;    // no answer, and the connection ends
  bool silent = false;  // no answer
  std::uint64_t delay_ms = 0;
  std::string forge = {};  // what leaves first
  int copies = 1;          // of what is forged
  bool then = false;       // also the answer, later

  // The answer, where it is not the zone's.
  std::string rcode = {};
  bool truncate = false;
  std::vector<std::string> answer = {};
  std::vector<std::string> authority = {};
  std::vector<std::string> additional = {};
  bool formerr_on_edns = false;  // FORMERR without OPT to queries with OPT
  bool bare = false;             // of the answer, the header alone
  bool cut = false;              // its last record is not whole
  bool cookie = false;           // with our server cookie, where the query has a cookie
  enum class Spelling : std::uint8_t { Kept, Lower, Upper } spelling = Spelling::Kept;
};

// A query as it came.
struct Received {
  std::string name;     // lower-case text without a final dot
  std::string spelled;  // wire form
  wire::Type type;
  std::uint16_t id;
  std::uint16_t port;  // of the source, over UDP
  bool tcp;
  bool edns;
  bool recursion_desired;
  std::string cookie;
};

// The reply to a query, as a ScriptedUpstream makes it: what is forged, or else the answer.
// REQUIRES: the query can be parsed, and has one question.
std::vector<std::uint8_t> scripted_reply(std::span<const std::uint8_t> query,
                                         const UpstreamRule& rule, const UpstreamZone& zone,
                                         bool tcp);

class ScriptedUpstream {
 public:
  // `on_query` is called before a query is looked at; if it is false, nothing happens to the query.
  // REQUIRES: the loop outlives it.
  using QueryListener = std::function<bool(const Received&)>;
  enum class Streams : std::uint8_t { Tcp, Tls };
  ScriptedUpstream(uv_loop_t* loop, QueryListener on_query, Streams streams = Streams::Tcp);
  ~ScriptedUpstream();
  ScriptedUpstream(const ScriptedUpstream&) = delete;
  ScriptedUpstream& operator=(const ScriptedUpstream&) = delete;

  std::string server() const;  // "127.0.0.1:PORT"
  // Replaces what is answered from the next query on.
  void set(UpstreamZone zone, std::vector<UpstreamRule> rules);
  const UpstreamZone& zone() const { return zone_; }
  // Stops and starts to listen on the same port; meanwhile the kernel refuses.
  void shut();
  void open();
  // Ends the TCP connections that are open now.
  enum class End : std::uint8_t { Close, Reset };
  void end_connections(End end);
  std::size_t connections() const { return accepted_; }  // so far

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
    std::uint16_t port = 0;
    Send send;
    std::function<void()> close;
    Send send_from_other_port;
  };

  void handle(std::span<const std::uint8_t> wire, const Arrival& arrival);
  // The first rule that applies; one without effects if there is none.
  UpstreamRule rule_for(const ldns_pkt& query, const Received& received);
  void after(std::uint64_t delay_ms, std::function<void()> task);
  void accept();

  uv_loop_t* loop_;
  QueryListener on_query_;
  Streams streams_;
  uv_udp_t* udp_ = nullptr;       // freed by its close callback
  uv_tcp_t* listener_ = nullptr;  // freed by its close callback
  std::uint16_t port_ = 0;
  std::size_t accepted_ = 0;
  std::minstd_rand chance_;
  std::set<Connection*> connections_;
  std::set<Delayed*> delayed_;
  UpstreamZone zone_;
  std::vector<UpstreamRule> rules_;
  std::vector<std::string> asked_;
};

}  // namespace meshdns::dnsd::test
