// SPDX-License-Identifier: Apache-2.0
#include "dnsd/net/tcp_server.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "dnsd/net/query_sink.hpp"
#include "dnsd/net/tcp_budget.hpp"
#include "registry/base/file_descriptor.hpp"
#include "registry/base/handle.hpp"

namespace meshdns::dnsd {

constexpr std::size_t kTcpPrefix = 2;  // octets of length (RFC 1035, section 4.2.2)

// The state of one TCP connection of a client: its unfinished query, its unsent replies and their
// clocks.  Owned by the callback of its poll, which goes when the loop has closed the handle: a
// connection may be in use when it is closed.
struct TcpConnection {
  loop::Poll poll;
  FileDescriptor fd;
  int watched = 0;  // libuv events polled for
  Peer client;
  TcpBudget::Place place;
  std::uint32_t slot;
  std::uint32_t generation;
  std::uint32_t in_flight = 0;  // queries that a late reply is due to
  bool has_asked = false;
  bool end_of_queries = false;  // the client has closed its half
  bool dirty = false;
  bool closed = false;
  // Loop time of the last octet in or reply out; of the first octet of an unfinished query, 0 =
  // none; of the last progress in writing, 0 = nothing to write.
  std::uint64_t active_at = 0;
  std::uint64_t query_since = 0;
  std::uint64_t unsent_since = 0;
  std::vector<std::uint8_t> input;   // an unfinished query, or queries that have to wait
  std::vector<std::uint8_t> output;  // replies that the socket did not take yet
  std::size_t output_at = 0;
  std::size_t held = 0;  // octets of both, as counted last
  TcpConnection* older = nullptr;
  TcpConnection* newer = nullptr;

  static std::size_t message_size(const std::uint8_t* prefix) {
    return static_cast<std::size_t>(prefix[0]) << 8 | prefix[1];
  }

  void forget_sent() {
    output.erase(output.begin(), output.begin() + static_cast<std::ptrdiff_t>(output_at));
    output_at = 0;
  }
  std::size_t unsent() const { return output.size() - output_at; }
  // Since when nothing has moved that it holds memory for.
  std::uint64_t stalled_since() const {
    if (unsent_since != 0) return unsent_since;
    return query_since != 0 ? query_since : active_at;
  }
  bool has_whole_query() const {
    return input.size() >= kTcpPrefix && input.size() - kTcpPrefix >= message_size(input.data());
  }
  void keep_input(std::span<const std::uint8_t> rest) {
    if (rest.empty())
      std::vector<std::uint8_t>().swap(input);
    else
      std::vector<std::uint8_t>(rest.begin(), rest.end()).swap(input);
  }
};

namespace {

constexpr std::size_t kHeader = 12;
constexpr std::size_t kReadSize = std::size_t{16} * 1024;  // some 400 queries
// A started message up to this long is copied in front of the next read; longer ones grow in a
// buffer of their own, or a slow sender would have us copy them over and over.
constexpr std::size_t kShortRest = 2048;
constexpr std::size_t kFlushAt = std::size_t{64} * 1024;
constexpr std::size_t kScratchSize = kFlushAt + kTcpPrefix + kTcpBufferSize;
// Late replies may come while much is unsent; so many times TcpLimits::max_unsent end the
// connection.
constexpr std::size_t kMaxUnsentFactor = 4;
constexpr int kEvictionTries = 64;

std::uint64_t ms(std::chrono::milliseconds duration) {
  return static_cast<std::uint64_t>(duration.count());
}

}  // namespace

TcpServer::TcpServer(uv_loop_t* loop, WorkerCounters& counters, std::shared_ptr<TcpBudget> budget,
                     unsigned worker)
    : loop_(loop),
      counters_(counters),
      budget_(std::move(budget)),
      worker_(worker),
      limits_(budget_->limits()),
      acceptors_(loop, counters, limits_.reserved_files, *this),
      read_buffer_(new std::uint8_t[kShortRest + kReadSize]),
      scratch_(new std::uint8_t[kScratchSize]) {}

TcpServer::~TcpServer() = default;

// --- accepted connections ------------------------------------------------------------------------

void TcpServer::on_accepted(FileDescriptor fd, const ListenSocket& listen, const IpAddress& client,
                            std::uint16_t port) {
  if (free_slots_.empty()) {
    free_slots_.push_back(static_cast<std::uint32_t>(slots_.size()));
    slots_.emplace_back();
  }
  const std::uint32_t slot = free_slots_.back();
  const std::uint32_t generation = slots_[slot].generation;
  auto [verdict, place] = budget_->admit(client, {worker_, slot, generation}, uv_now(loop_));
  if (verdict != TcpBudget::Verdict::Granted) {
    (verdict == TcpBudget::Verdict::AllInUse ? counters_.tcp_rejected_total
                                             : counters_.tcp_rejected_client)
        .add();
    return;
  }
  const auto c = std::make_shared<Connection>();
  c->place = std::move(place);
  const auto ready = [this, c](int status, int events) { on_ready(*c, status, events); };
  if (c->poll.open(loop_, fd.get(), ready) != 0) {
    counters_.tcp_accept_errors.add();
    return;
  }
  c->client = {client, port, listen.address.ip, true, listen.address.port};
  if (listen.wildcard) {
    sockaddr_storage local{};
    socklen_t size = sizeof local;
    ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&local), &size);
    c->client.local =
        IpAddress::from_sockaddr(reinterpret_cast<const sockaddr*>(&local)).value_or(IpAddress());
  }
  c->fd = std::move(fd);
  c->slot = slot;
  c->generation = generation;
  free_slots_.pop_back();
  slots_[c->slot].connection = c.get();
  c->active_at = uv_now(loop_);
  link_newest(*c);
  ++open_;
  counters_.tcp_accepted.add();
  counters_.tcp_open.set(open_);
  proceed(*c);
}

