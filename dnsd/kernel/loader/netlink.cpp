// SPDX-License-Identifier: Apache-2.0
#include "dnsd/kernel/loader/netlink.hpp"

#include <linux/if_arp.h>
#include <linux/if_link.h>
#include <linux/pkt_cls.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

namespace meshdns::kernel {
namespace {

using Octets = std::span<const std::uint8_t>;

Error netlink_failure(const char* what) {
  return {std::string(what) + ": " + std::strerror(errno)};
}

Result<FileDescriptor> open_socket(std::uint32_t groups, int flags) {
  FileDescriptor fd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | flags, NETLINK_ROUTE));
  if (!fd) return std::unexpected(netlink_failure("netlink socket"));
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  address.nl_groups = groups;
  if (::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
    return std::unexpected(netlink_failure("netlink bind"));
  return fd;
}

// --- messages and attributes ---------------------------------------------------------------------

// A T at the beginning of `octets`; zeros if they are too few.
template <typename T>
T read_as(Octets octets) {
  T value{};
  if (octets.size() >= sizeof value) std::memcpy(&value, octets.data(), sizeof value);
  return value;
}

// The part behind the first `size` octets.
Octets behind(Octets octets, std::size_t size) {
  return size < octets.size() ? octets.subspan(size) : Octets{};
}

// The value of an attribute; nullopt without it.
std::optional<Octets> find_attribute(Octets attributes, std::uint16_t type) {
  while (attributes.size() >= sizeof(rtattr)) {
    const auto header = read_as<rtattr>(attributes);
    if (header.rta_len < sizeof header || header.rta_len > attributes.size()) break;
    if ((header.rta_type & NLA_TYPE_MASK) == type)
      return attributes.subspan(sizeof header, header.rta_len - sizeof header);
    attributes = behind(attributes, RTA_ALIGN(header.rta_len));
  }
  return std::nullopt;
}

std::string read_text(std::optional<Octets> value) {
  if (!value) return {};
  const std::string_view text(reinterpret_cast<const char*>(value->data()), value->size());
  return std::string(text.substr(0, text.find('\0')));
}

Link read_link(Octets body) {
  const auto header = read_as<ifinfomsg>(body);
  const Octets attributes = behind(body, NLMSG_ALIGN(sizeof header));
  const Octets info = find_attribute(attributes, IFLA_LINKINFO).value_or(Octets{});
  return {.index = header.ifi_index,
          .name = read_text(find_attribute(attributes, IFLA_IFNAME)),
          .is_ethernet = header.ifi_type == ARPHRD_ETHER,
          .is_bridge_port = read_text(find_attribute(info, IFLA_INFO_SLAVE_KIND)) == "bridge"};
}

Filter read_filter(Octets body) {
  const auto header = read_as<tcmsg>(body);
  const Octets attributes = behind(body, NLMSG_ALIGN(sizeof header));
  Filter filter;
  filter.priority = TC_H_MAJ(header.tcm_info) >> 16;
  filter.handle = header.tcm_handle;
  if (read_text(find_attribute(attributes, TCA_KIND)) != "bpf") return filter;
  const Octets options = find_attribute(attributes, TCA_OPTIONS).value_or(Octets{});
  filter.name = read_text(find_attribute(options, TCA_BPF_NAME));
  filter.program_id =
      read_as<std::uint32_t>(find_attribute(options, TCA_BPF_ID).value_or(Octets{}));
  return filter;
}

// Calls `take` for each message.  False: the last one, NLMSG_DONE or an error, which is in errno.
bool for_each_message(Octets datagram, const std::function<void(const nlmsghdr&, Octets)>& take) {
  while (datagram.size() >= sizeof(nlmsghdr)) {
    const auto header = read_as<nlmsghdr>(datagram);
    if (header.nlmsg_len < sizeof header || header.nlmsg_len > datagram.size()) break;
    const Octets body = datagram.subspan(sizeof header, header.nlmsg_len - sizeof header);
    errno = 0;
    if (header.nlmsg_type == NLMSG_DONE) return false;
    if (header.nlmsg_type == NLMSG_ERROR) {
      errno = -read_as<nlmsgerr>(body).error;
      return false;
    }
    take(header, body);
    datagram = behind(datagram, NLMSG_ALIGN(header.nlmsg_len));
  }
  return true;
}

using Buffer = std::array<std::uint8_t, 65536>;

template <typename Body>
struct Request {
  nlmsghdr header;
  Body body;
};

// Asks for all objects of a kind; `take` gets each.
template <typename Body>
Result<void> dump(std::uint16_t type, const Body& body,
                  const std::function<void(const nlmsghdr&, Octets)>& take) {
  auto fd = open_socket(0, 0);
  if (!fd) return std::unexpected(fd.error());
  Request<Body> request{};
  request.header.nlmsg_len = sizeof request;
  request.header.nlmsg_type = type;
  request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  request.body = body;
  if (::send(fd->get(), &request, sizeof request, 0) < 0)
    return std::unexpected(netlink_failure("netlink send"));
  const auto buffer = std::make_unique<Buffer>();
  for (;;) {
    const ssize_t size = ::recv(fd->get(), buffer->data(), buffer->size(), 0);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return std::unexpected(netlink_failure("netlink receive"));
    if (!for_each_message({buffer->data(), static_cast<std::size_t>(size)}, take)) break;
  }
  if (errno != 0) return std::unexpected(netlink_failure("netlink dump"));
  return {};
}

std::optional<LinkEvent> read_event(const nlmsghdr& header, Octets body) {
  switch (header.nlmsg_type) {
    // Bridges report their ports as links of another family, with other attributes.
    case RTM_NEWLINK:
      if (read_as<ifinfomsg>(body).ifi_family != AF_UNSPEC) return std::nullopt;
      return read_link(body);
    case RTM_DELLINK:
      if (read_as<ifinfomsg>(body).ifi_family != AF_UNSPEC) return std::nullopt;
      return LinkGone{read_as<ifinfomsg>(body).ifi_index};
    case RTM_DELTFILTER:
    case RTM_DELQDISC:
      return FiltersGone{read_as<tcmsg>(body).tcm_ifindex};
    default:
      return std::nullopt;
  }
}

}  // namespace

