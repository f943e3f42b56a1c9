// SPDX-License-Identifier: Apache-2.0
// A DNS server on loopback that behaves as it is told, on the test's own loop.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dnsd/config/config.hpp"
#include "resolver/forward/random_pool.hpp"
#include "resolver/forward/reactor.hpp"
#include "resolver/wire/query_message.hpp"

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

struct Received {
  std::string name;     // lower-case text
  std::string spelled;  // wire form
  wire::Type type;
  std::uint16_t id;
  std::uint16_t port;  // of the source
  bool tcp;
  bool edns;
  bool recursion_desired;
  std::string cookie;
};

class FakeUpstream final : private SocketListener {
 public:
  explicit FakeUpstream(uv_loop_t* loop, Behaviour behaviour = Behaviour::Answer);
  ~FakeUpstream();

  UpstreamServer server() const;
  void behave(Behaviour behaviour) { behaviour_ = behaviour; }
  void behave(const std::string& name, Behaviour behaviour) { rules_[name] = behaviour; }
  // Stops and starts to listen on the same port; meanwhile the kernel refuses.
  void shut();
  void open();
  // Ends the TCP connections that are open now.
  enum class End : std::uint8_t { Close, Reset };
  void end_connections(End end);

  // Queries for names below example.org: probes are not counted.
  std::vector<Received> received;
  std::size_t count(std::string_view name) const;
  std::size_t connections = 0;
  std::uint32_t ttl = 300;
  bool answers_only_example_org = false;  // probes stay unanswered

 private:
  struct Connection;
  struct Later;
  class Acceptor;

  void on_socket(std::uint32_t events) override;
  void send_due();
  void handle(std::span<const std::uint8_t> query, std::uint16_t port,
              const std::weak_ptr<Connection>& connection,
              const std::vector<std::uint8_t>& address);
  void send(const std::vector<std::uint8_t>& message, const std::weak_ptr<Connection>& connection,
            const std::vector<std::uint8_t>& address, Millis delay = 0);
  void accept();

  Reactor reactor_;
  RandomPool random_;
  Behaviour behaviour_;
  std::map<std::string, Behaviour> rules_;
  std::uint16_t port_ = 0;
  SocketWatch udp_;
  std::unique_ptr<Acceptor> acceptor_;
  std::vector<std::shared_ptr<Connection>> open_;
  std::vector<std::unique_ptr<Later>> later_;
  Timer timer_;
};

}  // namespace meshdns::dnsd::test
