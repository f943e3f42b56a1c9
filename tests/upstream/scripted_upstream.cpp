// SPDX-License-Identifier: Apache-2.0
#include "tests/upstream/scripted_upstream.hpp"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "tests/upstream/tls_end.hpp"

namespace meshdns::dnsd::test {
namespace {

constexpr const char* kDefaultSoa =
    ". 60 SOA ns.upstream.test. hostmaster.upstream.test. 1 7200 1800 86400 60";
constexpr std::uint32_t kDefaultTtl = 300;
constexpr std::uint64_t kAfterAForgery = 30;
constexpr std::string_view kServerCookie = "servercookie1234";
constexpr std::size_t kHeaderSize = 12;
constexpr std::size_t kClientCookieSize = 8;
constexpr std::size_t kCutOff = 13;
constexpr int kMaxChain = 64;
constexpr int kBindTries = 50;

using Octets = std::vector<std::uint8_t>;

std::string name_of(const ldns_rdf* name) {
  const std::unique_ptr<char, FreeText> text(ldns_rdf2str(name));
  return lower(text.get());
}

std::string parent_of(const std::string& name) {
  const std::size_t dot = name.find('.');
  return dot + 1 == name.size() ? "." : name.substr(dot + 1);
}

bool is_at_or_below(const std::string& name, const std::string& zone) {
  return zone == "." || name == zone || name.ends_with("." + zone);
}

RecordPtr renamed(const ldns_rr& record, const std::string& owner) {
  RecordPtr copy(ldns_rr_clone(&record));
  ldns_rdf_deep_free(ldns_rr_owner(copy.get()));
  ldns_rr_set_owner(copy.get(), ldns_dname_new_frm_str(owner.c_str()));
  return copy;
}

Octets wire_of(const ldns_pkt& packet) {
  std::uint8_t* wire = nullptr;
  std::size_t size = 0;
  if (ldns_pkt2wire(&wire, &packet, &size) != LDNS_STATUS_OK)
    throw std::logic_error("the scripted upstream cannot write its reply");
  Octets octets(wire, wire + size);
  std::free(wire);  // NOLINT: ldns allocates with malloc
  return octets;
}

// With the query's question, ID, RD and OPT.
PacketPtr reply_to(const ldns_pkt& query) {
  PacketPtr reply(ldns_pkt_new());
  ldns_pkt_set_id(reply.get(), ldns_pkt_id(&query));
  ldns_pkt_set_qr(reply.get(), true);
  ldns_pkt_set_ra(reply.get(), true);
  ldns_pkt_set_aa(reply.get(), true);  // as an authority: a forwarder must not pass it on
  ldns_pkt_set_rd(reply.get(), ldns_pkt_rd(&query));
  ldns_pkt_push_rr(reply.get(), LDNS_SECTION_QUESTION,
                   ldns_rr_clone(ldns_rr_list_rr(ldns_pkt_question(&query), 0)));
  if (ldns_pkt_edns(&query)) ldns_pkt_set_edns_udp_size(reply.get(), 1232);
  return reply;
}

// The begin and the end of the name in the question of a message that has one.
std::pair<std::size_t, std::size_t> question_in(std::span<const std::uint8_t> message) {
  std::size_t end = kHeaderSize;
  while (message[end] != 0) end += 1 + std::size_t{message[end]};
  return {kHeaderSize, end + 1};
}

std::string asked_name(const ldns_pkt& query) {
  const ldns_rdf* const owner = ldns_rr_owner(ldns_rr_list_rr(ldns_pkt_question(&query), 0));
  const std::unique_ptr<char, FreeText> text(ldns_rdf2str(owner));
  return text.get();
}

void push(ldns_pkt& packet, ldns_pkt_section section, const std::vector<std::string>& lines) {
  for (std::string line : lines) {
    for (std::size_t at = 0; (at = line.find('@')) != std::string::npos;)
      line.replace(at, 1, asked_name(packet));
    ldns_pkt_push_rr(&packet, section, parse_record(line, kDefaultTtl).release());
  }
}

// The cookie of a query; empty if it has none.
std::string cookie_of(const ldns_pkt& query) {
  const ldns_rdf* const options = ldns_pkt_edns_data(&query);
  if (options == nullptr) return {};
  const std::string_view data(reinterpret_cast<const char*>(ldns_rdf_data(options)),
                              ldns_rdf_size(options));
  for (std::size_t at = 0; at + 4 <= data.size();) {
    const auto u16 = [&](std::size_t i) {
      return std::size_t{static_cast<std::uint8_t>(data[i])} << 8 |
             static_cast<std::uint8_t>(data[i + 1]);
    };
    if (u16(at) == LDNS_EDNS_COOKIE) return std::string(data.substr(at + 4, u16(at + 2)));
    at += 4 + u16(at + 2);
  }
  return {};
}

std::string our_cookie(const ldns_pkt& query) {
  return cookie_of(query).substr(0, kClientCookieSize).append(kServerCookie);
}

void set_cookie(ldns_pkt& packet, const std::string& cookie) {
  std::string option{0, LDNS_EDNS_COOKIE, 0, static_cast<char>(cookie.size())};
  option += cookie;
  ldns_pkt_set_edns_data(&packet,
                         ldns_rdf_new_frm_data(LDNS_RDF_TYPE_NONE, option.size(), option.data()));
}

// BADVERS and BADCOOKIE have their upper bits in OPT.
void set_rcode(ldns_pkt& packet, const std::string& text) {
  static const std::map<std::string, unsigned> kRcodes = {
      {"NOERROR", 0}, {"FORMERR", 1}, {"SERVFAIL", 2}, {"NXDOMAIN", 3},
      {"NOTIMP", 4},  {"REFUSED", 5}, {"BADVERS", 16}, {"BADCOOKIE", 23}};
  const auto found = kRcodes.find(text);
  if (found == kRcodes.end()) throw std::invalid_argument("no rcode: " + text);
  ldns_pkt_set_rcode(&packet, static_cast<std::uint8_t>(found->second & 0xf));
  ldns_pkt_set_edns_extended_rcode(&packet, static_cast<std::uint8_t>(found->second >> 4));
}

void spell(Octets& message, UpstreamRule::Spelling spelling) {
  const auto [begin, end] = question_in(message);
  for (std::size_t i = begin; i < end; ++i) {
    const auto c = static_cast<char>(message[i]);
    if (spelling == UpstreamRule::Spelling::Lower && c >= 'A' && c <= 'Z') message[i] |= 0x20;
    if (spelling == UpstreamRule::Spelling::Upper && c >= 'a' && c <= 'z') message[i] &= 0xdf;
  }
}

// The header alone, with no question.
void strip(Octets& message) {
  message.resize(kHeaderSize);
  message[5] = 0;
}

Octets reply_wire(const ldns_pkt& query, const UpstreamRule& rule, const UpstreamZone& zone,
                  bool tcp) {
  const PacketPtr reply = reply_to(query);
  const ldns_rr& question = *ldns_rr_list_rr(ldns_pkt_question(&query), 0);
  const bool has_records =
      !rule.answer.empty() || !rule.authority.empty() || !rule.additional.empty();
  if (rule.formerr_on_edns) {
    ldns_pkt_set_edns_udp_size(reply.get(), 0);
    ldns_pkt_set_rcode(reply.get(), LDNS_RCODE_FORMERR);
  } else if (!rule.rcode.empty()) {
    set_rcode(*reply, rule.rcode);
  } else if (rule.truncate) {
    ldns_pkt_set_tc(reply.get(), true);
  } else if (!has_records) {
    auto found = zone.answer(name_of(ldns_rr_owner(&question)), ldns_rr_get_type(&question));
    ldns_pkt_set_rcode(reply.get(), found.rcode);
    for (RecordPtr& record : found.answer)
      ldns_pkt_push_rr(reply.get(), LDNS_SECTION_ANSWER, record.release());
    for (RecordPtr& record : found.authority)
      ldns_pkt_push_rr(reply.get(), LDNS_SECTION_AUTHORITY, record.release());
  }
  push(*reply, LDNS_SECTION_ANSWER, rule.answer);
  push(*reply, LDNS_SECTION_AUTHORITY, rule.authority);
  push(*reply, LDNS_SECTION_ADDITIONAL, rule.additional);
  const std::size_t udp_limit =
      ldns_pkt_edns(&query) ? std::max<std::size_t>(512, ldns_pkt_edns_udp_size(&query)) : 512;
  if (rule.cookie && !cookie_of(query).empty()) set_cookie(*reply, our_cookie(query));
  Octets wire = wire_of(*reply);
  if (rule.bare) strip(wire);
  if (rule.cut) wire.resize(wire.size() - kCutOff);
  if (rule.spelling != UpstreamRule::Spelling::Kept) spell(wire, rule.spelling);
  if (wire.size() <= (tcp ? 65535 : udp_limit)) return wire;
  const PacketPtr truncated = reply_to(query);
  ldns_pkt_set_tc(truncated.get(), true);
  return wire_of(*truncated);
}

// 203.0.113.66 for any question, with one thing about the message wrong; each copy is another.
Octets forged_wire(const ldns_pkt& query, const std::string& forgery, unsigned copy) {
  const PacketPtr lie = reply_to(query);
  ldns_rr* question = ldns_rr_list_rr(ldns_pkt_question(lie.get()), 0);
  std::string owner = name_of(ldns_rr_owner(question));
  if (forgery == "wrong_name") {
    owner = "wrong.example.net.";
    ldns_rdf_deep_free(ldns_rr_owner(question));
    ldns_rr_set_owner(question, ldns_dname_new_frm_str(owner.c_str()));
  }
  push(*lie, LDNS_SECTION_ANSWER, {owner + " 300 A 203.0.113.66"});
  if (forgery == "wrong_id")
    ldns_pkt_set_id(lie.get(), static_cast<std::uint16_t>(ldns_pkt_id(&query) + 1 + copy));
  if (forgery == "wrong_type") ldns_rr_set_type(question, LDNS_RR_TYPE_TXT);
  if (forgery == "not_a_response") ldns_pkt_set_qr(lie.get(), false);
  if (forgery == "wrong_opcode") ldns_pkt_set_opcode(lie.get(), LDNS_PACKET_NOTIFY);
  if (forgery == "strange_cookie") set_cookie(*lie, "strange!");
  if (forgery.ends_with("bare")) {
    ldns_pkt_set_edns_udp_size(lie.get(), 0);
    ldns_pkt_set_rcode(lie.get(), LDNS_RCODE_FORMERR);
  }
  Octets wire = wire_of(*lie);
  if (forgery.ends_with("bare")) strip(wire);
  if (forgery == "nearly_bare") {
    // Another ID, a query, another opcode, another rcode, a question.
    constexpr std::pair<std::size_t, std::uint8_t> kNear[] = {
        {1, 1}, {2, 0x80}, {2, 0x08}, {3, 3}, {5, 1}};
    wire[kNear[copy].first] ^= kNear[copy].second;
  }
  if (forgery == "cut") wire.resize(wire.size() - 2);
  if (forgery == "garbage") {
    wire.resize(2);
    for (int i = 0; i < 60; ++i) wire.push_back(static_cast<std::uint8_t>(i * 7 + 13));
  }
  return wire;
}

template <typename Handle>
void close_and_delete(Handle* handle) {
  uv_close(reinterpret_cast<uv_handle_t*>(handle),
           [](uv_handle_t* closed) { delete reinterpret_cast<Handle*>(closed); });
}

uv_buf_t buffer_of(const Octets& octets) {
  return uv_buf_init(const_cast<char*>(reinterpret_cast<const char*>(octets.data())),
                     static_cast<unsigned>(octets.size()));
}

void allocate(uv_handle_t*, std::size_t, uv_buf_t* buffer) {
  static std::array<char, 65536> memory;  // used up within the callback that follows
  *buffer = uv_buf_init(memory.data(), memory.size());
}

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

// -1 if the port is in use.
int bound_socket(int type, std::uint16_t port) {
  const int fd = socket(AF_INET, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) throw std::runtime_error("no file descriptor is left");
  const int on = 1;
  if (type == SOCK_STREAM) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const int buffer = 1 << 22;
  setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
  const sockaddr_in address = loopback(port);
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return fd;
  close(fd);
  return -1;
}

std::uint16_t port_of(int fd) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.sin_port);
}

}  // namespace

