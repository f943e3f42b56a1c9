// SPDX-License-Identifier: Apache-2.0
// Workers with a trivial sink on real sockets, and clients to talk to them.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "dnsd/net/worker.hpp"

namespace meshdns::dnsd {

constexpr int kPatienceMs = 10'000;  // for what has to come; nobody waits that long otherwise

// A message as the sink reads it: a 12-octet header whose first octets are `id`, then `text`, whose
// first letter says what to do:
//   'D' no reply   'H' held until released   'L' a late reply in the same turn of the loop
//   'B' a reply of as many octets as the number behind it says   anything else: the query back,
//   QR=1
inline std::string query_of(unsigned id, const std::string& text = "echo") {
  std::string message(12, '\0');
  message[0] = static_cast<char>(id >> 8);
  message[1] = static_cast<char>(id);
  return message + text;
}
inline unsigned id_of(const std::string& message) {
  return static_cast<unsigned>(static_cast<std::uint8_t>(message.at(0))) << 8 |
         static_cast<std::uint8_t>(message.at(1));
}

class EchoSink : public QuerySink {
 public:
  EchoSink(ReplySender& replies, unsigned worker) : replies_(replies), worker_(worker) {}

  std::size_t on_query(std::span<std::uint8_t> buffer, std::size_t size,
                       const ReplyTo& reply_to) override {
    if (size < 12) return kNoReply;
    const std::string text(buffer.begin() + 12, buffer.begin() + static_cast<std::ptrdiff_t>(size));
    note(reply_to.client);
    buffer[2] = 0x80;
    buffer[3] = static_cast<std::uint8_t>(worker_);
    if (text.starts_with('D')) return kNoReply;
    if (text.starts_with('B')) {
      const std::size_t wanted = std::stoul(text.substr(1));
      std::fill(buffer.begin() + static_cast<std::ptrdiff_t>(size),
                buffer.begin() + static_cast<std::ptrdiff_t>(wanted), std::uint8_t{'b'});
      return wanted;
    }
    const std::string reply(buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(size));
    if (text.starts_with('L')) {
      send(reply_to, reply);
      return kReplyLater;
    }
    if (text.starts_with('H')) {
      held_.emplace_back(reply_to, reply);
      return kReplyLater;
    }
    return size;
  }
  std::size_t in_flight() const override { return held_.size(); }

  // The worker's thread.
  void release(bool newest_first = false) {
    if (newest_first) std::reverse(held_.begin(), held_.end());
    for (const auto& [reply_to, reply] : std::exchange(held_, {})) send(reply_to, reply);
  }
  void release_one() {
    const auto [reply_to, reply] = std::move(held_.front());
    held_.erase(held_.begin());
    send(reply_to, reply);
  }

  std::vector<Peer> clients() const {
    const std::scoped_lock lock(mutex_);
    return clients_;
  }

 private:
  void send(const ReplyTo& reply_to, const std::string& reply) {
    // In flight by the sender's books only once on_query has returned, as a forwarder's answer is.
    replies_.send(reply_to, {reinterpret_cast<const std::uint8_t*>(reply.data()), reply.size()});
  }
  void note(const Peer& client) {
    const std::scoped_lock lock(mutex_);
    if (clients_.size() < 1000) clients_.push_back(client);
  }

