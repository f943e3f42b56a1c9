// SPDX-License-Identifier: Apache-2.0
#include "dnsd/net/udp_server.hpp"

#include <arpa/inet.h>
#include <linux/sock_diag.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "registry/base/handle.hpp"

namespace meshdns::dnsd {
namespace {

// After so many full batches the loop gets its turn: timers, TCP, other sockets.
constexpr unsigned kBatchesPerTurn = 16;
// Upper limit for the batches that a retired socket holds: 4 MiB of the smallest datagrams.
constexpr unsigned kBatchesOfRetired = 4096;
// A full send buffer is waited for this often per batch, a millisecond each; then replies are lost,
// as the network would lose them.
constexpr int kSendWaits = 3;
// After so many receive calls that brought one datagram each, the next ones ask for one only; each
// time that this number of calls is over, one asks for many again.  If more datagrams wait than
// were asked for, poll says so at once.
constexpr unsigned kCallsBetweenMany = 8;

IpAddress v4_address(const in_addr& address) {
  std::array<std::uint8_t, 4> octets;
  std::memcpy(octets.data(), &address, 4);
  return IpAddress::v4(octets);
}

IpAddress v6_address(const in6_addr& address) {
  std::array<std::uint8_t, 16> octets;
  std::memcpy(octets.data(), &address, 16);
  return IpAddress::v6(octets);
}

bool is_link_local(const IpAddress& address) {
  return address.is_v6() && address.octets()[0] == 0xfe && (address.octets()[1] & 0xc0) == 0x80;
}

// Reads which address was asked and on which interface.
void read_local(msghdr& header, ReplyTo& reply_to) {
  for (cmsghdr* c = CMSG_FIRSTHDR(&header); c != nullptr; c = CMSG_NXTHDR(&header, c)) {
    if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
      in_pktinfo info;
      std::memcpy(&info, CMSG_DATA(c), sizeof info);
      reply_to.client.local = v4_address(info.ipi_addr);
      reply_to.interface = static_cast<std::uint32_t>(info.ipi_ifindex);
    } else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO) {
      in6_pktinfo info;
      std::memcpy(&info, CMSG_DATA(c), sizeof info);
      reply_to.client.local = v6_address(info.ipi6_addr);
      reply_to.interface = info.ipi6_ifindex;
    }
  }
}

// Says which address the reply leaves from.  The interface is left to routing but for link-local
// addresses, which mean nothing without one.
void write_local(msghdr& header, UdpBatch::Control& control, int family, const ReplyTo& reply_to) {
  header.msg_control = control.octets;
  const IpAddress& local = reply_to.client.local;
  auto* const c = reinterpret_cast<cmsghdr*>(control.octets);
  if (family == AF_INET) {
    in_pktinfo info{};
    std::memcpy(&info.ipi_spec_dst, local.octets().data() + 12, 4);
    *c = {CMSG_LEN(sizeof info), IPPROTO_IP, IP_PKTINFO};
    std::memcpy(CMSG_DATA(c), &info, sizeof info);
    header.msg_controllen = CMSG_SPACE(sizeof info);
    return;
  }
  in6_pktinfo info{};
  std::memcpy(&info.ipi6_addr, local.octets().data(), 16);
  info.ipi6_ifindex = is_link_local(local) ? reply_to.interface : 0;
  *c = {CMSG_LEN(sizeof info), IPPROTO_IPV6, IPV6_PKTINFO};
  std::memcpy(CMSG_DATA(c), &info, sizeof info);
  header.msg_controllen = CMSG_SPACE(sizeof info);
}