UpstreamZone::UpstreamZone(const std::vector<std::string>& lines) {
  const auto add = [this](const std::string& line) {
    RecordPtr record = parse_record(line, kDefaultTtl);
    records_[name_of(ldns_rr_owner(record.get()))][ldns_rr_get_type(record.get())].push_back(
        std::move(record));
  };
  add(kDefaultSoa);
  for (const std::string& line : lines) add(line);
}

UpstreamZone::Reply UpstreamZone::answer(std::string name, ldns_rr_type type) const {
  Reply reply;
  for (int i = 0; i < kMaxChain; ++i) {
    const Types* const types = types_at(name);
    if (types == nullptr) {
      reply.rcode = LDNS_RCODE_NXDOMAIN;
      break;
    }
    const auto alias = types->find(LDNS_RR_TYPE_CNAME);
    if (alias != types->end() && type != LDNS_RR_TYPE_CNAME) {
      reply.answer.push_back(renamed(*alias->second.front(), name));
      name = name_of(ldns_rr_rdf(alias->second.front().get(), 0));
      continue;
    }
    const auto records = types->find(type);
    if (records == types->end()) break;
    for (const RecordPtr& record : records->second) reply.answer.push_back(renamed(*record, name));
    return reply;
  }
  reply.authority.push_back(soa_above(name));
  return reply;
}