  ReplySender& replies_;
  unsigned worker_;
  std::vector<std::pair<ReplyTo, std::string>> held_;
  mutable std::mutex mutex_;
  std::vector<Peer> clients_;  // guarded by mutex_
};

inline SocketAddress address_of(const std::string& text) {
  const auto address = parse_socket_address(text);
  EXPECT_TRUE(address.has_value()) << text;
  return *address;
}

// Some workers on some addresses, from construction to destruction.
class Serving {
 public:
  explicit Serving(ListenerSet set, const TcpLimits& limits = {})
      : listeners(std::move(set)), budget(std::make_shared<TcpBudget>(limits)) {
    for (unsigned i = 0; i < listeners.workers(); ++i) {
      auto worker = Worker::create({.index = i, .cpu = -1, .reach_probes = nullptr}, budget);
      EXPECT_TRUE(worker.has_value());
      workers.push_back(*std::move(worker));
      sinks.push_back(std::make_unique<EchoSink>(workers.back()->replies(), i));
    }
    for (unsigned i = 0; i < listeners.workers(); ++i)
      EXPECT_TRUE(workers[i]->start(listeners, *sinks[i]).has_value());
  }
  explicit Serving(const std::vector<std::string>& addresses, unsigned count = 1,
                   const TcpLimits& limits = {})
      : Serving(open(addresses, count), limits) {}
  ~Serving() { stop(std::chrono::milliseconds(0)); }

  static ListenerSet open(const std::vector<std::string>& texts, unsigned count) {
    std::vector<SocketAddress> addresses;
    for (const std::string& text : texts) addresses.push_back(address_of(text));
    auto set = ListenerSet::open(addresses, count);
    EXPECT_TRUE(set.has_value()) << set.error().message;
    return *std::move(set);
  }

  void stop(std::chrono::milliseconds limit) {
    for (const auto& worker : workers) worker->drain(limit);
    for (const auto& worker : workers) worker->join();
  }
  SocketAddress address(std::size_t i = 0) const { return listeners.listeners()[i].address; }
  // `ip` with the port of the first listener.
  SocketAddress address(const std::string& ip) const {
    return {*IpAddress::parse(ip), address().port, ""};
  }
  // Runs `task` on a worker and waits for its end.
  void on_worker(unsigned i, const std::function<void()>& task) {
    const auto done = std::make_shared<std::promise<void>>();
    workers[i]->post([&task, done] {
      task();
      done->set_value();
    });
    done->get_future().wait();
  }
  std::uint64_t sum(Counter WorkerCounters::* counter) const {
    std::uint64_t total = 0;
    for (const auto& worker : workers) total += (worker->counters().*counter).value();
    return total;
  }
  // Waits until the counter is at least `value`.
  bool wait_for(Counter WorkerCounters::* counter, std::uint64_t value) const {
    for (int waited = 0; waited < kPatienceMs; ++waited) {
      if (sum(counter) >= value) return true;
      ::poll(nullptr, 0, 1);
    }
    return false;
  }