socklen_t write_peer(PeerName& name, int family, const ReplyTo& reply_to) {
  const auto& octets = reply_to.client.address.octets();
  if (family == AF_INET) {
    name.v4 = {};
    name.v4.sin_family = AF_INET;
    name.v4.sin_port = htons(reply_to.client.port);
    std::memcpy(&name.v4.sin_addr, octets.data() + 12, 4);
    return sizeof name.v4;
  }
  name.v6 = {};
  name.v6.sin6_family = AF_INET6;
  name.v6.sin6_port = htons(reply_to.client.port);
  name.v6.sin6_scope_id = reply_to.scope;
  std::memcpy(&name.v6.sin6_addr, octets.data(), 16);
  return sizeof name.v6;
}

// Takes the socket out of its SO_REUSEPORT group, so that the kernel gives new queries to the
// others while we empty it: a connected socket only hears its peer, here itself.
void leave_group(const ListenSocket& socket) {
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  if (::getsockname(socket.fd.get(), reinterpret_cast<sockaddr*>(&own), &size) != 0) return;
  [[maybe_unused]] const int failed =
      ::connect(socket.fd.get(), reinterpret_cast<const sockaddr*>(&own), size);
}

}  // namespace

// Owned by the callback of its poll, which goes when the loop has closed the handle: the socket may
// be in use when it is closed.
struct UdpServer::Socket {
  loop::Poll poll;
  std::shared_ptr<ListenSocket> listen;
  std::uint32_t slot;
  int family;
  bool retired = false;
  std::uint32_t overflow = 0;  // as the kernel last said
  unsigned single_calls = 0;   // in a row that brought one datagram

  // The destination address of a datagram on a wildcard listener comes with the calls for many.
  bool asks_for_one() const {
    return !listen->wildcard && single_calls > kCallsBetweenMany &&
           single_calls % kCallsBetweenMany != 0;
  }

  int fd() const { return listen->fd.get(); }
};

UdpBatch::UdpBatch() : buffers_(new std::uint8_t[kStride * kSize]) {
  messages = {};
  for (unsigned i = 0; i < kSize; ++i) {
    vectors[i] = {buffer(i), kUdpBufferSize};
    messages[i].msg_hdr.msg_iov = &vectors[i];
    messages[i].msg_hdr.msg_iovlen = 1;
    messages[i].msg_hdr.msg_name = &names[i];
  }
}

UdpServer::UdpServer(uv_loop_t* loop, WorkerCounters& counters,
                     std::shared_ptr<ReachProbes> reach_probes)
    : loop_(loop), counters_(counters), reach_probes_(std::move(reach_probes)) {
  out_ = {};
  for (unsigned i = 0; i < UdpBatch::kSize; ++i) {
    out_[i].msg_hdr.msg_iov = &out_vectors_[i];
    out_[i].msg_hdr.msg_iovlen = 1;
  }
}

UdpServer::~UdpServer() = default;

int UdpServer::add(std::shared_ptr<ListenSocket> listen) {
  std::size_t slot = 0;
  while (slot < sockets_.size() && sockets_[slot]) ++slot;
  if (slot == sockets_.size()) {
    sockets_.emplace_back();
    generations_.push_back(0);
  }
  const auto socket = std::make_shared<Socket>();
  socket->slot = static_cast<std::uint32_t>(slot);
  int domain = 0;
  socklen_t size = sizeof domain;
  ::getsockopt(listen->fd.get(), SOL_SOCKET, SO_DOMAIN, &domain, &size);
  socket->family = domain;
  socket->listen = std::move(listen);
  const auto readable = [this, socket](int status, int) { on_readable(*socket, status); };
  if (const int error = socket->poll.open(loop_, socket->fd(), readable); error != 0) return error;
  socket->poll.watch(watched_);
  sockets_[slot] = socket;
  return 0;
}

bool UdpServer::has(const ListenSocket& listen) const {
  return std::any_of(sockets_.begin(), sockets_.end(),
                     [&](const auto& s) { return s && !s->retired && s->listen.get() == &listen; });
}

std::vector<const ListenSocket*> UdpServer::sockets() const {
  std::vector<const ListenSocket*> all;
  for (const auto& s : sockets_)
    if (s && !s->retired) all.push_back(s->listen.get());
  return all;
}