Result<std::vector<Link>> list_links() {
  std::vector<Link> links;
  const auto done = dump(RTM_GETLINK, ifinfomsg{}, [&](const nlmsghdr& header, Octets body) {
    if (header.nlmsg_type == RTM_NEWLINK) links.push_back(read_link(body));
  });
  if (!done) return std::unexpected(done.error());
  return links;
}

Result<std::vector<Filter>> list_filters(int interface, Direction direction) {
  std::vector<Filter> filters;
  tcmsg wanted{};
  wanted.tcm_ifindex = interface;
  wanted.tcm_parent =
      TC_H_MAKE(TC_H_CLSACT, direction == Direction::Ingress ? TC_H_MIN_INGRESS : TC_H_MIN_EGRESS);
  const auto done = dump(RTM_GETTFILTER, wanted, [&](const nlmsghdr& header, Octets body) {
    // Each priority has an entry of its own, beside those of its filters.
    if (header.nlmsg_type == RTM_NEWTFILTER && read_as<tcmsg>(body).tcm_handle != 0)
      filters.push_back(read_filter(body));
  });
  if (!done) return std::unexpected(done.error());
  return filters;
}

Result<LinkEvents> LinkEvents::open() {
  auto fd = open_socket(RTMGRP_LINK | RTMGRP_TC, SOCK_NONBLOCK);
  if (!fd) return std::unexpected(fd.error());
  return LinkEvents(std::move(*fd));
}

std::vector<LinkEvent> LinkEvents::take() {
  std::vector<LinkEvent> events;
  const auto buffer = std::make_unique<Buffer>();
  for (;;) {
    const ssize_t size = ::recv(fd_.get(), buffer->data(), buffer->size(), 0);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == ENOBUFS) {
      events.emplace_back(EventsLost{});
      continue;
    }
    if (size < 0) return events;
    for_each_message({buffer->data(), static_cast<std::size_t>(size)},
                     [&](const nlmsghdr& header, Octets body) {
                       if (auto event = read_event(header, body))
                         events.push_back(std::move(*event));
                     });
  }
}

}  // namespace meshdns::kernel
