// SPDX-License-Identifier: Apache-2.0
#include "tests/resolver/forward/fake_upstream.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "registry/base/host_name.hpp"
#include "resolver/wire/octets.hpp"
#include "tests/resolver/cache/messages.hpp"

namespace meshdns::dnsd::test {
namespace {

using Octets = std::vector<std::uint8_t>;

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

int bound_socket(int type, std::uint16_t port) {
  const int fd = socket(AF_INET, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const int buffer = 1 << 22;
  setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
  const sockaddr_in address = loopback(port);
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    close(fd);
    return -1;
  }
  return fd;
}

std::uint16_t port_of(int fd) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.sin_port);
}

wire::ResponseMessage reply_to(const wire::QueryMessage& query, const std::string& address,
                               std::uint32_t ttl) {
  wire::ResponseMessage reply;
  reply.id = query.id;
  reply.question = question_of(query);
  reply.question_name.assign(reinterpret_cast<const char*>(query.question.data()),
                             query.qname_size);
  reply.has_edns = query.has_edns;
  wire::ResponseRecord record;
  record.owner = reply.question_name;
  record.type = wire::Type::A;
  record.ttl = ttl;
  record.rdata.assign(reinterpret_cast<const char*>(&IpAddress::parse(address)->octets()[12]), 4);
  if (query.qtype == wire::Type::A) reply.answer.push_back(record);
  return reply;
}

// Appends a cookie option to the OPT record, which is the last.
void add_cookie(Octets& message, const std::string& cookie) {
  message[message.size() - 1] = static_cast<std::uint8_t>(4 + cookie.size());
  message.insert(message.end(), {0, 10, 0, static_cast<std::uint8_t>(cookie.size())});
  message.insert(message.end(), cookie.begin(), cookie.end());
}

}  // namespace

struct FakeUpstream::Later {
  Octets message;
  std::weak_ptr<Connection> connection;
  Octets address;
  Millis at;
};

class FakeUpstream::Acceptor final : public SocketListener {
 public:
  Acceptor(FakeUpstream& owner, int fd)
      : owner_(owner), watch_(owner.reactor_, fd, EPOLLIN, *this) {}
  void on_socket(std::uint32_t) override { owner_.accept(); }
  int fd() const { return watch_.fd(); }

 private:
  FakeUpstream& owner_;
  SocketWatch watch_;
};

struct FakeUpstream::Connection final : public SocketListener,
                                        public std::enable_shared_from_this<Connection> {
  Connection(FakeUpstream& fake, int fd) : owner(fake), watch(fake.reactor_, fd, EPOLLIN, *this) {}
  void on_socket(std::uint32_t) override {
    const auto self = shared_from_this();
    std::array<std::uint8_t, 4096> octets;
    const ssize_t got = recv(watch.fd(), octets.data(), octets.size(), 0);
    if (got <= 0) {
      std::erase(owner.open_, self);
      return watch.reset();
    }
    in.insert(in.end(), octets.begin(), octets.begin() + got);
    while (in.size() >= 2 && in.size() >= 2u + wire::load_u16(in.data())) {
      const std::size_t size = wire::load_u16(in.data());
      const Octets query(in.begin() + 2, in.begin() + 2 + static_cast<std::ptrdiff_t>(size));
      in.erase(in.begin(), in.begin() + 2 + static_cast<std::ptrdiff_t>(size));
      owner.handle(query, 0, self, {});
      if (!watch) return;
    }
  }
  FakeUpstream& owner;
  SocketWatch watch;
  Octets in;
};

FakeUpstream::FakeUpstream(uv_loop_t* loop, Behaviour behaviour)
    : reactor_(loop), behaviour_(behaviour), timer_(reactor_, [this] { send_due(); }) {
  open();
}

FakeUpstream::~FakeUpstream() { shut(); }

UpstreamServer FakeUpstream::server() const {
  return *parse_upstream_server("127.0.0.1:" + std::to_string(port_));
}

void FakeUpstream::open() {
  for (int tries = 0; tries < 50; ++tries) {
    const int udp = bound_socket(SOCK_DGRAM, port_);
    if (udp < 0) continue;
    const int tcp = bound_socket(SOCK_STREAM, port_of(udp));
    if (tcp < 0) {
      close(udp);
      continue;
    }
    listen(tcp, 64);
    port_ = port_of(udp);
    udp_ = SocketWatch(reactor_, udp, EPOLLIN, *this);
    acceptor_ = std::make_unique<Acceptor>(*this, tcp);
    return;
  }
  FAIL() << "no free port";
}

void FakeUpstream::shut() {
  udp_.reset();
  acceptor_.reset();
  open_.clear();
}

