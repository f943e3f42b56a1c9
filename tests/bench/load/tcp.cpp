// SPDX-License-Identifier: Apache-2.0
// Queries over persistent TCP connections, each with its share of the window always unanswered;
// what is sent at a time leaves in one write.
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "tests/bench/load/query_file.hpp"
#include "tests/bench/load/run.hpp"

namespace meshdns::bench {
namespace {

[[noreturn]] void die(const char* what) {
  std::perror(what);
  std::exit(1);
}

class Connection {
 public:
  explicit Connection(const Options& options)
      : options_(options), in_(std::size_t{1} << 20), asked_(65536) {
    connect();
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() { ::close(fd_); }

  int fd() const { return fd_; }
  unsigned unanswered() const { return unanswered_; }

  void send(unsigned count, QueryFile& queries, Seen& seen) {
    out_.clear();
    const auto now = Clock::now();
    for (unsigned i = 0; i < count; ++i) {
      const auto framed = queries.next();
      const std::size_t at = out_.size();
      out_.insert(out_.end(), framed.begin(), framed.end());
      const std::uint16_t id = ++last_id_;
      out_[at + 2] = static_cast<std::uint8_t>(id >> 8);
      out_[at + 3] = static_cast<std::uint8_t>(id);
      asked_[id] = now;
    }
    unanswered_ += count;
    seen.sent += count;
    for (std::size_t sent = 0; sent < out_.size();) {
      const ssize_t n = ::send(fd_, out_.data() + sent, out_.size() - sent, MSG_NOSIGNAL);
      if (n < 0) return reconnect(seen);
      sent += static_cast<std::size_t>(n);
    }
  }

  void receive(Seen& seen) {
    const ssize_t n = ::recv(fd_, in_.data() + size_, in_.size() - size_, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) return reconnect(seen);
    if (n < 0) return;
    // Against servers that leave Nagle's algorithm on: their answers would wait for our delayed
    // ACK.
    const int on = 1;
    ::setsockopt(fd_, IPPROTO_TCP, TCP_QUICKACK, &on, sizeof on);
    size_ += static_cast<std::size_t>(n);
    const auto now = Clock::now();
    std::size_t at = 0;
    while (size_ - at >= 2) {
      const std::size_t size = in_[at] * 256U + in_[at + 1];
      if (size_ - at - 2 < size) break;
      accept(in_.data() + at + 2, size, now, seen);
      at += size + 2;
    }
    std::memmove(in_.data(), in_.data() + at, size_ - at);
    size_ -= at;
  }

 private:
  void connect() {
    fd_ = ::socket(AF_INET, SOCK_STREAM, 0);
    const int on = 1;
    if (fd_ < 0 || ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0 ||
        ::connect(fd_, reinterpret_cast<const sockaddr*>(&options_.server),
                  sizeof options_.server) != 0)
      die("connect");
  }

  // Some servers answer so many queries on a connection and no more; that is part of their price.
  void reconnect(Seen& seen) {
    seen.lost += unanswered_;
    unanswered_ = 0;
    size_ = 0;
    for (auto& asked : asked_) asked = {};
    ::close(fd_);
    connect();
  }

  void accept(const std::uint8_t* message, std::size_t size, Clock::time_point now, Seen& seen) {
    const auto id = static_cast<std::uint16_t>(message[0] * 256U + message[1]);
    if (size < 12 || (message[2] & 0x80) == 0 || asked_[id] == Clock::time_point{}) {
      ++seen.unexpected;
      return;
    }
    seen.count(message);
    seen.latency.add(static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(now - asked_[id]).count()));
    asked_[id] = {};
    --unanswered_;
  }

  const Options& options_;
  int fd_ = -1;
  unsigned unanswered_ = 0;
  std::uint16_t last_id_ = 0;
  std::vector<std::uint8_t> out_;
  std::vector<std::uint8_t> in_;
  std::size_t size_ = 0;
  std::vector<Clock::time_point> asked_;
};

}  // namespace

void run_tcp(const Options& options, Seen& seen, Meter& meter) {
  QueryFile queries(options.queries);
  queries.skip(options.skip);
  std::vector<std::unique_ptr<Connection>> connections;
  for (unsigned i = 0; i < options.sockets; ++i)
    connections.push_back(std::make_unique<Connection>(options));
  // NOLINTNEXTLINE(clang-analyzer-core.DivideZero): main.cpp refuses 0
  const unsigned share = std::max(1U, options.window / options.sockets);
  std::vector<pollfd> fds(connections.size());

  Schedule schedule(options);
  for (;;) {
    const auto now = Clock::now();
    if (schedule.is_over(now)) break;
    if (schedule.is_warm(now)) {
      seen.clear();
      meter.start();
    }
    for (const auto& connection : connections)
      // Not reply by reply: a client that pipelines sends what has come together.
      if (connection->unanswered() <= share / 2)
        connection->send(share - connection->unanswered(), queries, seen);
    for (std::size_t i = 0; i < fds.size(); ++i) fds[i] = {connections[i]->fd(), POLLIN, 0};
    ::poll(fds.data(), fds.size(), 10);
    for (std::size_t i = 0; i < fds.size(); ++i)
      if (fds[i].revents != 0) connections[i]->receive(seen);
  }
  meter.stop();
}

}  // namespace meshdns::bench
