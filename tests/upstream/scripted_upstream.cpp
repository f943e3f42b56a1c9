// SPDX-License-Identifier: Apache-2.0
#include "tests/upstream/scripted_upstream.hpp"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <utility>

namespace meshdns::dnsd::test {
namespace {

constexpr const char* kDefaultSoa =
    ". 60 SOA ns.upstream.test. hostmaster.upstream.test. 1 7200 1800 86400 60";
constexpr std::uint32_t kDefaultTtl = 300;
constexpr std::uint64_t kAfterAForgery = 60;
// A server whose replies take no time at all looks as if it had not been asked.
constexpr std::chrono::milliseconds kRoundTrip{1};
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

void push(ldns_pkt& packet, ldns_pkt_section section, const std::vector<std::string>& lines) {
  for (const std::string& line : lines)
    ldns_pkt_push_rr(&packet, section, parse_record(line, kDefaultTtl).release());
}

ldns_pkt_rcode rcode_from(const std::string& text) {
  static const std::map<std::string, ldns_pkt_rcode> kRcodes = {
      {"NOERROR", LDNS_RCODE_NOERROR},   {"FORMERR", LDNS_RCODE_FORMERR},
      {"SERVFAIL", LDNS_RCODE_SERVFAIL}, {"NXDOMAIN", LDNS_RCODE_NXDOMAIN},
      {"NOTIMP", LDNS_RCODE_NOTIMPL},    {"REFUSED", LDNS_RCODE_REFUSED}};
  const auto found = kRcodes.find(text);
  if (found == kRcodes.end()) throw std::invalid_argument("no rcode: " + text);
  return found->second;
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
    ldns_pkt_set_rcode(reply.get(), rcode_from(rule.rcode));
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
  Octets wire = wire_of(*reply);
  if (wire.size() <= (tcp ? 65535 : udp_limit)) return wire;
  const PacketPtr truncated = reply_to(query);
  ldns_pkt_set_tc(truncated.get(), true);
  return wire_of(*truncated);
}

// 203.0.113.66 for any question, with one thing about the message wrong.
Octets forged_wire(const ldns_pkt& query, const std::string& forgery) {
  const PacketPtr lie = reply_to(query);
  ldns_rr* question = ldns_rr_list_rr(ldns_pkt_question(lie.get()), 0);
  std::string owner = name_of(ldns_rr_owner(question));
  if (forgery == "wrong_name") {
    owner = "wrong.example.net.";
    ldns_rdf_deep_free(ldns_rr_owner(question));
    ldns_rr_set_owner(question, ldns_dname_new_frm_str(owner.c_str()));
  }
  push(*lie, LDNS_SECTION_ANSWER, {owner + " 300 A 203.0.113.66"});
  if (forgery == "wrong_id") ldns_pkt_set_id(lie.get(), ldns_pkt_id(&query) ^ 0x5555);
  if (forgery == "wrong_type") ldns_rr_set_type(question, LDNS_RR_TYPE_TXT);
  if (forgery == "not_a_response") ldns_pkt_set_qr(lie.get(), false);
  if (forgery == "wrong_opcode") ldns_pkt_set_opcode(lie.get(), LDNS_PACKET_NOTIFY);
  Octets wire = wire_of(*lie);
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

struct ScriptedUpstream::Connection {
  uv_tcp_t handle;
  ScriptedUpstream* owner = nullptr;
  Octets in;

  void close() {
    if (owner != nullptr) owner->connections_.erase(this);
    owner = nullptr;
    if (uv_is_closing(reinterpret_cast<uv_handle_t*>(&handle)) != 0) return;
    uv_close(reinterpret_cast<uv_handle_t*>(&handle),
             [](uv_handle_t* closed) { delete static_cast<Connection*>(closed->data); });
  }
  void send(const Octets& message) {
    Octets framed = {static_cast<std::uint8_t>(message.size() >> 8),
                     static_cast<std::uint8_t>(message.size())};
    framed.insert(framed.end(), message.begin(), message.end());
    const uv_buf_t buffer = buffer_of(framed);
    uv_try_write(reinterpret_cast<uv_stream_t*>(&handle), &buffer, 1);
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
                               .send = [=, this](const Octets& m) { if_open([&] { send(m); }); },
                               .close = [=, this] { if_open([&] { close(); }); },
                               .send_from_other_port = {}});
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

ScriptedUpstream::ScriptedUpstream(FakeLoop& loop)
    : loop_(loop), udp_(new uv_udp_t), listener_(new uv_tcp_t) {
  uv_udp_init(loop.get(), udp_);
  uv_tcp_init(loop.get(), listener_);
  udp_->data = this;
  listener_->data = this;
  // The kernel chooses a port for UDP that may be in use for TCP; try until both are free.
  for (int i = 0; i < kBindTries && port_ == 0; ++i) {
    const int udp = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    const int tcp = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (udp < 0 || tcp < 0) throw std::runtime_error("no file descriptor is left");
    sockaddr_in address = loopback(0);
    socklen_t size = sizeof address;
    if (bind(udp, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
        getsockname(udp, reinterpret_cast<sockaddr*>(&address), &size) == 0 &&
        bind(tcp, reinterpret_cast<sockaddr*>(&address), size) == 0) {
      port_ = ntohs(address.sin_port);
      uv_udp_open(udp_, udp);
      uv_tcp_open(listener_, tcp);
    } else {
      close(udp);
      close(tcp);
    }
  }
  if (port_ == 0) throw std::runtime_error("the scripted upstream finds no free port");
  uv_udp_recv_start(
      udp_, allocate,
      [](uv_udp_t* handle, ssize_t size, const uv_buf_t* buffer, const sockaddr* from, unsigned) {
        if (size <= 0 || from == nullptr) return;
        sockaddr_in peer{};
        std::copy_n(reinterpret_cast<const char*>(from), sizeof peer,
                    reinterpret_cast<char*>(&peer));
        const Octets query(buffer->base, buffer->base + size);
        auto* const self = static_cast<ScriptedUpstream*>(handle->data);
        const auto send = [handle, peer](const Octets& message) {
          const uv_buf_t out = buffer_of(message);
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
                             .send = send,
                             .close = [] {},
                             .send_from_other_port = send_from_other_port});
      });
  uv_listen(reinterpret_cast<uv_stream_t*>(listener_), 64, [](uv_stream_t* stream, int) {
    static_cast<ScriptedUpstream*>(stream->data)->accept();
  });
}

ScriptedUpstream::~ScriptedUpstream() {
  while (!connections_.empty()) (*connections_.begin())->close();
  while (!delayed_.empty()) (*delayed_.begin())->close();
  close_and_delete(udp_);
  close_and_delete(listener_);
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
  uv_tcp_init(loop_.get(), &connection->handle);
  connection->handle.data = connection;
  connection->owner = this;
  connections_.insert(connection);
  auto* const stream = reinterpret_cast<uv_stream_t*>(&connection->handle);
  if (uv_accept(reinterpret_cast<uv_stream_t*>(listener_), stream) != 0) return connection->close();
  uv_read_start(stream, allocate, [](uv_stream_t* source, ssize_t size, const uv_buf_t* buffer) {
    auto* const self = static_cast<Connection*>(source->data);
    if (size < 0) return self->close();
    self->in.insert(self->in.end(), buffer->base, buffer->base + size);
    self->take_messages();
  });
}

void ScriptedUpstream::after(std::uint64_t delay_ms, std::function<void()> task) {
  if (delay_ms == 0) return task();
  auto* const delayed = new Delayed;
  uv_timer_init(loop_.get(), &delayed->timer);
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

UpstreamRule* ScriptedUpstream::rule_for(const ldns_pkt& query, const std::string& name,
                                         ldns_rr_type type, bool tcp) {
  for (UpstreamRule& rule : rules_) {
    if (rule.times == 0) continue;
    if (!rule.transport.empty() && rule.transport != (tcp ? "tcp" : "udp")) continue;
    if ((rule.formerr_on_edns || rule.when == "edns") && !ldns_pkt_edns(&query)) continue;
    if (rule.when == "options" && ldns_pkt_edns_data(&query) == nullptr) continue;
    const std::size_t space = std::min(rule.match.find(' '), rule.match.size());
    const std::string owner = lower(rule.match.substr(0, space));
    if (space < rule.match.size() &&
        ldns_get_rr_type_by_name(rule.match.substr(space + 1).c_str()) != type)
      continue;
    const bool matches =
        owner.empty() ||
        (owner.starts_with("*.") ? is_at_or_below(name, owner.substr(2)) : name == owner);
    if (!matches) continue;
    if (rule.times > 0) --rule.times;
    return &rule;
  }
  return nullptr;
}

void ScriptedUpstream::handle(std::span<const std::uint8_t> wire, const Arrival& arrival) {
  ldns_pkt* parsed = nullptr;
  if (ldns_wire2pkt(&parsed, wire.data(), wire.size()) != LDNS_STATUS_OK) return;
  const std::shared_ptr<ldns_pkt> query(parsed, FreePacket{});
  if (ldns_rr_list_rr_count(ldns_pkt_question(parsed)) != 1) return;
  const ldns_rr& question = *ldns_rr_list_rr(ldns_pkt_question(parsed), 0);
  const std::string name = name_of(ldns_rr_owner(&question));
  const std::unique_ptr<char, FreeText> type(ldns_rr_type2str(ldns_rr_get_type(&question)));
  asked_.push_back(name + " " + type.get());
  loop_.move_clock(kRoundTrip);
  const UpstreamRule* const found =
      rule_for(*query, name, ldns_rr_get_type(&question), arrival.tcp);
  const UpstreamRule rule = found == nullptr ? UpstreamRule{} : *found;
  if (rule.drop) return arrival.close();
  std::uint64_t delay = rule.delay_ms;
  if (!rule.forge.empty()) {
    const bool elsewhere = rule.forge == "wrong_port";
    after(delay, [send = elsewhere ? arrival.send_from_other_port : arrival.send,
                  lie = forged_wire(*query, rule.forge)] { send(lie); });
    if (!rule.then) return;
    delay += kAfterAForgery;
  }
  // Written now: the records may be others when a delayed reply is due.
  after(delay, [send = arrival.send, reply = reply_wire(*query, rule, zone_, arrival.tcp)] {
    send(reply);
  });
}

}  // namespace meshdns::dnsd::test