const UpstreamZone::Types* UpstreamZone::types_at(const std::string& name) const {
  static const Types kNone;
  const auto exact = records_.find(name);
  if (exact != records_.end() && name != ".") return &exact->second;
  for (std::string parent = name; parent != ".";) {
    parent = parent_of(parent);
    const auto wildcard = records_.find("*." + (parent == "." ? "" : parent));
    if (wildcard != records_.end()) return &wildcard->second;
  }
  const bool has_names_below = std::ranges::any_of(
      records_, [&](const auto& item) { return is_at_or_below(item.first, name); });
  return has_names_below ? &kNone : nullptr;
}

RecordPtr UpstreamZone::soa_above(std::string name) const {
  for (;; name = parent_of(name)) {
    const auto types = records_.find(name);
    if (types == records_.end()) continue;
    const auto soa = types->second.find(LDNS_RR_TYPE_SOA);
    if (soa != types->second.end()) return RecordPtr(ldns_rr_clone(soa->second.front().get()));
  }
}

std::vector<std::uint8_t> scripted_reply(std::span<const std::uint8_t> query,
                                         const UpstreamRule& rule, const UpstreamZone& zone,
                                         bool tcp) {
  ldns_pkt* parsed = nullptr;
  if (ldns_wire2pkt(&parsed, query.data(), query.size()) != LDNS_STATUS_OK)
    throw std::invalid_argument("no query");
  const PacketPtr owned(parsed);
  if (!rule.forge.empty()) return forged_wire(*parsed, rule.forge, 0);
  return reply_wire(*parsed, rule, zone, tcp);
}

