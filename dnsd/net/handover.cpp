// SPDX-License-Identifier: Apache-2.0
#include "dnsd/net/handover.hpp"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "registry/base/socket_address.hpp"

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

namespace meshdns::dnsd {
namespace {

constexpr std::string_view kGreeting = "meshdns-handover 1";
constexpr std::string_view kRefusal = "busy: ";
constexpr std::string_view kWanted = "sockets";  // then a line for each address
constexpr std::string_view kEnd = "end";
constexpr std::string_view kServing = "serving";
constexpr std::string_view kStopped = "stopped";

constexpr std::size_t kMessageSize = 65'536;
// The kernel passes at most 253 descriptors with one message.
constexpr std::size_t kSocketsPerMessage = 128;
// 1024 workers, two protocols, some addresses: beyond that the peer is broken.
constexpr std::size_t kMostSockets = 16'384;

FileDescriptor packet_socket(int flags) {
  return FileDescriptor(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0));
}

bool is_own_or_root(uid_t user) { return user == 0 || user == ::geteuid(); }

// A user who can write to the directory can put a socket of his own there.
Result<void> check_directory(const std::string& path) {
  const std::string directory = std::filesystem::path(path).parent_path().string();
  struct stat status{};
  if (!path.starts_with('/')) return fail(path + " must be an absolute path");
  if (::stat(directory.c_str(), &status) != 0)
    return fail("cannot use the directory " + directory + ": " + std::strerror(errno));
  if (!S_ISDIR(status.st_mode)) return fail(directory + " is not a directory");
  if (!is_own_or_root(status.st_uid))
    return fail("the directory " + directory + " belongs to user " + std::to_string(status.st_uid) +
                "; it must belong to the user of the daemon (" + std::to_string(::geteuid()) +
                ") or to root");
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return fail("other users can write to the directory " + directory + "; remove that permission");
  return {};
}

std::optional<ucred> peer_of(int connection) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return std::nullopt;
  return peer;
}

Result<ucred> trusted_peer(int connection) {
  const auto peer = peer_of(connection);
  if (!peer) return fail(std::string("cannot tell which user it runs as: ") + std::strerror(errno));
  if (!is_own_or_root(peer->uid))
    return fail("process " + std::to_string(peer->pid) + " runs as user " +
                std::to_string(peer->uid) + ", not as the user of this daemon or root");
  return *peer;
}

void limit_waiting(int connection) {
  const timeval patience{Predecessor::kPatienceSeconds, 0};
  for (const int option : {SO_RCVTIMEO, SO_SNDTIMEO})
    ::setsockopt(connection, SOL_SOCKET, option, &patience, sizeof patience);
}

// 0 where the kernel does not tell (before Linux 5.14).
std::uint64_t namespace_of(int socket) {
  std::uint64_t cookie = 0;
  socklen_t size = sizeof cookie;
  return ::getsockopt(socket, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &size) == 0 ? cookie : 0;
}

// --- messages ------------------------------------------------------------------------------------

bool send_message(int connection, std::string_view text, std::span<const int> sockets = {}) {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kSocketsPerMessage * sizeof(int))> control{};
  iovec vector{const_cast<char*>(text.data()), text.size()};
  msghdr message{};
  message.msg_iov = &vector;
  message.msg_iovlen = 1;
  if (!sockets.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(sockets.size_bytes());
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sockets.size_bytes());
    std::memcpy(CMSG_DATA(header), sockets.data(), sockets.size_bytes());
  }
  ssize_t sent = 0;
  do sent = ::sendmsg(connection, &message, MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(text.size());
}

struct Message {
  std::string text;
  std::vector<FileDescriptor> sockets;
};

enum class Receipt : std::uint8_t { Message, NothingYet, End };

