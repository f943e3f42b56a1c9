// SPDX-License-Identifier: Apache-2.0
#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "registry/base/host_name.hpp"
#include "resolver/forward/upstream.hpp"
#include "resolver/wire/octets.hpp"
#include "resolver/wire/upstream_query.hpp"

namespace meshdns::dnsd {
namespace {

// Datagrams read in one go: a flood must not keep the loop here.
constexpr int kReadsPerEvent = 16;

// A header alone that says FORMERR: what a server that cannot read EDNS may send.
bool is_bare_format_error(std::span<const std::uint8_t> datagram, std::uint16_t id) {
  return datagram.size() == wire::kHeaderSize && wire::load_u16(datagram.data()) == id &&
         (datagram[2] & 0xf8) == 0x80 && (datagram[3] & 0x0f) == 1 &&
         wire::load_u16(datagram.data() + 4) == 0;
}

constexpr std::size_t kWord = 8;

// Turns each lower-case letter of up to eight octets into a capital if its bit of `coins` is set.
// Without branches, which a processor would guess wrong half of the time.  Length octets are below
// 64, so none of them is taken for a letter.
void change_case(char* text, std::size_t size, std::uint8_t coins) {
  constexpr std::uint64_t kEach = 0x0101'0101'0101'0101;
  constexpr std::uint64_t kHigh = 0x80 * kEach;
  std::uint64_t word = 0;
  std::memcpy(&word, text, size);
  const std::uint64_t low = word & ~kHigh;
  const std::uint64_t from_a = low + (0x80 - 'a') * kEach;
  const std::uint64_t behind_z = low + (0x7f - 'z') * kEach;
  // Eight copies of the coins, nine bits apart: each octet has another one of them as its high bit.
  const std::uint64_t tails = coins * std::uint64_t{0x8040'2010'0804'0201};
  const std::uint64_t changed = from_a & ~behind_z & ~word & tails & kHigh;
  word ^= changed >> 2;
  std::memcpy(text, &word, size);
}

}  // namespace

Exchange::Exchange(std::shared_ptr<Upstream> upstream, const UpstreamQuestion& question,
                   Weak<ExchangeListener> listener)
    : Retirable(upstream->reactor_.retired()),
      upstream_(std::move(upstream)),
      question_(question),
      listener_(std::move(listener)) {
  upstream_->state().counts.in_flight.fetch_add(1, kRelaxed);
}

Exchange::~Exchange() = default;

void Exchange::on_retire() {
  upstream_->state().counts.in_flight.fetch_sub(1, kRelaxed);
  listener_ = {};
  watch_.reset();
  leave_stream();
  if (unanswered_) note_missing_cookie_lost();
}

void Exchange::leave_stream() {
  place_ = {};
  const Weak<StreamConnection> stream = std::exchange(stream_, {});
  if (stream) stream.get()->forget(id_, unanswered_);
}

SocketResult<void> Exchange::start() {
  const Millis now = upstream_->reactor_.now();
  edns_ = upstream_->state().edns().is_used(now);
  options_ = upstream_->state().edns_options().is_used(now);
  odd_case_ = upstream_->options_.case_randomization && upstream_->state().keeps_case(now);
  return upstream_->server().transport == UpstreamTransport::Tls ? send_on_stream()
                                                                 : send_datagram();
}

// draft-vixie-dnsext-dns0x20: each letter's case is one more bit for a forger to guess.
void Exchange::spell_name() {
  sent_name_ = question_.question.name;
  if (!odd_case_) return;
  std::array<std::uint8_t, wire::kMaxNameLength + 1> coins;
  upstream_->random_.fill(coins.data(), (sent_name_.size() + 7) / 8);
  char* const name = sent_name_.data();
  std::size_t at = 0;
  for (; at + kWord <= sent_name_.size(); at += kWord)
    change_case(name + at, kWord, coins.data()[at / kWord]);
  if (at < sent_name_.size())
    change_case(name + at, sent_name_.size() - at, coins.data()[at / kWord]);
}

std::size_t Exchange::build(std::span<std::uint8_t> buffer, std::uint16_t id, bool stream) {
  wire::UpstreamQuery query;
  query.id = id;
  query.name = sent_name_;
  query.type = question_.question.type;
  query.qclass = question_.question.qclass;
  query.recursion_desired = question_.recursion_desired;
  query.checking_disabled = question_.checking_disabled;
  // RFC 6840, section 5.7: asks for AD, which is believed over TLS only.
  query.authentic_data = upstream_->server().transport == UpstreamTransport::Tls;
  query.edns = edns_;
  query.dnssec_ok = question_.dnssec_ok;
  // A cookie guards against forgers who do not see the query: on a connection, it only shows
  // whether the upstream still knows cookies.
  std::string cookie;
  if (options_ && upstream_->options_.cookies && (!stream || cookie_missing_))
    cookie = upstream_->cookies_.option();
  query.cookie = cookie;
  query.keepalive = options_ && stream;
  cookie_sent_ = edns_ && !cookie.empty();
  options_sent_ = cookie_sent_ || (edns_ && query.keepalive);
  sent_at_ = upstream_->reactor_.now();
  sent_at_ns_ = uv_hrtime();
  ++packets_;
  upstream_->state().counts.queries.fetch_add(1, kRelaxed);
  return wire::build_query(buffer, query);
}

SocketResult<void> Exchange::send_datagram() {
  leave_stream();
  auto socket = upstream_->sockets_.take(*this);
  if (!socket) return std::unexpected(socket.error());
  watch_ = std::move(*socket);
  spell_name();
  id_ = upstream_->random_.u16();
  mismatches_ = 0;
  std::array<std::uint8_t, wire::kMaxQuerySize> query;
  const std::size_t size = build(query, id_, false);
  sent_ = send(watch_.fd(), query.data(), size, MSG_NOSIGNAL) >= 0;
  // A full buffer is a lost packet: the retry takes care of it.
  if (!sent_ && !is_shortage(errno)) return std::unexpected(socket_error("UDP", errno));
  return {};
}

SocketResult<void> Exchange::send_on_stream() {
  watch_.reset();
  leave_stream();
  ClientShares::Place place = upstream_->shares().take(question_.client);
  if (!place)
    return std::unexpected(SocketError{"this client has too many queries over TCP", true});
  auto connection = upstream_->connection();
  if (!connection) return std::unexpected(connection.error());
  place_ = std::move(place);
  sent_name_ = question_.question.name;
  std::array<std::uint8_t, wire::kMaxQuerySize> query;
  const std::size_t size = build(query, 0, true);
  upstream_->state().counts.tcp_queries.fetch_add(1, kRelaxed);
  sent_ = true;
  stream_ = Weak(**connection);
  id_ = (*connection)->send(std::span(query).first(size), Weak(*this));
  return {};
}

void Exchange::on_socket(std::uint32_t) {
  std::array<std::uint8_t, 4096> datagram;
  for (int left = kReadsPerEvent; left > 0; --left) {
    const ssize_t got = recv(watch_.fd(), datagram.data(), datagram.size(), 0);
    if (got < 0) {
      if (errno == EAGAIN || errno == EINTR) return;
      return break_off(socket_error("UDP", errno));
    }
    const std::span<const std::uint8_t> octets(datagram.data(), static_cast<std::size_t>(got));
    bool case_differs = false;
    const bool is_reply = wire::is_reply_to(octets, id_, sent_name_, question_.question.type,
                                            question_.question.qclass, &case_differs);
    // Only a random case tells a reply from a forger's: names are equal in any (RFC 4343).
    if (is_reply || (case_differs && !odd_case_)) return on_response(octets, false);
    if (!on_mismatch(octets, case_differs)) return;
  }
}

// Ignores a datagram that is not the reply and keeps waiting: one bad packet must not end the wait
// (RFC 5452, section 9.1).  After many of them, which mean that somebody forges replies, the
// question is asked over TCP.  True: still waiting on this socket.
bool Exchange::on_mismatch(std::span<const std::uint8_t> datagram, bool case_differs) {
  if (case_differs) {
    plain_again_ = true;
    odd_case_ = false;
    again(&Exchange::send_datagram);
    return false;
  }
  if (edns_ && !no_edns_again_ && is_bare_format_error(datagram, id_)) {
    if (cookie_sent_ && upstream_->cookies_.is_expected(upstream_->reactor_.now())) {
      ask_for_cookie();
      return false;
    }
    no_edns_again_ = true;
    edns_ = false;
    again(&Exchange::send_datagram);
    return false;
  }
  upstream_->state().counts.mismatched.fetch_add(1, kRelaxed);
  if (++mismatches_ < kMaxMismatches) return true;
  again(&Exchange::send_on_stream);
  return false;
}

bool Exchange::on_stream_message(std::span<const std::uint8_t> message) {
  bool case_differs = false;
  if (!wire::is_reply_to(message, id_, sent_name_, question_.question.type,
                         question_.question.qclass, &case_differs) &&
      !case_differs)
    return false;
  on_response(message, true);
  return true;
}

void Exchange::on_stream_broken(const SocketError& reason, bool was_open) {
  stream_ = {};
  place_ = {};
  if (was_open && !stream_again_) {
    stream_again_ = true;
    return again(&Exchange::send_on_stream);
  }
  break_off(reason);
}

std::uint32_t Exchange::rtt_us() const {
  return static_cast<std::uint32_t>((uv_hrtime() - sent_at_ns_) / 1000);
}

void Exchange::on_response(std::span<const std::uint8_t> message, bool stream) {
  UpstreamState& state = upstream_->state();
  const auto response = wire::parse_response(message);
  if (!response) {
    state.counts.malformed.fetch_add(1, kRelaxed);
    state.note_error("malformed reply: " + response.error().message);
    // Perhaps a forger's: a connection tells.
    if (!stream) return again(&Exchange::send_on_stream);
    return fault(ExchangeFault::Malformed, response.error().message);
  }
  if (!check_cookie(*response, message, stream)) return;
  carrier_ = upstream_->server().transport == UpstreamTransport::Tls ? Carrier::Tls
             : stream                                                ? Carrier::Tcp
                                                                     : Carrier::Udp;
  // The time of a new connection says nothing about a query over UDP.
  const bool measured = carrier_ != Carrier::Tcp;
  const bool recovered = state.note_reply(upstream_->reactor_.now(), measured ? rtt_us() : 0);
  replied_ = true;
  if (recovered && listener_) listener_.get()->on_recovery();
  if (is_retired()) return;
  if (!stream && ask_with_new_cookie(*response)) return;
  if (ask_with_less(*response, stream)) return;
  if (response->truncated && !stream) {
    state.counts.truncated.fetch_add(1, kRelaxed);
    return again(&Exchange::send_on_stream);
  }
  learn(*response, stream);
  state.note_rcode(response->rcode);
  // A server that resolves nothing answers some questions without recursion.
  if (question_.recursion_desired && !question_.is_probe)
    state.judge_rcode(response->rcode, question_.question.name, upstream_->reactor_.now());
  // A port that others send to, too, is used no more.
  if (watch_ && mismatches_ == 0) upstream_->sockets_.give_back(std::move(watch_));
  watch_.reset();
  leave_stream();
  if (listener_) listener_.get()->on_reply(*this, *response);
}

// RFC 7873, section 5.3.  False: the reply is not believed, and this exchange goes on or is over.
bool Exchange::check_cookie(const wire::ResponseMessage& response,
                            std::span<const std::uint8_t> message, bool stream) {
  UpstreamCookies& cookies = upstream_->cookies_;
  const Millis now = upstream_->reactor_.now();
  if (stream) {
    if (!std::exchange(cookie_missing_, false)) return true;
    if (cookies.note_stream_reply(response.cookie, now)) upstream_->state().note_cookies_lost();
    return true;
  }
  switch (cookies.judge(response.cookie, now)) {
    case UpstreamCookies::Verdict::Ours:
      cookies.learn(response.cookie);
      return true;
    case UpstreamCookies::Verdict::Foreign:
      on_mismatch(message, false);
      return false;
    case UpstreamCookies::Verdict::Missing:
      if (!cookie_sent_) return true;
      ask_for_cookie();
      return false;
    case UpstreamCookies::Verdict::Absent:
      return true;
  }
  return true;
}

// A reply lacks the cookie that was to be expected.  Over TCP, no forger can answer.
void Exchange::ask_for_cookie() {
  upstream_->state().counts.mismatched.fetch_add(1, kRelaxed);
  cookie_missing_ = true;
  again(&Exchange::send_on_stream);
}

void Exchange::note_missing_cookie_lost() {
  if (!std::exchange(cookie_missing_, false)) return;
  if (upstream_->cookies_.note_stream_failure(upstream_->reactor_.now()))
    upstream_->state().note_cookies_lost();
}

// True: asked again with the cookie that the upstream wants.
bool Exchange::ask_with_new_cookie(const wire::ResponseMessage& response) {
  if (response.rcode != wire::Rcode::BadCookie) return false;
  const bool first = !cookie_again_;
  cookie_again_ = true;
  again(first ? &Exchange::send_datagram : &Exchange::send_on_stream);
  return true;
}

// RFC 6891, section 6.2.2: a server that refuses a query for what it carries is asked again with
// less: first without options, then without EDNS.  A reply without OPT comes from a server that
// does not know EDNS at all.  True: asked again.
bool Exchange::ask_with_less(const wire::ResponseMessage& response, bool stream) {
  if (!edns_) return false;
  const bool unread = response.rcode == wire::Rcode::FormErr ||
                      response.rcode == wire::Rcode::NotImp ||
                      response.rcode == wire::Rcode::BadVers;
  // REFUSED has many reasons: it is the cookie's fault only where none has been taken so far.
  const bool refused =
      response.rcode == wire::Rcode::Refused && !upstream_->state().edns_options().has_worked();
  if (options_sent_ && (refused || (unread && response.has_edns))) {
    no_options_again_ = true;
    options_ = false;
  } else if (unread) {
    no_edns_again_ = true;
    edns_ = false;
  } else {
    return false;
  }
  again(stream ? &Exchange::send_on_stream : &Exchange::send_datagram);
  return true;
}

void Exchange::learn(const wire::ResponseMessage& response, bool stream) {
  UpstreamState& state = upstream_->state();
  const Millis now = upstream_->reactor_.now();
  const bool good =
      response.rcode == wire::Rcode::NoError || response.rcode == wire::Rcode::NxDomain;
  const std::string_view name = question_.question.name;
  if (good && no_edns_again_) {
    state.note_no_edns(name, now);
  } else if (good && no_options_again_) {
    state.note_no_options(name, now);
  } else if (good && response.has_edns) {
    state.edns().note_success(now);
    // A plain server that takes the options of TCP may still refuse cookies.
    if (cookie_sent_ || (options_sent_ && upstream_->server().transport == UpstreamTransport::Tls))
      state.edns_options().note_success(now);
  }
  if (stream) return;
  if (plain_again_) {
    state.note_case_lost(now);
  } else if (odd_case_) {
    state.note_case_kept();
  }
}

void Exchange::again(SocketResult<void> (Exchange::*send)()) {
  if (listener_ && !listener_.get()->may_send())
    return fault(ExchangeFault::Limit, "too many packets for one question");
  const auto sent = (this->*send)();
  if (!sent) return break_off(sent.error());
  if (listener_) listener_.get()->on_progress(*this);
}

void Exchange::break_off(const SocketError& error) {
  fault(error.is_shortage ? ExchangeFault::Shortage : ExchangeFault::Unreachable, error.message);
}

void Exchange::fault(ExchangeFault kind, const std::string& what) {
  if (kind != ExchangeFault::Shortage) note_missing_cookie_lost();
  watch_.reset();
  leave_stream();
  if (listener_) listener_.get()->on_fault(*this, kind, what);
}

}  // namespace meshdns::dnsd