struct ScriptedUpstream::Connection {
  uv_tcp_t handle;
  ScriptedUpstream* owner = nullptr;
  std::unique_ptr<TlsEnd> tls = {};  // null over TCP
  Octets in = {};

  void close(End end = End::Close) {
    if (owner != nullptr) owner->connections_.erase(this);
    owner = nullptr;
    if (uv_is_closing(reinterpret_cast<uv_handle_t*>(&handle)) != 0) return;
    const auto free = [](uv_handle_t* closed) { delete static_cast<Connection*>(closed->data); };
    if (end == End::Reset)
      uv_tcp_close_reset(&handle, free);
    else
      uv_close(reinterpret_cast<uv_handle_t*>(&handle), free);
  }
  void send(const Octets& message) {
    Octets framed = {static_cast<std::uint8_t>(message.size() >> 8),
                     static_cast<std::uint8_t>(message.size())};
    framed.insert(framed.end(), message.begin(), message.end());
    if (tls == nullptr) return write(framed);
    tls->write(framed);
    write(tls->take_sealed());
  }
  void write(const Octets& octets) {
    const uv_buf_t buffer = buffer_of(octets);
    if (!octets.empty()) uv_try_write(reinterpret_cast<uv_stream_t*>(&handle), &buffer, 1);
  }
  void receive(std::span<const char> octets) {
    if (tls == nullptr) {
      in.insert(in.end(), octets.begin(), octets.end());
    } else {
      tls->put({reinterpret_cast<const std::uint8_t*>(octets.data()), octets.size()});
      tls->read(in);
      write(tls->take_sealed());
    }
    take_messages();
  }
  void take_messages() {
    while (owner != nullptr && in.size() >= 2) {
      const std::size_t size = static_cast<std::size_t>(in[0]) << 8 | in[1];
      if (in.size() < 2 + size) return;
      const Octets query(in.begin() + 2, in.begin() + 2 + static_cast<std::ptrdiff_t>(size));
      in.erase(in.begin(), in.begin() + 2 + static_cast<std::ptrdiff_t>(size));
      // The connection may be gone by the time that a delayed reply is due.
      ScriptedUpstream* const upstream = owner;
      const auto if_open = [this, upstream](auto&& act) {
        if (upstream->connections_.contains(this)) act();
      };
      upstream->handle(query, {.tcp = true,
                               .port = 0,
                               .send = [=, this](const Octets& m) { if_open([&] { send(m); }); },
                               .close = [=, this] { if_open([&] { close(); }); },
                               .send_from_other_port = [](const Octets&) {}});
    }
  }
};