bool TcpServer::close_longest_idle() {
  int tries = kEvictionTries;
  for (Connection* c = oldest_; c != nullptr && tries-- > 0; c = c->newer) {
    if (!may_make_room(*c)) continue;
    counters_.tcp_evicted.add();
    close(*c);
    return true;
  }
  return false;
}

void TcpServer::make_room(const TcpBudget::ConnectionId& id) {
  Connection* const c = find(id.slot, id.generation);
  if (c == nullptr) return;
  if (!may_make_room(*c)) return c->place.keep(uv_now(loop_));
  counters_.tcp_evicted.add();
  close(*c);
}

// Tells the budget whether the connection may be closed to make room.
void TcpServer::note_rest(Connection& c) {
  may_make_room(c) ? c.place.set_idle_since(c.active_at) : c.place.set_busy();
}

// --- one connection ------------------------------------------------------------------------------

void TcpServer::on_ready(Connection& c, int status, int events) {
  if (c.closed) return;
  if (status < 0) return close(c);  // reset by the client
  if ((events & UV_WRITABLE) != 0 && !write_output(c)) return close(c);
  if ((events & UV_READABLE) != 0 && !read(c)) return close(c);
  proceed(c);
}

// False: the connection is broken.
bool TcpServer::read(Connection& c) {
  return c.input.size() <= kShortRest ? read_into_scratch(c) : read_into_input(c);
}

namespace {

enum class ReadResult : std::uint8_t { Octets, Nothing, End, Broken };

ReadResult receive(int fd, std::uint8_t* to, std::size_t size, std::size_t& got) {
  const ssize_t n = ::recv(fd, to, size, MSG_DONTWAIT);
  got = n > 0 ? static_cast<std::size_t>(n) : 0;
  if (n > 0) return ReadResult::Octets;
  if (n == 0) return ReadResult::End;
  return errno == EAGAIN || errno == EINTR ? ReadResult::Nothing : ReadResult::Broken;
}

// Returns whether a connection without new octets stays open; the client may have ended its
// queries.
bool stays_open(ReadResult result, bool& end_of_queries) {
  end_of_queries |= result == ReadResult::End;
  return result != ReadResult::Broken;
}

}  // namespace