  ListenerSet listeners;
  std::shared_ptr<TcpBudget> budget;
  std::vector<std::unique_ptr<Worker>> workers;
  std::vector<std::unique_ptr<EchoSink>> sinks;
};

inline bool wait_readable(int fd, int timeout_ms = kPatienceMs) {
  pollfd readable{fd, POLLIN, 0};
  return ::poll(&readable, 1, timeout_ms) == 1;
}

class UdpClient {
 public:
  // `from`: the address to send from, with any port; else whatever the system takes.
  explicit UdpClient(bool v6 = false)
      : fd_(::socket(v6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    const int size = 4 << 20;
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
  }
  void send(const SocketAddress& to, const std::string& message) {
    sockaddr_storage name{};
    const auto size = to.to_sockaddr(name);
    ASSERT_TRUE(size.has_value());
    ASSERT_EQ(::sendto(fd_.get(), message.data(), message.size(), 0,
                       reinterpret_cast<sockaddr*>(&name), *size),
              static_cast<ssize_t>(message.size()));
  }
  // The next message and where it came from.
  std::optional<std::string> receive(IpAddress* from = nullptr, int timeout_ms = kPatienceMs) {
    if (!fd_ || !wait_readable(fd_.get(), timeout_ms)) return std::nullopt;
    std::array<char, 65536> buffer;
    sockaddr_storage name{};
    socklen_t size = sizeof name;
    const ssize_t n = ::recvfrom(fd_.get(), buffer.data(), buffer.size(), 0,
                                 reinterpret_cast<sockaddr*>(&name), &size);
    if (n < 0) return std::nullopt;
    if (from != nullptr) *from = *IpAddress::from_sockaddr(reinterpret_cast<sockaddr*>(&name));
    return std::string(buffer.data(), static_cast<std::size_t>(n));
  }
  std::optional<std::string> ask(const SocketAddress& to, const std::string& message,
                                 IpAddress* from = nullptr) {
    send(to, message);
    return receive(from);
  }

 private:
  FileDescriptor fd_;
};

class TcpClient {
 public:
  TcpClient() = default;
  explicit TcpClient(const SocketAddress& to, int receive_buffer = 0) {
    open(to, receive_buffer);
    connect(to);
  }
  // Socket and connection apart, for tests of what happens without file descriptors.
  void open(const SocketAddress& to, int receive_buffer = 0) {
    fd_ =
        FileDescriptor(::socket(to.ip.is_v4() ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (receive_buffer > 0)
      ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    const int on = 1;
    ::setsockopt(fd_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  bool connect(const SocketAddress& to) {
    sockaddr_storage name{};
    const auto size = to.to_sockaddr(name);
    return fd_ && size && ::connect(fd_.get(), reinterpret_cast<sockaddr*>(&name), *size) == 0;
  }

  static std::string framed(const std::string& message) {
    std::string out;
    out += static_cast<char>(message.size() >> 8);
    out += static_cast<char>(message.size());
    return out + message;
  }
  bool write(const std::string& octets) {
    for (std::size_t at = 0; at < octets.size();) {
      const ssize_t n = ::send(fd_.get(), octets.data() + at, octets.size() - at, MSG_NOSIGNAL);
      if (n < 0) return false;
      at += static_cast<std::size_t>(n);
    }
    return true;
  }
  // As much as the socket takes now.
  std::size_t write_some(const std::string& octets) {
    const ssize_t n = ::send(fd_.get(), octets.data(), octets.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    return n > 0 ? static_cast<std::size_t>(n) : 0;
  }
  bool send(const std::string& message) { return write(framed(message)); }
  void end_of_queries() { ::shutdown(fd_.get(), SHUT_WR); }
  void close() { fd_.reset(); }
  void reset() {
    const linger at_once{1, 0};
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close();
  }

  // The next message; nullopt at the end of the connection (or when none comes).
  std::optional<std::string> receive(int timeout_ms = kPatienceMs) {
    for (;;) {
      if (input_.size() >= 2) {
        const std::size_t size = id_of(input_);
        if (input_.size() - 2 >= size) {
          std::string message = input_.substr(2, size);
          input_.erase(0, 2 + size);
          return message;
        }
      }
      if (!wait_readable(fd_.get(), timeout_ms)) return std::nullopt;
      std::array<char, 65536> buffer;
      const ssize_t n = ::recv(fd_.get(), buffer.data(), buffer.size(), 0);
      if (n <= 0) return std::nullopt;
      input_.append(buffer.data(), static_cast<std::size_t>(n));
    }
  }
  // Whether the server ends the connection, and nothing but that comes.
  bool is_ended(int timeout_ms = kPatienceMs) {
    if (!wait_readable(fd_.get(), timeout_ms)) return false;
    char octet;
    return ::recv(fd_.get(), &octet, 1, 0) <= 0;
  }
  // As is_ended(), whatever comes before.
  bool is_ended_at_last() {
    std::array<char, 65536> buffer;
    while (wait_readable(fd_.get()))
      if (::recv(fd_.get(), buffer.data(), buffer.size(), 0) <= 0) return true;
    return false;
  }
  std::optional<std::string> ask(const std::string& message) {
    if (!send(message)) return std::nullopt;
    return receive();
  }

 private:
  FileDescriptor fd_;
  std::string input_;
};

}  // namespace meshdns::dnsd