void UdpServer::stop_reading() {
  watched_ = 0;
  for (const auto& s : sockets_)
    if (s) s->poll.watch(0);
}

void UdpServer::read_again() {
  watched_ = UV_READABLE;
  for (const auto& s : sockets_)
    if (s && !s->retired) s->poll.watch(UV_READABLE);
}

void UdpServer::retire(const ListenSocket& listen, Waiting waiting) {
  for (const auto& s : sockets_) {
    if (!s || s->retired || s->listen.get() != &listen) continue;
    // An inherited socket's queue is for the next process, as is that of one that others serve,
    // too; ours ends with the socket.
    if (!listen.inherited && waiting == Waiting::Answered) {
      leave_group(listen);
      s->single_calls = 0;
      read_batches(*s, kBatchesOfRetired);
    }
    s->retired = true;
    s->poll.watch(0);
  }
}

void UdpServer::close_retired() {
  flush();
  for (auto& s : sockets_) {
    if (!s || !s->retired) continue;
    ++generations_[s->slot];
    s->poll.close();
    s.reset();
  }
}

void UdpServer::close_all() {
  for (const auto& s : sockets_)
    if (s) s->retired = true;
  close_retired();
}

void UdpServer::set_own_addresses(std::vector<SocketAddress> addresses) {
  own_addresses_ = std::move(addresses);
}

// --- queries and their replies -------------------------------------------------------------------

void UdpServer::on_readable(Socket& socket, int status) {
  if (status < 0) {
    // libuv stops polling on a socket error; for UDP it concerns one packet, not the socket.
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &size);
    counters_.udp_receive_errors.add();
    socket.poll.watch(watched_);
  }
  read_batches(socket, kBatchesPerTurn);
}

void UdpServer::read_batches(Socket& socket, unsigned most) {
  for (unsigned i = 0; i < most; ++i) {
    const unsigned received = receive(socket);
    if (received == 0) return;
    const std::size_t accepted = accept_batch(socket, received);
    if (accepted > 0) answer_batch(socket, accepted);
    if (received < UdpBatch::kSize) return;  // it was empty; should more have come, poll says so
  }
}

unsigned UdpServer::receive(Socket& socket) {
  const int n = socket.asks_for_one() ? receive_one(socket) : receive_many(socket);
  if (n > 0) {
    socket.single_calls = n == 1 ? socket.single_calls + 1 : 0;
    counters_.udp_batches.add();
    counters_.udp_queries.add(static_cast<unsigned>(n));
    return static_cast<unsigned>(n);
  }
  if (errno != EAGAIN && errno != EINTR) counters_.udp_receive_errors.add();
  return 0;
}

int UdpServer::receive_one(const Socket& socket) {
  socklen_t peer_size = sizeof(PeerName);
  const ssize_t size = ::recvfrom(socket.fd(), in_.buffer(0), kUdpBufferSize,
                                  MSG_DONTWAIT | MSG_TRUNC, &in_.names[0].any, &peer_size);
  if (size < 0) return -1;
  in_used_ = std::max(in_used_, 1U);
  in_.messages[0].msg_len = static_cast<unsigned>(size);
  in_.messages[0].msg_hdr.msg_namelen = peer_size;
  in_.messages[0].msg_hdr.msg_flags = std::cmp_greater(size, kUdpBufferSize) ? MSG_TRUNC : 0;
  return 1;
}

int UdpServer::receive_many(const Socket& socket) {
  const bool wildcard = socket.listen->wildcard;
  // Only what the last call wrote is set back.
  if (wildcard != in_has_control_) in_used_ = UdpBatch::kSize;
  in_has_control_ = wildcard;
  for (unsigned i = 0; i < in_used_; ++i) {
    msghdr& header = in_.messages[i].msg_hdr;
    header.msg_namelen = sizeof(PeerName);
    header.msg_control = wildcard ? in_.controls[i].octets : nullptr;
    header.msg_controllen = wildcard ? sizeof(UdpBatch::Control) : 0;
  }
  const int n =
      ::recvmmsg(socket.fd(), in_.messages.data(), UdpBatch::kSize, MSG_DONTWAIT, nullptr);
  in_used_ = n > 0 ? static_cast<unsigned>(n) : 1;
  return n;
}