bool TcpServer::read_into_scratch(Connection& c) {
  const std::size_t rest = c.input.size();
  std::size_t got = 0;
  const ReadResult result = receive(c.fd.get(), read_buffer_.get() + rest, kReadSize, got);
  if (result != ReadResult::Octets) return stays_open(result, c.end_of_queries);
  if (rest > 0) std::memcpy(read_buffer_.get(), c.input.data(), rest);
  const std::span octets(read_buffer_.get(), rest + got);
  std::size_t taken = 0;
  const bool well = take_queries(c, octets, taken);
  c.keep_input(octets.subspan(taken));
  return well;
}

bool TcpServer::read_into_input(Connection& c) {
  std::size_t got = 0;
  const ReadResult result = receive(c.fd.get(), read_buffer_.get(), kReadSize, got);
  if (result != ReadResult::Octets) return stays_open(result, c.end_of_queries);
  c.input.insert(c.input.end(), read_buffer_.get(), read_buffer_.get() + got);
  // Otherwise there is nothing to take, and nothing to move.
  if (!c.has_whole_query()) return true;
  const std::vector<std::uint8_t> octets = std::exchange(c.input, {});
  std::size_t taken = 0;
  const bool well = take_queries(c, octets, taken);
  c.keep_input(std::span(octets).subspan(taken));
  return well;
}

// Answers the queries at the front of `octets` as far as the connection's limits allow.  False: the
// connection is broken.
bool TcpServer::take_queries(Connection& c, std::span<const std::uint8_t> octets,
                             std::size_t& taken) {
  bool well = true;
  taken = 0;
  while (well) {
    const bool is_full =
        scratch_used_ >= kFlushAt || c.unsent() + scratch_used_ >= limits_.max_unsent;
    if (is_full && !write_replies(c)) return false;
    if (!may_take_query(c)) break;
    const std::span<const std::uint8_t> rest = octets.subspan(taken);
    if (rest.size() < kTcpPrefix) break;
    const std::size_t size = TcpConnection::message_size(rest.data());
    // A message without a header means that the framing is lost, and so is the connection.
    if (size < kHeader) {
      well = false;
      break;
    }
    if (rest.size() - kTcpPrefix < size) break;
    c.has_asked = true;
    answer(c, rest.subspan(kTcpPrefix, size));
    taken += kTcpPrefix + size;
  }
  const bool written = write_replies(c);
  const bool unfinished = taken < octets.size() && may_take_query(c);
  // The clock of an unfinished query runs from its first octet; the next one starts it anew.
  if (!unfinished)
    c.query_since = 0;
  else if (taken > 0 || c.query_since == 0)
    c.query_since = uv_now(loop_);
  c.active_at = uv_now(loop_);
  unlink(c);
  link_newest(c);
  return well && written;
}

void TcpServer::answer(Connection& c, std::span<const std::uint8_t> query) {
  counters_.tcp_queries.add();
  std::uint8_t* const out = scratch_.get() + scratch_used_;
  std::memcpy(out + kTcpPrefix, query.data(), query.size());
  const ReplyTo reply_to{c.client, c.slot, c.generation, 0, 0};
  const std::size_t size =
      sink_->on_query({out + kTcpPrefix, kTcpBufferSize}, query.size(), reply_to);
  if (size == QuerySink::kNoReply) return;
  counters_.tcp_query_sizes.add(query.size());
  if (size == QuerySink::kReplyLater) {
    ++c.in_flight;
    return;
  }
  out[0] = static_cast<std::uint8_t>(size >> 8);
  out[1] = static_cast<std::uint8_t>(size);
  scratch_used_ += kTcpPrefix + size;
  counters_.tcp_replies.add();
  counters_.tcp_reply_sizes.add(size);
}

// Sends the replies in the scratch buffer; what the socket does not take waits in the connection.
bool TcpServer::write_replies(Connection& c) {
  const std::size_t size = std::exchange(scratch_used_, 0);
  if (size == 0) return true;
  std::size_t sent = 0;
  if (c.unsent() == 0) {
    const ssize_t n = ::send(c.fd.get(), scratch_.get(), size, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN && errno != EINTR) return false;
    sent = n > 0 ? static_cast<std::size_t>(n) : 0;
    if (sent == size) return true;
    c.unsent_since = uv_now(loop_);
  }
  c.output.insert(c.output.end(), scratch_.get() + sent, scratch_.get() + size);
  return true;
}

