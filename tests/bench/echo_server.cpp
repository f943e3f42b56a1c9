// SPDX-License-Identifier: Apache-2.0
// The limit that other servers are measured against: what the kernel's sockets cost when each query
// is sent back as it came, but for the QR bit.  One thread; datagrams are received and sent in
// batches, the messages of one TCP read leave in one write.
//
//   echo_server IPV4 PORT
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

namespace {

constexpr unsigned kBatchSize = 64;
constexpr std::size_t kBufferSize = 4096;
constexpr std::size_t kStreamSize = 65536 + 2;
constexpr std::uint8_t kResponse = 0x80;

[[noreturn]] void die(const char* what) {
  std::perror(what);
  std::exit(1);
}

sockaddr_in parse_address(const char* ip, const char* port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(std::atoi(port)));
  if (inet_pton(AF_INET, ip, &address.sin_addr) != 1) {
    std::fprintf(stderr, "echo_server: '%s' is no IPv4 address\n", ip);
    std::exit(2);
  }
  return address;
}

class UdpEcho {
 public:
  explicit UdpEcho(int fd) : fd_(fd), octets_(kBatchSize * kBufferSize) {
    for (unsigned i = 0; i < kBatchSize; ++i) {
      vectors_[i] = {octets_.data() + i * kBufferSize, kBufferSize};
      messages_[i] = {};
      messages_[i].msg_hdr.msg_iov = &vectors_[i];
      messages_[i].msg_hdr.msg_iovlen = 1;
      messages_[i].msg_hdr.msg_name = &peers_[i];
    }
  }

  // Answers what is there; returns when nothing more is.
  void serve() {
    for (;;) {
      for (unsigned i = 0; i < used_; ++i) {
        vectors_[i].iov_len = kBufferSize;
        messages_[i].msg_hdr.msg_namelen = sizeof(sockaddr_in);
      }
      const int n = ::recvmmsg(fd_, messages_.data(), kBatchSize, MSG_DONTWAIT, nullptr);
      if (n <= 0) return;
      used_ = static_cast<unsigned>(n);
      for (unsigned i = 0; i < used_; ++i) {
        vectors_[i].iov_len = messages_[i].msg_len;
        octets_[i * kBufferSize + 2] |= kResponse;
      }
      send(used_);
      if (used_ < kBatchSize) return;
    }
  }

 private:
  void send(unsigned count) {
    for (unsigned done = 0; done < count;) {
      const int n = ::sendmmsg(fd_, messages_.data() + done, count - done, 0);
      done += n > 0 ? static_cast<unsigned>(n) : 1;  // one that the kernel does not take is lost
    }
  }

  const int fd_;
  unsigned used_ = kBatchSize;
  std::vector<std::uint8_t> octets_;
  std::array<mmsghdr, kBatchSize> messages_;
  std::array<iovec, kBatchSize> vectors_;
  std::array<sockaddr_in, kBatchSize> peers_;
};

class StreamEcho {
 public:
  explicit StreamEcho(int fd) : fd_(fd), octets_(kStreamSize) {}
  StreamEcho(const StreamEcho&) = delete;
  StreamEcho& operator=(const StreamEcho&) = delete;
  ~StreamEcho() { ::close(fd_); }
  int fd() const { return fd_; }

  // False: the connection has ended.
  bool serve() {
    const ssize_t n = ::read(fd_, octets_.data() + size_, octets_.size() - size_);
    if (n <= 0) return n < 0 && errno == EAGAIN;
    size_ += static_cast<std::size_t>(n);
    std::size_t end = 0;
    while (size_ - end >= 2) {
      const std::size_t message = (octets_[end] * 256U + octets_[end + 1]) + std::size_t{2};
      if (size_ - end < message) break;
      if (message > 4) octets_[end + 4] |= kResponse;
      end += message;
    }
    for (std::size_t sent = 0; sent < end;) {
      const ssize_t written = ::write(fd_, octets_.data() + sent, end - sent);
      if (written <= 0) return false;  // a client that does not read is not worth a queue here
      sent += static_cast<std::size_t>(written);
    }
    std::copy(octets_.begin() + static_cast<std::ptrdiff_t>(end),
              octets_.begin() + static_cast<std::ptrdiff_t>(size_), octets_.begin());
    size_ -= end;
    return true;
  }

 private:
  const int fd_;
  std::vector<std::uint8_t> octets_;
  std::size_t size_ = 0;
};

void watch(int poll, int fd, void* what) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = what;
  if (::epoll_ctl(poll, EPOLL_CTL_ADD, fd, &event) != 0) die("epoll_ctl");
}

int bound_socket(int type, const sockaddr_in& address) {
  const int fd = ::socket(AF_INET, type | SOCK_NONBLOCK, 0);
  const int on = 1;
  if (fd < 0 || ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
      ::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    die("bind");
  return fd;
}

// As a server has: while the machine stands still, what finds no room is lost, and has no latency.
void give_room(int udp) {
  const int octets = 4 << 20;
  if (::setsockopt(udp, SOL_SOCKET, SO_RCVBUFFORCE, &octets, sizeof octets) != 0)
    (void)::setsockopt(udp, SOL_SOCKET, SO_RCVBUF, &octets, sizeof octets);
}

void accept_stream(int poll, int listener) {
  const int fd = ::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK);
  if (fd < 0) return;
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  watch(poll, fd, new StreamEcho(fd));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: echo_server IPV4 PORT\n");
    return 2;
  }
  const sockaddr_in address = parse_address(argv[1], argv[2]);
  const int udp = bound_socket(SOCK_DGRAM, address);
  give_room(udp);
  const int listener = bound_socket(SOCK_STREAM, address);
  if (::listen(listener, 128) != 0) die("listen");
  UdpEcho datagrams(udp);
  const int poll = ::epoll_create1(0);
  watch(poll, udp, &datagrams);
  watch(poll, listener, nullptr);
  std::array<epoll_event, 64> events;
  for (;;) {
    const int n = ::epoll_wait(poll, events.data(), events.size(), -1);
    for (int i = 0; i < n; ++i) {
      void* const who = events[static_cast<std::size_t>(i)].data.ptr;
      if (who == nullptr) {
        accept_stream(poll, listener);
      } else if (who == &datagrams) {
        datagrams.serve();
      } else if (auto* const stream = static_cast<StreamEcho*>(who); !stream->serve()) {
        delete stream;
      }
    }
  }
}