struct ScriptedUpstream::Delayed {
  uv_timer_t timer;
  ScriptedUpstream* owner = nullptr;
  std::function<void()> task;

  void close() {
    owner->delayed_.erase(this);
    uv_close(reinterpret_cast<uv_handle_t*>(&timer),
             [](uv_handle_t* closed) { delete static_cast<Delayed*>(closed->data); });
  }
};

ScriptedUpstream::ScriptedUpstream(uv_loop_t* loop, QueryListener on_query, Streams streams)
    : loop_(loop), on_query_(std::move(on_query)), streams_(streams) {
  open();
}

void ScriptedUpstream::open() {
  // The kernel chooses a port for UDP that may be in use for TCP; try until both are free.
  int udp = -1;
  int tcp = -1;
  for (int i = 0; i < kBindTries && udp < 0; ++i) {
    udp = bound_socket(SOCK_DGRAM, port_);
    tcp = udp < 0 ? -1 : bound_socket(SOCK_STREAM, port_of(udp));
    if (tcp < 0 && udp >= 0) close(std::exchange(udp, -1));
  }
  if (udp < 0) throw std::runtime_error("the scripted upstream finds no free port");
  port_ = port_of(udp);
  udp_ = new uv_udp_t;
  listener_ = new uv_tcp_t;
  uv_udp_init(loop_, udp_);
  uv_tcp_init(loop_, listener_);
  udp_->data = this;
  listener_->data = this;
  uv_udp_open(udp_, udp);
  uv_tcp_open(listener_, tcp);
  uv_udp_recv_start(
      udp_, allocate,
      [](uv_udp_t* handle, ssize_t size, const uv_buf_t* buffer, const sockaddr* from, unsigned) {
        if (size <= 0 || from == nullptr) return;
        sockaddr_in peer{};
        std::copy_n(reinterpret_cast<const char*>(from), sizeof peer,
                    reinterpret_cast<char*>(&peer));
        const Octets query(buffer->base, buffer->base + size);
        auto* const self = static_cast<ScriptedUpstream*>(handle->data);
        const auto send = [self, handle, peer](const Octets& message) {
          const uv_buf_t out = buffer_of(message);
          if (self->udp_ == handle)
            uv_udp_try_send(handle, &out, 1, reinterpret_cast<const sockaddr*>(&peer));
        };
        const auto send_from_other_port = [peer](const Octets& message) {
          const int other = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
          if (other < 0) return;
          sendto(other, message.data(), message.size(), 0, reinterpret_cast<const sockaddr*>(&peer),
                 sizeof peer);
          ::close(other);
        };
        self->handle(query, {.tcp = false,
                             .port = ntohs(peer.sin_port),
                             .send = send,
                             .close = [] {},
                             .send_from_other_port = send_from_other_port});
      });
  uv_listen(reinterpret_cast<uv_stream_t*>(listener_), 64, [](uv_stream_t* stream, int) {
    static_cast<ScriptedUpstream*>(stream->data)->accept();
  });
}

