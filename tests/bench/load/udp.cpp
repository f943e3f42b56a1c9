// SPDX-License-Identifier: Apache-2.0
// Queries over UDP from one thread.  Sending and receiving are batched, since otherwise the
// generator, not the server, is what a run measures.
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <thread>
#include <vector>

#include "tests/bench/load/query_file.hpp"
#include "tests/bench/load/run.hpp"

namespace meshdns::bench {
namespace {

constexpr unsigned kBatchSize = 64;
constexpr std::size_t kReplySize = 2048;
constexpr auto kLostAfter = std::chrono::milliseconds(300);
constexpr auto kBetweenBursts = std::chrono::microseconds(50);

[[noreturn]] void die(const char* what) {
  std::perror(what);
  std::exit(1);
}

// One socket with its unanswered queries.  With more than one client address it is not bound to
// any: each datagram says its own.
class UdpSocket {
 public:
  UdpSocket(const Options& options, unsigned index)
      : options_(options), source_(index * 7919U % options.sources), asked_(65536) {
    fd_ = ::socket(AF_INET, SOCK_DGRAM | (options.sleeps ? 0 : SOCK_NONBLOCK), 0);
    const int size = 4 << 20;
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
    if (fd_ < 0 ||
        (!names_source() && ::connect(fd_, reinterpret_cast<const sockaddr*>(&options.server),
                                      sizeof options.server) != 0))
      die("connect");
    if (options.sleeps) sleep_at_most(kLostAfter);
    prepare(out_, out_vectors_);
    prepare(in_, in_vectors_);
    for (unsigned i = 0; i < kBatchSize; ++i) in_vectors_[i] = {replies_[i].data(), kReplySize};
  }
  UdpSocket(const UdpSocket&) = delete;
  UdpSocket& operator=(const UdpSocket&) = delete;
  ~UdpSocket() { ::close(fd_); }

  int fd() const { return fd_; }
  unsigned unanswered() const { return unanswered_; }

  // Up to one batch; `scheduled` is when the queries were to be sent.
  void send(unsigned count, QueryFile& queries, Clock::time_point scheduled, Seen& seen) {
    for (unsigned i = 0; i < count; ++i) {
      const auto query = queries.next().subspan(2);
      std::memcpy(outgoing_[i].data(), query.data(), query.size());
      const std::uint16_t id = next_id();
      outgoing_[i][0] = static_cast<std::uint8_t>(id >> 8);
      outgoing_[i][1] = static_cast<std::uint8_t>(id);
      out_vectors_[i] = {outgoing_[i].data(), query.size()};
      if (names_source()) name_source(i);
      asked_[id] = scheduled;
    }
    unsigned done = 0;
    while (done < count) {
      const int n = ::sendmmsg(fd_, out_.data() + done, count - done, 0);
      if (n > 0) {
        done += static_cast<unsigned>(n);
      } else if (errno != EAGAIN && errno != EINTR && errno != ECONNREFUSED) {
        die("sendmmsg");
      }
    }
    unanswered_ += count;
    seen.sent += count;
  }

  // The number of replies to the queries.
  unsigned receive(Seen& seen) {
    const int n = ::recvmmsg(fd_, in_.data(), kBatchSize, MSG_WAITFORONE, nullptr);
    if (n <= 0) return 0;
    const auto now = Clock::now();
    unsigned expected = 0;
    for (unsigned i = 0; i < static_cast<unsigned>(n); ++i)
      if (accept(replies_[i].data(), in_[i].msg_len, now, seen)) ++expected;
    return expected;
  }

  void give_up_all(Seen& seen) {
    seen.lost += unanswered_;
    unanswered_ = 0;
    for (auto& asked : asked_) asked = {};
  }

 private:
  struct Control {
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(in_pktinfo))> octets;
  };

  void sleep_at_most(std::chrono::microseconds time) const {
    const timeval limit{0, time.count()};
    if (::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) != 0) die("SO_RCVTIMEO");
  }