void FakeUpstream::end_connections(End end) {
  for (const auto& each : open_) {
    const linger reset{1, 0};
    if (end == End::Reset)
      setsockopt(each->watch.fd(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    else
      shutdown(each->watch.fd(), SHUT_WR);
    each->watch.reset();
  }
  open_.clear();
}

std::size_t FakeUpstream::count(std::string_view name) const {
  return static_cast<std::size_t>(
      std::ranges::count_if(received, [&](const Received& each) { return each.name == name; }));
}

void FakeUpstream::accept() {
  const int fd = accept4(acceptor_->fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd < 0) return;
  ++connections;
  open_.push_back(std::make_shared<Connection>(*this, fd));
}

void FakeUpstream::on_socket(std::uint32_t) {
  for (int left = 256; left > 0; --left) {
    Octets query(4096);
    sockaddr_in from{};
    socklen_t size = sizeof from;
    const ssize_t got = recvfrom(udp_.fd(), query.data(), query.size(), 0,
                                 reinterpret_cast<sockaddr*>(&from), &size);
    if (got < 0) return;
    query.resize(static_cast<std::size_t>(got));
    const auto* const octets = reinterpret_cast<const std::uint8_t*>(&from);
    handle(query, ntohs(from.sin_port), {}, Octets(octets, octets + size));
  }
}

void FakeUpstream::send(const Octets& message, const std::weak_ptr<Connection>& connection,
                        const Octets& address, Millis delay) {
  if (delay > 0) {
    later_.push_back(std::make_unique<Later>(message, connection, address, reactor_.now() + delay));
    return timer_.start(
        std::ranges::min_element(later_, {}, [](const auto& l) { return l->at; })->get()->at);
  }
  if (!address.empty()) {
    if (udp_)
      sendto(udp_.fd(), message.data(), message.size(), 0,
             reinterpret_cast<const sockaddr*>(address.data()),
             static_cast<socklen_t>(address.size()));
    return;
  }
  const auto open = connection.lock();
  if (!open || !open->watch) return;
  Octets framed = {static_cast<std::uint8_t>(message.size() >> 8),
                   static_cast<std::uint8_t>(message.size())};
  framed.insert(framed.end(), message.begin(), message.end());
  ::send(open->watch.fd(), framed.data(), framed.size(), MSG_NOSIGNAL);
}

void FakeUpstream::send_due() {
  std::vector<std::unique_ptr<Later>> due;
  for (auto& each : later_)
    if (each->at <= reactor_.now()) due.push_back(std::move(each));
  std::erase(later_, nullptr);
  for (const auto& each : due) send(each->message, each->connection, each->address);
  if (!later_.empty())
    timer_.start(
        std::ranges::min_element(later_, {}, [](const auto& l) { return l->at; })->get()->at);
}

void FakeUpstream::handle(std::span<const std::uint8_t> octets, std::uint16_t port,
                          const std::weak_ptr<Connection>& connection, const Octets& address) {
  wire::QueryMessage query;
  ASSERT_EQ(wire::parse_query(octets, query), wire::ParseOutcome::Ok);
  const bool tcp = address.empty();
  const std::string name(query.qname());
  if (name.ends_with("example.org"))
    received.push_back(
        {name, std::string(reinterpret_cast<const char*>(query.question.data()), query.qname_size),
         query.qtype, query.id, port, tcp, query.has_edns, query.recursion_desired,
         std::string(reinterpret_cast<const char*>(query.edns.cookie.data()),
                     query.has_edns ? query.edns.cookie_length : 0)});
  if (answers_only_example_org && !name.ends_with("example.org")) return;
  const auto rule = rules_.find(name);
  Behaviour behaviour = rule != rules_.end() ? rule->second : behaviour_;
  const bool concerns_all = behaviour == Behaviour::Dead || behaviour == Behaviour::Slow ||
                            behaviour == Behaviour::Loss30 ||
                            behaviour == Behaviour::RefusedOnCookie;
  const bool has_cookies =
      behaviour == Behaviour::BadCookie || behaviour == Behaviour::BadCookieOverUdp ||
      behaviour == Behaviour::WithCookie || behaviour == Behaviour::ForgedNoCookie ||
      behaviour == Behaviour::ForgedFormErr;
  if (!name.ends_with("example.org") && !concerns_all && rule == rules_.end())
    behaviour = has_cookies ? Behaviour::WithCookie : Behaviour::Answer;

  const wire::ResponseMessage truth = reply_to(query, "192.0.2.1", ttl);
  wire::ResponseMessage lie = reply_to(query, "203.0.113.66", ttl);
  const auto reply = [&](const wire::ResponseMessage& message, Millis delay = 0) {
    send(to_wire(message), connection, address, delay);
  };
  constexpr Millis kAfterLie = 30;
  wire::ResponseMessage other = truth;

  switch (behaviour) {
    case Behaviour::Answer:
      return reply(truth);
    case Behaviour::Dead:
      return;
    case Behaviour::Slow:
      return reply(truth, 600);
    case Behaviour::VerySlow:
      return reply(truth, 4'000);
    case Behaviour::Loss30:
      if (random_.below(100) < 30) return;
      return reply(truth);
    case Behaviour::WrongId:
      lie.id ^= 1;
      reply(lie);
      return reply(truth, kAfterLie);
    case Behaviour::WrongQuestion:
      lie.question_name[1] = lie.question_name[1] == 'x' ? 'y' : 'x';
      reply(lie);
      return reply(truth, kAfterLie);
    case Behaviour::WrongType:
      lie.question.type = wire::Type::Txt;
      reply(lie);
      return reply(truth, kAfterLie);
    case Behaviour::WrongSource: {
      const int stranger = bound_socket(SOCK_DGRAM, 0);
      const Octets message = to_wire(lie);
      sendto(stranger, message.data(), message.size(), 0,
             reinterpret_cast<const sockaddr*>(address.data()),
             static_cast<socklen_t>(address.size()));
      close(stranger);
      return reply(truth, kAfterLie);
    }
    case Behaviour::NotAResponse:
    case Behaviour::WrongOpcode: {
      Octets message = to_wire(lie);
      message[2] = behaviour == Behaviour::NotAResponse ? 0x01 : 0xa1;
      send(message, connection, address);
      return reply(truth, kAfterLie);
    }
    case Behaviour::Garbage: {
      Octets message(100);
      random_.fill(message.data(), message.size());
      send(message, connection, address);
      return reply(truth, kAfterLie);
    }
    case Behaviour::Cut:
    case Behaviour::CutOverUdp: {
      Octets message = to_wire(truth);
      if (behaviour == Behaviour::Cut || !tcp) message.resize(message.size() - 13);
      return send(message, connection, address);
    }
    case Behaviour::ForgedFlood:
      if (tcp) return reply(truth);
      for (std::uint16_t i = 1; i <= 40; ++i) {
        lie.id = static_cast<std::uint16_t>(query.id + i);
        reply(lie);
      }
      return;
    case Behaviour::TruncateThenTcp:
    case Behaviour::TruncateThenLateTcp:
    case Behaviour::TruncateThenSlowTcp:
      if (tcp)
        return reply(truth, behaviour == Behaviour::TruncateThenLateTcp   ? 40
                            : behaviour == Behaviour::TruncateThenSlowTcp ? 1'300
                                                                          : 0);
      other.answer.clear();
      other.truncated = true;
      return reply(other);
    case Behaviour::Truncate:
    case Behaviour::TruncateNoTcp:
    case Behaviour::TruncateCutOnce:
    case Behaviour::TruncateThenHang:
      if (!tcp) {
        other.answer.clear();
        other.truncated = true;
        return reply(other);
      }
      if (behaviour == Behaviour::TruncateThenHang) return;
      if (behaviour == Behaviour::TruncateCutOnce && connections > 1) return reply(truth);
      if (behaviour != Behaviour::Truncate) {
        if (const auto open = connection.lock()) open->watch.reset();
        return;
      }
      for (int i = 0; i < 299; ++i) {
        other.answer.push_back(truth.answer.front());
        other.answer.back().rdata[2] = static_cast<char>(i / 250 + 3);
        other.answer.back().rdata[3] = static_cast<char>(i % 250);
      }
      return reply(other);
    case Behaviour::ServFail:
    case Behaviour::Refused:
    case Behaviour::NotImp:
    case Behaviour::FormErr:
      other.answer.clear();
      other.rcode = behaviour == Behaviour::ServFail  ? wire::Rcode::ServFail
                    : behaviour == Behaviour::Refused ? wire::Rcode::Refused
                    : behaviour == Behaviour::NotImp  ? wire::Rcode::NotImp
                                                      : wire::Rcode::FormErr;
      return reply(other);
    case Behaviour::NxDomain:
    case Behaviour::NxDomainWithoutSoa:
      other.answer.clear();
      other.rcode = wire::Rcode::NxDomain;
      if (behaviour == Behaviour::NxDomain)
        other.authority.push_back(record("example.org. 60 SOA 60"));
      return reply(other);
    case Behaviour::AliasLoop:
      other.answer = {record("x.example.org. 60 CNAME y.example.org."),
                      record("y.example.org. 60 CNAME x.example.org.")};
      other.answer[0].owner = other.question_name;
      other.answer[1].rdata = other.question_name;
      return reply(other);
    case Behaviour::TtlZero:
    case Behaviour::TtlTopBit:
      other.answer.front().ttl = behaviour == Behaviour::TtlZero ? 0 : 0x80000005u;
      return reply(other);
    case Behaviour::LowerCase:
      other.question_name = to_lower(other.question_name);
      return reply(other);
    case Behaviour::UpperCase:
      for (char& c : other.question_name)
        if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
      return reply(other);
    case Behaviour::FormErrOnEdns:
    case Behaviour::BareFormErrOnEdns: {
      if (!query.has_edns) return reply(truth);
      other.answer.clear();
      other.has_edns = false;
      other.rcode = wire::Rcode::FormErr;
      Octets message = to_wire(other);
      if (behaviour == Behaviour::BareFormErrOnEdns) {
        message.resize(wire::kHeaderSize);
        message[5] = 0;
      }
      return send(message, connection, address);
    }
    case Behaviour::NearlyBareFormErr: {
      other.answer.clear();
      other.has_edns = false;
      other.rcode = wire::Rcode::FormErr;
      Octets bare = to_wire(other);
      bare.resize(wire::kHeaderSize);
      bare[5] = 0;
      // Another ID, a query, another opcode, another rcode, a question.
      for (const auto& [at, bits] : {std::pair{1, 1}, {2, 0x80}, {2, 0x08}, {3, 3}, {5, 1}}) {
        Octets near = bare;
        near[static_cast<std::size_t>(at)] ^= static_cast<std::uint8_t>(bits);
        send(near, connection, address);
      }
      return reply(truth);
    }
    case Behaviour::FormErrWithOptOnEdns:
    case Behaviour::FormErrOnCookie:
    case Behaviour::NotImpOnCookie:
    case Behaviour::RefusedOnCookie: {
      const bool refuses = behaviour == Behaviour::FormErrWithOptOnEdns
                               ? query.has_edns
                               : query.has_edns && query.edns.cookie_length > 0;
      if (!refuses) return reply(truth);
      other.answer.clear();
      other.rcode = behaviour == Behaviour::NotImpOnCookie    ? wire::Rcode::NotImp
                    : behaviour == Behaviour::RefusedOnCookie ? wire::Rcode::Refused
                                                              : wire::Rcode::FormErr;
      return reply(other);
    }
    case Behaviour::BadVersOnCookie: {
      if (!query.has_edns || query.edns.cookie_length == 0) return reply(truth);
      other.answer.clear();
      Octets message = to_wire(other);
      message[message.size() - 6] = 1;  // the upper bits of the rcode
      return send(message, connection, address);
    }
    case Behaviour::NoCookieNoTcp:
      if (!tcp) return reply(truth);
      if (const auto open = connection.lock()) open->watch.reset();
      return;
    case Behaviour::WithCookie:
    case Behaviour::ForgedNoCookie:
    case Behaviour::ForgedFormErr: {
      Octets message = to_wire(truth);
      const std::string sent(reinterpret_cast<const char*>(query.edns.cookie.data()),
                             query.has_edns ? query.edns.cookie_length : 0);
      if (!sent.empty()) add_cookie(message, sent.substr(0, 8) + "servercookie1234");
      if (tcp || behaviour == Behaviour::WithCookie) return send(message, connection, address);
      if (behaviour == Behaviour::ForgedFormErr) {
        // The forger also answers the query without EDNS that this reply may cause.
        if (!query.has_edns) return reply(lie);
        lie.answer.clear();
        lie.has_edns = false;
        lie.rcode = wire::Rcode::FormErr;
        Octets bare = to_wire(lie);
        bare.resize(wire::kHeaderSize);
        bare[5] = 0;
        send(bare, connection, address);
      } else {
        reply(lie);
      }
      return send(message, connection, address, kAfterLie);
    }
    case Behaviour::WrongCookie:
    case Behaviour::BadCookie:
    case Behaviour::BadCookieOverUdp: {
      const std::string sent = received.back().cookie;
      if (behaviour == Behaviour::BadCookieOverUdp && tcp) return reply(truth);
      if (behaviour != Behaviour::WrongCookie) {
        const std::string ours = sent.substr(0, 8) + "servercookie1234";
        if (sent != ours || behaviour == Behaviour::BadCookieOverUdp) {
          other.answer.clear();
          other.rcode = wire::Rcode::BadVers;  // the lower bits of BADCOOKIE (23 = 1 << 4 | 7)
          Octets message = to_wire(other);
          message[3] = static_cast<std::uint8_t>((message[3] & 0xf0) | 7);
          message[message.size() - 6] = 1;
          add_cookie(message, ours);
          return send(message, connection, address);
        }
        Octets message = to_wire(truth);
        add_cookie(message, ours);
        return send(message, connection, address);
      }
      Octets message = to_wire(lie);
      if (tcp) return reply(truth);
      add_cookie(message, "strange!");
      send(message, connection, address);
      return reply(truth, kAfterLie);
    }
  }
}

}  // namespace meshdns::dnsd::test
