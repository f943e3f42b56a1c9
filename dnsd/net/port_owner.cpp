// SPDX-License-Identifier: Apache-2.0
#include "dnsd/net/port_owner.hpp"

#include <arpa/inet.h>
#include <dirent.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <string_view>

#include "registry/base/file_descriptor.hpp"

namespace meshdns::dnsd {
namespace {

constexpr unsigned kTcpListen = 0x0a;  // the state's number in /proc/net/tcp

struct CloseDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};
using Directory = std::unique_ptr<DIR, CloseDirectory>;

// "0100007F:1F90": 32-bit words in the machine's order, each as hexadecimal digits.
std::optional<SocketAddress> parse_kernel_address(std::string_view text) {
  const std::size_t colon = text.find(':');
  if (colon != 8 && colon != 32) return std::nullopt;
  std::array<std::uint32_t, 4> words{};
  for (std::size_t i = 0; i < colon / 8; ++i) {
    const char* const at = text.data() + i * 8;
    if (std::from_chars(at, at + 8, words[i], 16).ptr != at + 8) return std::nullopt;
  }
  SocketAddress address;
  const char* const port = text.data() + colon + 1;
  if (std::from_chars(port, text.data() + text.size(), address.port, 16).ec != std::errc())
    return std::nullopt;
  std::array<std::uint8_t, 16> octets{};
  std::memcpy(octets.data(), words.data(), octets.size());
  if (colon == 8)
    address.ip = IpAddress::v4({octets[0], octets[1], octets[2], octets[3]});
  else
    address.ip = IpAddress::v6(octets);
  return address;
}

// Adds the inodes of one table: "  0: LOCAL REMOTE STATE QUEUES TIMER RETRANSMITS UID TIMEOUT
// INODE".
void add_inodes(const char* path, bool only_listening, const SocketAddress& address,
                std::vector<std::uint64_t>& inodes) {
  std::ifstream table(path);
  std::string line;
  std::getline(table, line);  // the heading
  while (std::getline(table, line)) {
    std::array<char, 64> local{};
    unsigned state = 0;
    unsigned long long inode = 0;
    if (std::sscanf(line.c_str(), " %*s %63s %*s %x %*s %*s %*s %*s %*s %llu", local.data(), &state,
                    &inode) != 3)
      continue;
    if (only_listening && state != kTcpListen) continue;
    const auto bound = parse_kernel_address(local.data());
    if (bound && inode != 0 && overlaps(*bound, address)) inodes.push_back(inode);
  }
}

bool is_covered(const IpAddress& wildcard, const IpAddress& ip) {
  return wildcard.is_unspecified() && (wildcard.is_v6() || ip.is_v4());
}

bool holds_one_of(const std::string& process, const std::vector<std::uint64_t>& inodes) {
  const std::string folder = process + "/fd";
  const Directory files(::opendir(folder.c_str()));
  if (!files) return false;
  while (const dirent* const entry = ::readdir(files.get())) {
    std::array<char, 64> target{};
    const std::string path = folder + "/" + entry->d_name;
    const ssize_t size = ::readlink(path.c_str(), target.data(), target.size() - 1);
    constexpr std::string_view kPrefix = "socket:[";
    const std::string_view text(target.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
    if (!text.starts_with(kPrefix)) continue;
    const std::uint64_t inode = std::strtoull(target.data() + kPrefix.size(), nullptr, 10);
    if (std::ranges::find(inodes, inode) != inodes.end()) return true;
  }
  return false;
}

// `skipped`: a process that is not looked at.
std::optional<SocketOwner> find_owner(const std::vector<std::uint64_t>& inodes, pid_t skipped) {
  if (inodes.empty()) return std::nullopt;
  const Directory processes(::opendir("/proc"));
  if (!processes) return std::nullopt;
  while (const dirent* const entry = ::readdir(processes.get())) {
    const auto pid = static_cast<pid_t>(std::strtol(entry->d_name, nullptr, 10));
    if (pid <= 0 || pid == skipped) continue;
    const std::string process = std::string("/proc/") + entry->d_name;
    if (!holds_one_of(process, inodes)) continue;
    SocketOwner owner{pid, ""};
    std::ifstream name(process + "/comm");
    std::getline(name, owner.program);
    return owner;
  }
  return std::nullopt;
}

}  // namespace

const char* name_of(Protocol protocol) { return protocol == Protocol::Udp ? "UDP" : "TCP"; }

bool overlaps(const SocketAddress& a, const SocketAddress& b) {
  if (a.port != b.port) return false;
  return a.ip == b.ip || is_covered(a.ip, b.ip) || is_covered(b.ip, a.ip);
}

std::vector<std::uint64_t> inodes_bound_to(const SocketAddress& address, Protocol protocol) {
  std::vector<std::uint64_t> inodes;
  const bool tcp = protocol == Protocol::Tcp;
  for (const char* const path : tcp ? std::array{"/proc/self/net/tcp", "/proc/self/net/tcp6"}
                                    : std::array{"/proc/self/net/udp", "/proc/self/net/udp6"})
    add_inodes(path, tcp, address, inodes);
  return inodes;
}

std::optional<SocketOwner> owner_of(const std::vector<std::uint64_t>& inodes) {
  return find_owner(inodes, 0);
}

std::optional<SocketOwner> other_owner(const SocketAddress& address, Protocol protocol) {
  return find_owner(inodes_bound_to(address, protocol), ::getpid());
}

std::string describe_owner(const SocketAddress& address, Protocol protocol) {
  const auto owner = owner_of(inodes_bound_to(address, protocol));
  if (!owner) return "another process is using this port (\"ss -lntup\" as root shows it)";
  return "process " + std::to_string(owner->pid) + " (" + owner->program + ") is using this port";
}

namespace {

struct DiagRequest {
  nlmsghdr header{};
  inet_diag_req_v2 body{};
};

void put_address(const IpAddress& ip, __be32 (&words)[4]) {
  const std::uint8_t* const octets = ip.octets().data();
  if (ip.is_v4())
    std::memcpy(words, octets + 12, 4);
  else
    std::memcpy(words, octets, 16);
}

// For UDP, the kernel takes the two ends the other way round.
DiagRequest request_for(const Peer& client) {
  DiagRequest request;
  request.header.nlmsg_len = sizeof request;
  request.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  request.header.nlmsg_flags = NLM_F_REQUEST;
  request.body.sdiag_family = client.address.is_v4() ? AF_INET : AF_INET6;
  request.body.sdiag_protocol = client.tcp ? IPPROTO_TCP : IPPROTO_UDP;
  inet_diag_sockid& id = request.body.id;
  put_address(client.address, client.tcp ? id.idiag_src : id.idiag_dst);
  put_address(client.local, client.tcp ? id.idiag_dst : id.idiag_src);
  (client.tcp ? id.idiag_sport : id.idiag_dport) = htons(client.port);
  (client.tcp ? id.idiag_dport : id.idiag_sport) = htons(client.local_port);
  std::ranges::fill(id.idiag_cookie, INET_DIAG_NOCOOKIE);
  return request;
}

}  // namespace

bool is_own_socket(const Peer& client) {
  const FileDescriptor kernel(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  if (!kernel) return false;
  const DiagRequest request = request_for(client);
  if (::send(kernel.get(), &request, sizeof request, 0) < 0) return false;
  // The kernel has answered by now.
  std::array<char, 1024> reply;
  const ssize_t size = ::recv(kernel.get(), reply.data(), reply.size(), MSG_DONTWAIT);
  if (size < static_cast<ssize_t>(NLMSG_LENGTH(sizeof(inet_diag_msg)))) return false;
  nlmsghdr header{};
  inet_diag_msg socket{};
  std::memcpy(&header, reply.data(), sizeof header);
  std::memcpy(&socket, reply.data() + NLMSG_HDRLEN, sizeof socket);
  // A socket that is bound and not connected is found, too, and has no other end; and so is the
  // rest of a TCP connection that its program has closed.
  return header.nlmsg_type == SOCK_DIAG_BY_FAMILY && socket.idiag_state == TCP_ESTABLISHED &&
         socket.id.idiag_sport == htons(client.port) &&
         socket.id.idiag_dport == htons(client.local_port);
}

}  // namespace meshdns::dnsd