std::size_t UdpServer::accept_batch(const Socket& socket, unsigned received) {
  std::size_t accepted = 0;
  for (unsigned i = 0; i < received; ++i) {
    if (!accept_datagram(socket, i, datagrams_[accepted])) continue;
    origin_[accepted] = static_cast<std::uint8_t>(i);
    ++accepted;
  }
  return accepted;
}

bool UdpServer::accept_datagram(const Socket& socket, unsigned i, Datagram& datagram) {
  mmsghdr& message = in_.messages[i];
  if ((message.msg_hdr.msg_flags & MSG_TRUNC) != 0) {
    counters_.udp_dropped_long.add();
    return false;
  }
  const PeerName& peer = in_.names[i];
  ReplyTo& reply_to = datagram.reply_to;
  Peer& client = reply_to.client;
  if (socket.family == AF_INET) {
    client.address = v4_address(peer.v4.sin_addr);
    client.port = ntohs(peer.v4.sin_port);
    reply_to.scope = 0;
  } else {
    client.address = v6_address(peer.v6.sin6_addr);
    client.port = ntohs(peer.v6.sin6_port);
    reply_to.scope = peer.v6.sin6_scope_id;
  }
  client.local = socket.listen->address.ip;
  client.local_port = socket.listen->address.port;
  reply_to.interface = 0;
  if (socket.listen->wildcard) read_local(message.msg_hdr, reply_to);
  if (client.port == 0 || is_own_address(client)) {
    counters_.udp_dropped_source.add();
    return false;
  }
  reply_to.slot = socket.slot;
  reply_to.generation = generations_[socket.slot];
  datagram.buffer = {in_.buffer(i), kUdpBufferSize};
  datagram.query_size = message.msg_len;
  datagram.reply_size = 0;
  return true;
}

bool UdpServer::is_own_address(const Peer& client) const {
  for (const SocketAddress& own : own_addresses_) {
    if (own.port != client.port) continue;
    if (own.ip == client.address) return true;
    if (own.ip.is_unspecified() && (client.address == client.local || client.address.is_loopback()))
      return true;
  }
  return false;
}

void UdpServer::answer_batch(Socket& socket, std::size_t accepted) {
  sink_->on_batch({datagrams_.data(), accepted});
  std::size_t replies = 0;
  for (std::size_t i = 0; i < accepted; ++i) {
    const Datagram& datagram = datagrams_[i];
    if (datagram.reply_size == QuerySink::kNoReply) {
      if (reach_probes_) reach_probes_->note(datagram.buffer.first(datagram.query_size));
      continue;
    }
    counters_.udp_query_sizes.add(datagram.query_size);
    if (datagram.reply_size == QuerySink::kReplyLater) continue;
    if (datagram.reply_size > kUdpBufferSize) {
      counters_.udp_dropped_long.add();
      continue;
    }
    const unsigned from = origin_[i];
    msghdr& header = out_[replies].msg_hdr;
    out_vectors_[replies] = {datagram.buffer.data(), datagram.reply_size};
    counters_.udp_reply_sizes.add(datagram.reply_size);
    header.msg_name = &in_.names[from];
    header.msg_namelen = in_.messages[from].msg_hdr.msg_namelen;
    header.msg_control = nullptr;
    header.msg_controllen = 0;
    if (socket.listen->wildcard)
      write_local(header, in_.controls[from], socket.family, datagram.reply_to);
    ++replies;
  }
  if (replies > 0) counters_.udp_replies.add(send(socket.fd(), out_.data(), replies));
}