bool TcpServer::write_output(Connection& c) {
  while (c.unsent() > 0) {
    const ssize_t n =
        ::send(c.fd.get(), c.output.data() + c.output_at, c.unsent(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN) return false;
      c.forget_sent();
      return true;
    }
    c.output_at += static_cast<std::size_t>(n);
    c.unsent_since = uv_now(loop_);
  }
  c.active_at = uv_now(loop_);
  std::vector<std::uint8_t>().swap(c.output);
  c.output_at = 0;
  c.unsent_since = 0;
  return true;
}

void TcpServer::proceed(Connection& c) {
  while (c.has_whole_query() && may_take_query(c)) {
    const std::vector<std::uint8_t> octets = std::exchange(c.input, {});
    std::size_t taken = 0;
    const bool well = take_queries(c, octets, taken);
    c.keep_input(std::span(octets).subspan(taken));
    if (!well) return close(c);
  }
  if (is_done(c)) return close(c);
  note_rest(c);
  watch(c);
  weigh(c);
}

void TcpServer::weigh(Connection& c) {
  const std::size_t held = c.input.capacity() + c.output.capacity();
  if (held == c.held) return;
  const bool has_grown = held > c.held;
  held_ += held - std::exchange(c.held, held);
  counters_.tcp_held.set(held_);
  while (has_grown && !c.closed && held_ > limits_.max_held) {
    Connection* const stalled = longest_stalled();
    if (stalled == nullptr) return;
    counters_.tcp_closed_backlog.add();
    close(*stalled);
  }
}

// Null: no connection holds memory.  A search in all of them, which is rare: many clients that
// stall at a time.
TcpServer::Connection* TcpServer::longest_stalled() const {
  Connection* found = nullptr;
  for (Connection* c = oldest_; c != nullptr; c = c->newer)
    if (c->held > 0 && (found == nullptr || c->stalled_since() < found->stalled_since())) found = c;
  return found;
}

void TcpServer::watch(Connection& c) {
  // Queries that wait for room in `input` are enough; more may wait in the kernel.
  const bool reading = !c.end_of_queries && !is_left_behind(c) && may_take_query(c);
  const int events = (reading ? UV_READABLE : 0) | (c.unsent() > 0 ? UV_WRITABLE : 0);
  if (events == c.watched) return;
  c.watched = events;
  c.poll.watch(events);
}

bool TcpServer::may_take_query(const Connection& c) const {
  return c.in_flight < limits_.max_in_flight && c.unsent() < limits_.max_unsent;
}

// Nothing more is to come from either side.
bool TcpServer::is_done(const Connection& c) const {
  if (c.in_flight > 0 || c.unsent() > 0) return false;
  return (c.end_of_queries || is_left_behind(c)) && !c.has_whole_query();
}

// Draining, and no query of this connection is waited for.
bool TcpServer::is_left_behind(const Connection& c) const {
  if (!draining_) return false;
  const std::uint64_t now = uv_now(loop_);
  if (now >= grace_until_) return true;
  if (!is_patient_) return c.has_asked;
  return now - std::max(c.active_at, draining_since_) >= ms(kIdleGrace);
}

bool TcpServer::is_idle(const Connection& c) const {
  return c.in_flight == 0 && c.unsent() == 0 && c.query_since == 0;
}

// Nothing that was asked is lost with it.
bool TcpServer::may_make_room(const Connection& c) const {
  return c.in_flight == 0 && c.unsent() == 0 && !c.has_whole_query();
}

// --- late replies --------------------------------------------------------------------------------

TcpServer::Connection* TcpServer::find(std::uint32_t slot, std::uint32_t generation) {
  if (slot >= slots_.size()) return nullptr;
  const Slot& found = slots_[slot];
  return found.generation == generation ? found.connection : nullptr;
}

void TcpServer::mark_dirty(Connection& c) {
  if (std::exchange(c.dirty, true)) return;
  dirty_.push_back({c.client, c.slot, c.generation, 0, 0});
}