  static void prepare(std::array<mmsghdr, kBatchSize>& messages,
                      std::array<iovec, kBatchSize>& vectors) {
    for (unsigned i = 0; i < kBatchSize; ++i) {
      messages[i] = {};
      messages[i].msg_hdr.msg_iov = &vectors[i];
      messages[i].msg_hdr.msg_iovlen = 1;
    }
  }

  bool names_source() const { return options_.first_source != 0; }
  void name_source(unsigned i) {
    msghdr& header = out_[i].msg_hdr;
    header.msg_name = const_cast<sockaddr_in*>(&options_.server);
    header.msg_namelen = sizeof options_.server;
    header.msg_control = controls_[i].octets.data();
    header.msg_controllen = controls_[i].octets.size();
    in_pktinfo info{};
    info.ipi_spec_dst.s_addr = htonl(options_.first_source + source_);
    source_ = (source_ + 1) % options_.sources;
    cmsghdr* const control = CMSG_FIRSTHDR(&header);
    *control = {CMSG_LEN(sizeof info), IPPROTO_IP, IP_PKTINFO};
    std::memcpy(CMSG_DATA(control), &info, sizeof info);
  }

  // A query that is still unanswered after 65,535 others is lost, and found so by its successor.
  std::uint16_t next_id() { return ++last_id_; }

  bool accept(const std::uint8_t* message, std::size_t size, Clock::time_point now, Seen& seen) {
    const auto id = static_cast<std::uint16_t>(message[0] * 256U + message[1]);
    if (size < 12 || (message[2] & 0x80) == 0 || asked_[id] == Clock::time_point{}) {
      ++seen.unexpected;
      return false;
    }
    seen.count(message);
    const auto latency = static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(now - asked_[id]).count());
    seen.latency.add(latency);
    if (!options_.samples.empty()) keep_sample(asked_[id], latency, seen);
    asked_[id] = {};
    if (unanswered_ > 0) --unanswered_;
    return true;
  }

  void keep_sample(Clock::time_point due, std::uint64_t latency_ns, Seen& seen) const {
    const auto due_us =
        std::chrono::duration_cast<std::chrono::microseconds>(due - options_.began).count();
    seen.samples.push_back({static_cast<std::uint32_t>(due_us),
                            static_cast<std::uint32_t>(std::min<std::uint64_t>(
                                latency_ns, std::numeric_limits<std::uint32_t>::max()))});
  }

  const Options& options_;
  int fd_ = -1;
  unsigned source_;
  unsigned unanswered_ = 0;
  std::uint16_t last_id_ = 0;
  std::vector<Clock::time_point> asked_;  // by ID; the epoch = not asked
  std::array<mmsghdr, kBatchSize> out_;
  std::array<iovec, kBatchSize> out_vectors_;
  std::array<Control, kBatchSize> controls_;
  std::array<std::array<std::uint8_t, 512>, kBatchSize> outgoing_;
  std::array<mmsghdr, kBatchSize> in_;
  std::array<iovec, kBatchSize> in_vectors_;
  std::array<std::array<std::uint8_t, kReplySize>, kBatchSize> replies_;
};

using Sockets = std::vector<std::unique_ptr<UdpSocket>>;

void wait_for_reply(const Sockets& sockets) {
  std::vector<pollfd> fds;
  for (const auto& socket : sockets) fds.push_back({socket->fd(), POLLIN, 0});
  ::poll(fds.data(), fds.size(), 10);
}

void start_measuring(Seen& seen, Meter& meter) {
  seen.clear();
  meter.start();
}

// Each socket's share of the window is always unanswered, so that the server is never without work.
// Nor does the generator sleep: who answers would pay for waking it up, and the slower pays more
// often (measured: 0.1 us per query of a server that takes 1.2 times the echo's).
void saturate(const Options& options, const Sockets& sockets, QueryFile& queries, Seen& seen,
              Meter& meter) {
  Schedule schedule(options);
  const unsigned share = std::max(1U, options.window / std::max(1U, options.sockets));
  auto last_reply = Clock::now();
  for (;;) {
    const auto now = Clock::now();
    if (schedule.is_over(now)) return;
    if (schedule.is_warm(now)) start_measuring(seen, meter);
    bool idle = true;
    for (const auto& socket : sockets) {
      if (socket->receive(seen) > 0) idle = false;
      const unsigned wanted = std::min(share - socket->unanswered(), kBatchSize);
      if (wanted > 0) socket->send(wanted, queries, Clock::now(), seen);
    }
    if (!idle) {
      last_reply = now;
    } else if (now - last_reply > kLostAfter) {
      for (const auto& socket : sockets) socket->give_up_all(seen);
      last_reply = now;
    }
  }
}