// Descriptors that come are owned at once, whatever is wrong with their message.
Receipt receive_message(int connection, int flags, Message& into) {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kSocketsPerMessage * sizeof(int))> control{};
  into.sockets.clear();
  into.text.resize(kMessageSize);
  iovec vector{into.text.data(), into.text.size()};
  msghdr message{};
  message.msg_iov = &vector;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t got = 0;
  do got = ::recvmsg(connection, &message, flags | MSG_CMSG_CLOEXEC);
  while (got < 0 && errno == EINTR);
  into.text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  if (got < 0) return errno == EAGAIN ? Receipt::NothingYet : Receipt::End;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof fd);
      into.sockets.emplace_back(fd);
    }
  }
  const bool is_whole = (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0;
  return got > 0 && is_whole ? Receipt::Message : Receipt::End;
}

Result<Message> await_message(int connection) {
  Message message;
  switch (receive_message(connection, 0, message)) {
    case Receipt::Message:
      return message;
    case Receipt::NothingYet:
      return fail("no answer within " + std::to_string(Predecessor::kPatienceSeconds) + " s");
    case Receipt::End:
      break;
  }
  return fail("it closed the connection");
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

}  // namespace

// --- the daemon that runs ------------------------------------------------------------------------

Result<void> Handover::listen(uv_loop_t* loop, const std::string& path) {
  stop_listening();
  loop_ = loop;
  const auto cannot = [](const std::string& why) { return fail("server.handover: " + why); };
  if (auto checked = check_directory(path); !checked) return cannot(checked.error().message);
  // Renamed into place: nobody unlinks a path that another daemon may have taken meanwhile, and
  // there is no moment without a socket.
  const std::string fresh = path + ".new";
  const auto name = unix_socket_name(fresh);
  if (!name) return cannot(path + " is too long");
  FileDescriptor fd = packet_socket(SOCK_NONBLOCK);
  ::unlink(fresh.c_str());
  // The descriptor's mode becomes that of the file (unix(7)).
  if (!fd || ::fchmod(fd.get(), 0600) != 0 ||
      ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&*name), sizeof *name) != 0 ||
      ::listen(fd.get(), 4) != 0 || std::rename(fresh.c_str(), path.c_str()) != 0)
    return cannot("cannot listen on " + path + ": " + std::strerror(errno));
  if (const int error = poll_.open(loop, fd.get(), [this](int, int) { accept(); }); error != 0)
    return cannot(std::string("cannot poll the socket: ") + uv_strerror(error));
  poll_.watch(UV_READABLE);
  fd_ = std::move(fd);
  return {};
}

void Handover::stop_listening() {
  poll_.close();
  fd_.reset();
}

void Handover::stop() {
  stop_listening();
  if (successor_serves())
    successor_->poll.close();
  else
    successor_.reset();
}

void Handover::accept() {
  FileDescriptor connection(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!connection) return;
  if (const auto peer = trusted_peer(connection.get()); !peer)
    return hooks_.on_refused(peer.error().message);
  // The peer reads; one that does not cannot hold up this thread for long.
  limit_waiting(connection.get());
  if (successor_) {
    send_message(connection.get(), std::string(kRefusal) + "another process is taking over");
    return hooks_.on_refused("another process is taking over");
  }
  if (!send_message(connection.get(), kGreeting)) return;
  successor_.emplace().step = Step::Connected;
  successor_->fd = std::move(connection);
  const auto readable = [this](int, int) { read_successor(); };
  if (successor_->poll.open(loop_, successor_->fd.get(), readable) != 0) return successor_.reset();
  successor_->poll.watch(UV_READABLE);
}

void Handover::read_successor() {
  Message message;
  const Receipt receipt = receive_message(successor_->fd.get(), MSG_DONTWAIT, message);
  if (receipt == Receipt::NothingYet) return;
  if (receipt == Receipt::Message && successor_->step == Step::Connected &&
      message.text.starts_with(kWanted) && hand_over(message.text)) {
    successor_->step = Step::HasSockets;
    return;
  }
  if (receipt == Receipt::Message && successor_->step == Step::HasSockets &&
      message.text == kServing) {
    successor_->step = Step::Serving;
    stop_listening();
    hooks_.on_serving();
    if (successor_) send_message(successor_->fd.get(), kStopped);
    return;
  }
  lose_successor();
}

