// SPDX-License-Identifier: Apache-2.0
// Any octets, in pieces of any size, from a TCP client: each whole message is answered, in order,
// and what is no framing ends the connection (RFC 1035, section 4.2.2; RFC 7766).
//
// The input is what the client writes, piece by piece: the size of the piece in one octet, then its
// octets.  A size of 0 stands for `kLargePiece` octets of one letter, which go beyond each buffer.
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "dnsd/net/tcp_server.hpp"
#include "tests/fuzz/require.hpp"

namespace {

using namespace meshdns::dnsd;
using meshdns::fuzz::require;

constexpr std::size_t kHeader = 12;
constexpr std::size_t kLargePiece = 20'000;

// The query back as its reply; at once, or late in the same turn of the loop, as its first octet
// says.
class EchoSink final : public QuerySink {
 public:
  explicit EchoSink(TcpServer& server) : server_(server) {}

  std::size_t on_query(std::span<std::uint8_t> buffer, std::size_t size,
                       const ReplyTo& reply_to) override {
    require(size >= kHeader && size <= buffer.size());
    if (buffer[0] % 2 == 0) return size;
    late_.emplace_back(reply_to, std::string(buffer.begin(), buffer.begin() + size));
    return kReplyLater;
  }
  // True: there were some.
  bool send_late() {
    const auto late = std::exchange(late_, {});
    for (const auto& [reply_to, text] : late)
      server_.send_later(reply_to,
                         {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
    server_.flush();
    return !late.empty();
  }

 private:
  TcpServer& server_;
  std::vector<std::pair<ReplyTo, std::string>> late_;
};

// A server for all inputs; a connection for each.
class Server {
 public:
  Server() {
    require(uv_loop_init(&loop_) == 0);
    const SocketAddress any = *parse_socket_address("127.0.0.1:0");
    auto set = ListenerSet::open({&any, 1}, 1);
    require(set.has_value());
    address_ = set->listeners()[0].address;
    TcpLimits limits;
    limits.max_connections = 100'000;
    limits.max_connections_per_client = 100'000;
    server_ = new TcpServer(&loop_, counters_, std::make_shared<TcpBudget>(limits), 0);
    sink_ = new EchoSink(*server_);
    server_->set_sink(sink_);
    require(server_->add(set->listeners()[0].tcp[0]) == 0);
  }
  int connect_client() const {
    sockaddr_storage address{};
    const auto size = address_.to_sockaddr(address);
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    require(fd >= 0 && ::connect(fd, reinterpret_cast<sockaddr*>(&address), *size) == 0);
    return fd;
  }
  void turn() {
    do {
      uv_run(&loop_, UV_RUN_NOWAIT);
    } while (sink_->send_late());
  }
  bool has_connections() const { return server_->has_connections(); }

 private:
  uv_loop_t loop_;
  WorkerCounters counters_;
  SocketAddress address_;
  TcpServer* server_;  // with all that follows, until the process ends
  EchoSink* sink_;
};

class FuzzClient {
 public:
  explicit FuzzClient(Server& server) : server_(server), fd_(server.connect_client()) {}
  ~FuzzClient() {
    ::close(fd_);
    server_.turn();
  }

  // Fewer than all where the server has closed.
  void write(std::string_view octets) {
    while (!octets.empty() && !ended_) {
      const ssize_t n = ::send(fd_, octets.data(), octets.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      if (n < 0 && errno != EAGAIN) return;
      octets.remove_prefix(n > 0 ? static_cast<std::size_t>(n) : 0);
      receive();
    }
  }
  std::string finish() {
    ::shutdown(fd_, SHUT_WR);
    while (!ended_) receive();
    return received_;
  }

 private:
  void receive() {
    server_.turn();
    char octets[16 * 1024];
    ssize_t n = 0;
    while ((n = ::recv(fd_, octets, sizeof octets, MSG_DONTWAIT)) > 0)
      received_.append(octets, static_cast<std::size_t>(n));
    ended_ = n == 0 || (errno != EAGAIN && errno != EINTR);
  }

  Server& server_;
  int fd_;
  bool ended_ = false;
  std::string received_;
};

// The messages of `octets` that have their whole size, until one that is too short for a header.
std::vector<std::string> messages(std::string_view octets, bool& broken) {
  std::vector<std::string> all;
  broken = false;
  while (octets.size() >= 2) {
    const std::size_t size =
        static_cast<std::uint8_t>(octets[0]) << 8U | static_cast<std::uint8_t>(octets[1]);
    broken = size < kHeader;
    if (broken || octets.size() - 2 < size) break;
    all.emplace_back(octets.substr(2, size));
    octets.remove_prefix(2 + size);
  }
  return all;
}

std::vector<std::string> immediate(const std::vector<std::string>& all) {
  std::vector<std::string> some;
  std::copy_if(all.begin(), all.end(), std::back_inserter(some),
               [](const std::string& m) { return static_cast<std::uint8_t>(m[0]) % 2 == 0; });
  return some;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Server server;
  std::string written;
  bool broken = false;
  {
    FuzzClient client(server);
    for (std::size_t at = 0; at < size;) {
      const std::size_t length = std::min<std::size_t>(data[at], size - at - 1);
      const std::string piece = data[at] == 0 ? std::string(kLargePiece, 'x')
                                              : std::string(data + at + 1, data + at + 1 + length);
      at += 1 + length;
      client.write(piece);
      written += piece;
    }
    auto asked = messages(written, broken);
    bool garbled = false;
    auto answered = messages(client.finish(), garbled);
    require(!garbled);
    // Late replies may be overtaken; the others keep their order.
    require(broken || immediate(answered) == immediate(asked));
    std::sort(asked.begin(), asked.end());
    std::sort(answered.begin(), answered.end());
    require(broken ? std::includes(asked.begin(), asked.end(), answered.begin(), answered.end())
                   : asked == answered);
  }
  require(!server.has_connections());
  return 0;
}