// As a client that has so many queries in flight at most, and sleeps until replies come.
void take_turns(const Options& options, UdpSocket& socket, QueryFile& queries, Seen& seen,
                Meter& meter) {
  Schedule schedule(options);
  for (;;) {
    const auto now = Clock::now();
    if (schedule.is_over(now)) return;
    if (schedule.is_warm(now)) start_measuring(seen, meter);
    socket.send(std::min(options.window - socket.unanswered(), kBatchSize), queries, now, seen);
    if (socket.receive(seen) == 0) socket.give_up_all(seen);
  }
}

// Latency counts from when a query was due, so that a server that stalls is not asked less and does
// not look better for it.
void keep_rate(const Options& options, const Sockets& sockets, QueryFile& queries, Seen& seen,
               Meter& meter, std::vector<Stall>& stalls) {
  Schedule schedule(options);
  const double interval_ns = 1e9 / options.rate;
  const std::uint64_t burst = std::min(options.burst, kBatchSize);
  std::uint64_t sent = 0;
  std::size_t turn = 0;
  auto last_turn = schedule.begin();
  for (;;) {
    const auto now = Clock::now();
    // A turn takes some 100 us at most, but between bursts this thread sleeps.
    if (burst == 1 && now - last_turn >= kShortestStall) stalls.push_back({last_turn, now});
    last_turn = now;
    if (schedule.is_over(now)) return;
    if (schedule.is_warm(now)) start_measuring(seen, meter);
    const std::chrono::duration<double, std::nano> elapsed = now - schedule.begin();
    const auto due = static_cast<std::uint64_t>(elapsed.count() / interval_ns) / burst * burst;
    while (sent < due) {
      const auto at = schedule.begin() + std::chrono::duration_cast<Clock::duration>(
                                             std::chrono::duration<double, std::nano>(
                                                 static_cast<double>(sent + burst) * interval_ns));
      sockets[turn++ % sockets.size()]->send(static_cast<unsigned>(burst), queries, at, seen);
      sent += burst;
      if (turn % 16 == 0) break;  // replies must not wait until we have caught up
    }
    for (const auto& socket : sockets) socket->receive(seen);
    if (burst > 1) std::this_thread::sleep_for(kBetweenBursts);
  }
}

}  // namespace

void run_udp(const Options& options, Seen& seen, Meter& meter, std::vector<Stall>& stalls) {
  QueryFile queries(options.queries);
  queries.skip(options.skip);
  Sockets sockets;
  for (unsigned i = 0; i < options.sockets; ++i)
    sockets.push_back(std::make_unique<UdpSocket>(options, i));
  if (options.rate > 0) {
    if (!options.samples.empty())
      seen.samples.reserve(static_cast<std::size_t>(
          options.rate * (options.warm_up_seconds + options.seconds) * 1.1));
    keep_rate(options, sockets, queries, seen, meter, stalls);
  } else if (options.sleeps) {
    take_turns(options, *sockets.front(), queries, seen, meter);
  } else {
    saturate(options, sockets, queries, seen, meter);
  }
  meter.stop();
  const Seen measured = seen;
  // Replies that are on their way now are not lost.
  const auto until = Clock::now() + kLostAfter;
  while (Clock::now() < until && seen.answered + seen.lost < seen.sent) {
    wait_for_reply(sockets);
    for (const auto& socket : sockets) socket->receive(seen);
  }
  const std::uint64_t late = seen.answered - measured.answered;
  seen = measured;
  if (seen.sent > seen.answered + late + seen.lost) seen.lost = seen.sent - seen.answered - late;
}

}  // namespace meshdns::bench