bool Handover::hand_over(std::string_view request) {
  std::vector<std::string> wanted = lines_of(request);
  wanted.erase(wanted.begin());
  const int connection = successor_->fd.get();
  for (const SharedListener& listener : hooks_.share(wanted))
    for (std::span<const int> rest(listener.sockets); !rest.empty();) {
      const std::size_t count = std::min(rest.size(), kSocketsPerMessage);
      if (!send_message(connection, listener.requested.to_string(), rest.first(count)))
        return false;
      rest = rest.subspan(count);
    }
  return send_message(connection, kEnd);
}

void Handover::lose_successor() {
  const bool has_served = successor_serves();
  successor_.reset();
  hooks_.on_lost(has_served);
}

// --- the next daemon -----------------------------------------------------------------------------

Result<std::optional<Predecessor>> Predecessor::find(const std::string& path) {
  if (auto checked = check_directory(path); !checked) return std::unexpected(checked.error());
  const auto name = unix_socket_name(path);
  if (!name) return fail(path + " is too long");
  FileDescriptor fd = packet_socket(0);
  if (!fd) return fail(std::strerror(errno));
  limit_waiting(fd.get());
  int connected = -1;
  do connected = ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&*name), sizeof *name);
  while (connected != 0 && errno == EINTR);
  if (connected != 0) {
    if (errno == ENOENT || errno == ECONNREFUSED) return std::nullopt;
    return fail("cannot connect to " + path + ": " + std::strerror(errno));
  }
  const auto peer = trusted_peer(fd.get());
  if (!peer) return std::unexpected(peer.error());
  const auto greeting = await_message(fd.get());
  if (!greeting) return std::unexpected(greeting.error());
  if (greeting->text.starts_with(kRefusal)) return fail(greeting->text.substr(kRefusal.size()));
  if (greeting->text != kGreeting) return fail("it speaks another version of the handover");
  return Predecessor(std::move(fd), peer->pid);
}

Result<std::vector<HandedListener>> Predecessor::take(std::span<const SocketAddress> wanted) {
  std::string request(kWanted);
  for (const SocketAddress& address : wanted) request += "\n" + address.to_string();
  if (!send_message(fd_.get(), request)) return fail("it closed the connection");
  std::vector<HandedListener> listeners;
  for (std::size_t count = 0; count <= kMostSockets;) {
    auto message = await_message(fd_.get());
    if (!message) return std::unexpected(message.error());
    if (message->text == kEnd) return listeners;
    const auto address = std::ranges::find(wanted, message->text, &SocketAddress::to_string);
    if (address == wanted.end() || message->sockets.empty()) break;
    if (listeners.empty() || listeners.back().requested != *address)
      listeners.push_back({*address, {}});
    // A Pod with a network of its own would answer at the address of another Pod.
    for (const FileDescriptor& socket : message->sockets)
      if (namespace_of(socket.get()) != namespace_of(fd_.get()))
        return fail("its sockets belong to another network namespace");
    count += message->sockets.size();
    for (FileDescriptor& socket : message->sockets)
      listeners.back().sockets.push_back({std::move(socket)});
  }
  return fail("it sent something else than the sockets that were asked for");
}

Result<void> Predecessor::tell_serving() {
  if (!send_message(fd_.get(), kServing)) return fail("it closed the connection");
  const auto message = await_message(fd_.get());
  if (!message) return std::unexpected(message.error());
  if (message->text != kStopped) return fail("it sent an unexpected answer");
  return {};
}

bool Predecessor::has_ended() const {
  Message late;
  return receive_message(fd_.get(), MSG_DONTWAIT, late) == Receipt::End;
}

void Predecessor::watch(uv_loop_t* loop, std::function<void()> on_ended) {
  const auto look = [this, on_ended = std::move(on_ended)](int, int) {
    if (!has_ended()) return;
    const auto ended = on_ended;
    poll_.close();
    ended();
  };
  if (poll_.open(loop, fd_.get(), look) == 0) poll_.watch(UV_READABLE);
}

}  // namespace meshdns::dnsd