ScriptedUpstream::~ScriptedUpstream() {
  while (!delayed_.empty()) (*delayed_.begin())->close();
  shut();
}

void ScriptedUpstream::shut() {
  end_connections(End::Close);
  if (udp_ == nullptr) return;
  close_and_delete(std::exchange(udp_, nullptr));
  close_and_delete(std::exchange(listener_, nullptr));
}

void ScriptedUpstream::end_connections(End end) {
  while (!connections_.empty()) (*connections_.begin())->close(end);
}

std::string ScriptedUpstream::server() const { return "127.0.0.1:" + std::to_string(port_); }

void ScriptedUpstream::set(UpstreamZone zone, std::vector<UpstreamRule> rules) {
  zone_ = std::move(zone);
  rules_ = std::move(rules);
}

std::size_t ScriptedUpstream::received(const std::string& name) const {
  return static_cast<std::size_t>(std::ranges::count_if(
      asked_, [&](const std::string& each) { return each.starts_with(name + " "); }));
}

void ScriptedUpstream::accept() {
  auto* const connection = new Connection;
  uv_tcp_init(loop_, &connection->handle);
  connection->handle.data = connection;
  connection->owner = this;
  connections_.insert(connection);
  auto* const stream = reinterpret_cast<uv_stream_t*>(&connection->handle);
  if (uv_accept(reinterpret_cast<uv_stream_t*>(listener_), stream) != 0) return connection->close();
  ++accepted_;
  if (streams_ == Streams::Tls) connection->tls = std::make_unique<TlsEnd>();
  uv_read_start(stream, allocate, [](uv_stream_t* source, ssize_t size, const uv_buf_t* buffer) {
    auto* const self = static_cast<Connection*>(source->data);
    if (size < 0) return self->close();
    self->receive({buffer->base, static_cast<std::size_t>(size)});
  });
}

void ScriptedUpstream::after(std::uint64_t delay_ms, std::function<void()> task) {
  if (delay_ms == 0) return task();
  auto* const delayed = new Delayed;
  uv_timer_init(loop_, &delayed->timer);
  delayed->timer.data = delayed;
  delayed->owner = this;
  delayed->task = std::move(task);
  delayed_.insert(delayed);
  const auto run = [](uv_timer_t* timer) {
    auto* const self = static_cast<Delayed*>(timer->data);
    const auto due = std::move(self->task);
    self->close();
    due();
  };
  uv_timer_start(&delayed->timer, run, delay_ms, 0);
}