void TcpServer::send_later(const ReplyTo& reply_to, std::span<const std::uint8_t> message) {
  Connection* const c = find(reply_to);
  if (c == nullptr) return;
  if (c->in_flight > 0) --c->in_flight;
  mark_dirty(*c);
  if (message.empty() || message.size() > kTcpBufferSize) return;
  if (c->unsent() > kMaxUnsentFactor * limits_.max_unsent) {
    counters_.tcp_closed_slow_reader.add();
    return close(*c);
  }
  if (c->unsent() == 0) c->unsent_since = uv_now(loop_);
  c->output.push_back(static_cast<std::uint8_t>(message.size() >> 8));
  c->output.push_back(static_cast<std::uint8_t>(message.size()));
  c->output.insert(c->output.end(), message.begin(), message.end());
  counters_.tcp_replies.add();
  counters_.tcp_reply_sizes.add(message.size());
}

void TcpServer::drop(const ReplyTo& reply_to) {
  Connection* const c = find(reply_to);
  if (c == nullptr) return;
  if (c->in_flight > 0) --c->in_flight;
  mark_dirty(*c);
}

void TcpServer::flush() {
  if (dirty_.empty()) return;
  const std::vector<ReplyTo> dirty = std::exchange(dirty_, {});
  for (const ReplyTo& reply_to : dirty) {
    Connection* const c = find(reply_to);
    if (c == nullptr) continue;
    c->dirty = false;
    if (write_output(*c))
      proceed(*c);
    else
      close(*c);
  }
}

// --- limits and the end --------------------------------------------------------------------------

void TcpServer::sweep() {
  limits_ = budget_->limits();
  for (Connection* c = oldest_; c != nullptr;) {
    Connection* const next = c->newer;
    check_limits_of_time(*c);
    c = next;
  }
}

void TcpServer::check_limits_of_time(Connection& c) {
  const std::uint64_t now = uv_now(loop_);
  if (c.unsent_since != 0 && now - c.unsent_since >= ms(limits_.write_timeout)) {
    counters_.tcp_closed_slow_reader.add();
    return close(c);
  }
  if (c.query_since != 0 && now - c.query_since >= ms(limits_.message_timeout)) {
    counters_.tcp_closed_slow_query.add();
    return close(c);
  }
  if (is_idle(c) && now - c.active_at >= ms(idle_timeout())) {
    counters_.tcp_closed_idle.add();
    return close(c);
  }
  if (draining_ && is_done(c)) close(c);
}

void TcpServer::drain() { begin_to_drain(kFirstQueryGrace); }

void TcpServer::drain_patiently() {
  is_patient_ = true;
  begin_to_drain(kLongestGrace);
}

void TcpServer::begin_to_drain(std::chrono::milliseconds grace) {
  draining_ = true;
  draining_since_ = uv_now(loop_);
  grace_until_ = draining_since_ + ms(grace);
  for (const Slot& slot : slots_) {
    Connection* const c = slot.connection;
    if (c == nullptr) continue;
    // Queries that have arrived are answered.
    if (!c->end_of_queries && may_take_query(*c) && !read(*c))
      close(*c);
    else
      proceed(*c);
  }
}

void TcpServer::close_all() {
  while (oldest_ != nullptr) close(*oldest_);
  acceptors_.close();
}

void TcpServer::link_newest(Connection& c) {
  c.older = newest_;
  c.newer = nullptr;
  (newest_ != nullptr ? newest_->newer : oldest_) = &c;
  newest_ = &c;
}

void TcpServer::unlink(Connection& c) {
  (c.older != nullptr ? c.older->newer : oldest_) = c.newer;
  (c.newer != nullptr ? c.newer->older : newest_) = c.older;
}

void TcpServer::close(Connection& c) {
  if (std::exchange(c.closed, true)) return;
  unlink(c);
  Slot& slot = slots_[c.slot];
  slot.connection = nullptr;
  ++slot.generation;
  free_slots_.push_back(c.slot);
  c.place = {};
  --open_;
  counters_.tcp_open.set(open_);
  held_ -= c.held;
  counters_.tcp_held.set(held_);
  c.poll.close();
  c.fd.reset();  // after the poll: libuv no longer looks at it
}

}  // namespace meshdns::dnsd