// As sendmmsg().
int UdpServer::send_some(int fd, mmsghdr* messages, std::size_t count) {
  constexpr int kFlags = MSG_DONTWAIT | MSG_NOSIGNAL;
  if (count > 1) return ::sendmmsg(fd, messages, static_cast<unsigned>(count), kFlags);
  const msghdr& only = messages->msg_hdr;
  const ssize_t sent =
      only.msg_controllen > 0
          ? ::sendmsg(fd, &only, kFlags)
          : ::sendto(fd, only.msg_iov->iov_base, only.msg_iov->iov_len, kFlags,
                     static_cast<const sockaddr*>(only.msg_name), only.msg_namelen);
  return sent < 0 ? -1 : 1;
}

// Returns how many left.
std::size_t UdpServer::send(int fd, mmsghdr* messages, std::size_t count) {
  std::size_t lost = 0;
  int waits = 0;
  for (std::size_t done = 0; done < count;) {
    const int n = send_some(fd, messages + done, count - done);
    if (n > 0) {
      done += static_cast<std::size_t>(n);
      continue;
    }
    if (errno == EINTR) continue;
    const bool full = errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM;
    if (full && waits++ < kSendWaits) {
      pollfd writable{fd, POLLOUT, 0};
      ::poll(&writable, 1, 1);
      continue;
    }
    ++done;  // this one the kernel does not take: no route, a filter, or still no room
    ++lost;
    counters_.udp_send_errors.add();
  }
  return count - lost;
}

// --- late replies --------------------------------------------------------------------------------

UdpServer::Socket* UdpServer::find(const ReplyTo& reply_to) {
  if (reply_to.slot >= sockets_.size() || generations_[reply_to.slot] != reply_to.generation)
    return nullptr;
  return sockets_[reply_to.slot].get();
}

void UdpServer::send_later(const ReplyTo& reply_to, std::span<const std::uint8_t> message) {
  const Socket* const socket = find(reply_to);
  if (socket == nullptr || message.empty()) return;
  if (message.size() > kUdpBufferSize) {
    counters_.udp_dropped_long.add();
    return;
  }
  if (late_count_ == UdpBatch::kSize) flush();
  const unsigned i = late_count_++;
  late_fds_[i] = socket->fd();
  std::memcpy(late_.buffer(i), message.data(), message.size());
  late_.vectors[i].iov_len = message.size();
  counters_.udp_reply_sizes.add(message.size());
  msghdr& header = late_.messages[i].msg_hdr;
  header.msg_namelen = write_peer(late_.names[i], socket->family, reply_to);
  header.msg_control = nullptr;
  header.msg_controllen = 0;
  if (socket->listen->wildcard) write_local(header, late_.controls[i], socket->family, reply_to);
}

void UdpServer::flush() {
  for (unsigned start = 0; start < late_count_;) {
    unsigned end = start + 1;
    while (end < late_count_ && late_fds_[end] == late_fds_[start]) ++end;
    const std::size_t sent = send(late_fds_[start], &late_.messages[start], end - start);
    counters_.udp_replies.add(sent);
    counters_.udp_late_replies.add(sent);
    start = end;
  }
  late_count_ = 0;
}

// Read from the socket once in a while: SO_RXQ_OVFL would add a control message to every datagram.
void UdpServer::count_overflow() {
  for (const auto& s : sockets_) {
    if (!s) continue;
    std::array<std::uint32_t, SK_MEMINFO_VARS> info{};
    socklen_t size = sizeof info;
    if (::getsockopt(s->fd(), SOL_SOCKET, SO_MEMINFO, info.data(), &size) != 0) continue;
    const std::uint32_t drops = info[SK_MEMINFO_DROPS];
    counters_.udp_socket_overflow.add(drops - s->overflow);
    s->overflow = drops;
  }
}

}  // namespace meshdns::dnsd