UpstreamRule ScriptedUpstream::rule_for(const ldns_pkt& query, const Received& received) {
  const std::string name = received.name + ".";
  const auto applies = [&](const UpstreamRule& rule) {
    if (rule.times == 0) return false;
    if (!rule.transport.empty() && rule.transport != (received.tcp ? "tcp" : "udp")) return false;
    if ((rule.formerr_on_edns || rule.when == "edns") && !received.edns) return false;
    if (rule.when == "plain" && received.edns) return false;
    if (rule.when == "options" && ldns_pkt_edns_data(&query) == nullptr) return false;
    if (rule.when == "cookie" && received.cookie.empty()) return false;
    if (rule.when == "new" && received.cookie == our_cookie(query)) return false;
    const std::size_t space = std::min(rule.match.find(' '), rule.match.size());
    const std::string owner = lower(rule.match.substr(0, space));
    if (space < rule.match.size() &&
        ldns_get_rr_type_by_name(rule.match.substr(space + 1).c_str()) !=
            static_cast<ldns_rr_type>(received.type))
      return false;
    if (!owner.empty() &&
        !(owner.starts_with("*.") ? is_at_or_below(name, owner.substr(2)) : name == owner))
      return false;
    return rule.percent == 100 || static_cast<int>(chance_() % 100) < rule.percent;
  };
  const auto found = std::ranges::find_if(rules_, applies);
  if (found == rules_.end()) return {};
  if (found->times > 0) --found->times;
  return *found;
}

void ScriptedUpstream::handle(std::span<const std::uint8_t> wire, const Arrival& arrival) {
  ldns_pkt* parsed = nullptr;
  if (ldns_wire2pkt(&parsed, wire.data(), wire.size()) != LDNS_STATUS_OK) return;
  const PacketPtr query(parsed);
  if (ldns_rr_list_rr_count(ldns_pkt_question(parsed)) != 1) return;
  const ldns_rr_type rr_type = ldns_rr_get_type(ldns_rr_list_rr(ldns_pkt_question(parsed), 0));
  const auto [begin, end] = question_in(wire);
  Received received{
      .name = lower(asked_name(*query)),
      .spelled = std::string(wire.begin() + static_cast<std::ptrdiff_t>(begin),
                             wire.begin() + static_cast<std::ptrdiff_t>(end)),
      .type = static_cast<wire::Type>(rr_type),
      .id = ldns_pkt_id(parsed),
      .port = arrival.port,
      .tcp = arrival.tcp,
      .edns = ldns_pkt_edns(parsed),
      .recursion_desired = ldns_pkt_rd(parsed),
      .cookie = cookie_of(*query),
  };
  const std::unique_ptr<char, FreeText> type(ldns_rr_type2str(rr_type));
  asked_.push_back(received.name + " " + type.get());
  received.name.pop_back();
  if (!on_query_(received)) return;
  const UpstreamRule rule = rule_for(*query, received);
  if (rule.drop) return arrival.close();
  if (rule.silent) return;
  std::uint64_t delay = rule.delay_ms;
  if (!rule.forge.empty()) {
    const bool elsewhere = rule.forge == "wrong_port";
    for (int i = 0; i < rule.copies; ++i)
      after(delay,
            [send = elsewhere ? arrival.send_from_other_port : arrival.send,
             lie = forged_wire(*query, rule.forge, static_cast<unsigned>(i))] { send(lie); });
    if (!rule.then) return;
    delay += kAfterAForgery;
  }
  // Written now: the records may be others when a delayed reply is due.
  after(delay, [send = arrival.send, reply = reply_wire(*query, rule, zone_, arrival.tcp)] {
    send(reply);
  });
}

}  // namespace meshdns::dnsd::test
