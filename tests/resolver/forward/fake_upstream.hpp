// SPDX-License-Identifier: Apache-2.0
// A scripted upstream that behaves as it is told: 192.0.2.1 for names below example.org, or one of
// the ways to go wrong that a forwarder must survive.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "dnsd/config/config.hpp"
#include "tests/upstream/scripted_upstream.hpp"

namespace meshdns::dnsd::test {

enum class Behaviour {
  Answer,         // one A record, 192.0.2.1, TTL 300
  Dead,           // silence
  Slow,           // the answer after 600 ms
  VerySlow,       // after 4 s
  Loss30,         // of 100 queries, 30 are lost
  WrongId,        // a lie with another id, the answer 30 ms later; so the next ones
  WrongQuestion,  // a lie about another name
  WrongType,
  WrongSource,   // a lie from another port
  NotAResponse,  // QR=0
  WrongOpcode,
  Garbage,              // octets
  Cut,                  // a reply cut amid a record, over any transport
  CutOverUdp,           // the same, over UDP only
  ForgedFlood,          // 40 lies over UDP and no answer there; TCP is honest
  Truncate,             // TC over UDP, 300 records over TCP
  TruncateThenTcp,      // TC over UDP, the answer over TCP
  TruncateThenLateTcp,  // the same, 40 ms late
  TruncateThenSlowTcp,  // the same, 1.3 s late: after the next try
  TruncateNoTcp,        // TC over UDP, TCP connections are cut
  TruncateCutOnce,      // the same for the first TCP connection, the answer on others
  TruncateThenHang,     // TC over UDP, silence over TCP
  ServFail,
  Refused,
  NotImp,
  NxDomain,
  NxDomainWithoutSoa,
  AliasLoop,
  TtlZero,
  TtlTopBit,
  LowerCase,  // does not keep the case of the question
  UpperCase,
  FormErrOnEdns,
  BareFormErrOnEdns,  // a header alone
  NearlyBareFormErr,  // headers that are not quite that, then the answer
  FormErrWithOptOnEdns,
  FormErrOnCookie,  // with OPT, as the three that follow
  NotImpOnCookie,
  RefusedOnCookie,
  BadVersOnCookie,
  FormErr,
  WrongCookie,       // a lie with another client cookie, then the answer
  BadCookie,         // BADCOOKIE until its server cookie comes back
  BadCookieOverUdp,  // BADCOOKIE to all queries over UDP, the answer over TCP
  WithCookie,        // the answer, with a cookie over any transport
  ForgedNoCookie,    // over UDP a lie without a cookie, the answer with one 30 ms later
  ForgedFormErr,     // the same with a bare FORMERR in place of the lie
  NoCookieNoTcp,     // the answer over UDP, TCP connections are cut
};

class FakeUpstream {
 public:
  using End = ScriptedUpstream::End;
  explicit FakeUpstream(uv_loop_t* loop, Behaviour behaviour = Behaviour::Answer);

  UpstreamServer server() const;
  void behave(Behaviour behaviour);
  void behave(const std::string& name, Behaviour behaviour);
  void set_ttl(std::uint32_t ttl);
  void shut() { scripted_.shut(); }
  void open() { scripted_.open(); }
  void end_connections(End end) { scripted_.end_connections(end); }
  std::size_t connections() const { return scripted_.connections(); }
  std::size_t count(std::string_view name) const;

  // Queries for names below example.org: probes are not counted.
  std::vector<Received> received;
  bool answers_only_example_org = false;  // probes stay unanswered

 private:
  bool on_query(const Received& query);
  void set_rules();

  ScriptedUpstream scripted_;
  Behaviour behaviour_;
  std::map<std::string, Behaviour> of_names_;
  std::uint32_t ttl_ = 300;
};

}  // namespace meshdns::dnsd::test
