// SPDX-License-Identifier: Apache-2.0
#include "dnsd/links/resolved_dns.hpp"

#include <net/if.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

namespace meshdns::dnsd {
namespace {

constexpr const char* kService = "org.freedesktop.resolve1";

std::optional<IpAddress> address_of(int family, const void* octets, std::size_t size) {
  if (family == AF_INET && size == 4) {
    std::array<std::uint8_t, 4> ip{};
    std::memcpy(ip.data(), octets, size);
    return IpAddress::v4(ip);
  }
  if (family == AF_INET6 && size == 16) {
    IpAddress::Octets ip{};
    std::memcpy(ip.data(), octets, size);
    return IpAddress::v6(ip);
  }
  return std::nullopt;
}

bool is_link_local(const IpAddress& ip) {
  return ip.is_v6() && ip.octets()[0] == 0xfe && (ip.octets()[1] & 0xc0) == 0x80;
}

std::string name_of_interface(int index) {
  std::array<char, IF_NAMESIZE> name{};
  const char* const found = if_indextoname(static_cast<unsigned>(index), name.data());
  return found != nullptr ? found : std::to_string(index);
}

}  // namespace

ResolvedDns::ResolvedDns(Callback on_links)
    : on_links_(std::move(on_links)),
      manager_({kService, "/org/freedesktop/resolve1", "org.freedesktop.resolve1.Manager", nullptr},
               [this](sd_bus_message* message) { on_manager(message); }) {}

void ResolvedDns::follow(sd_bus* bus) {
  bus_ = bus;
  manager_.follow(bus);
}

void ResolvedDns::forget() {
  links_.clear();
  manager_.forget();
  bus_ = nullptr;
}

void ResolvedDns::on_manager(sd_bus_message* message) {
  links_.clear();
  if (message == nullptr) return on_links_(std::nullopt);
  read_properties(message, [this](std::string_view name, sd_bus_message* value) {
    if (name == "DNSEx") return read_servers(value);
    if (name == "Domains") return read_domains(value);
    return sd_bus_message_skip(value, "v");
  });
  // Interface 0 stands for the settings of resolved.conf(5), which are about all links; ours are
  // among them.
  std::erase_if(links_, [](const auto& entry) {
    return entry.first <= 0 || entry.second.dns.servers.empty();
  });
  ask_default_routes();
}

// Interface, family, address, port (0: 53), name for TLS.
int ResolvedDns::read_servers(sd_bus_message* message) {
  int result = sd_bus_message_enter_container(message, 'v', "a(iiayqs)");
  if (result >= 0) result = sd_bus_message_enter_container(message, 'a', "(iiayqs)");
  while (result >= 0 && (result = sd_bus_message_enter_container(message, 'r', "iiayqs")) > 0) {
    int interface = 0;
    int family = 0;
    const void* octets = nullptr;
    std::size_t size = 0;
    std::uint16_t port = 0;
    result = sd_bus_message_read(message, "ii", &interface, &family);
    if (result >= 0) result = sd_bus_message_read_array(message, 'y', &octets, &size);
    if (result >= 0) result = sd_bus_message_read(message, "q", &port);
    if (result >= 0) result = sd_bus_message_skip(message, "s");
    if (result >= 0) result = sd_bus_message_exit_container(message);
    const auto ip = result >= 0 ? address_of(family, octets, size) : std::nullopt;
    if (!ip || (links_.size() >= kMaxLinks && !links_.contains(interface))) continue;
    links_[interface].dns.add_server({*ip, port != 0 ? port : std::uint16_t{53},
                                      is_link_local(*ip) ? name_of_interface(interface) : ""});
  }
  if (result >= 0) result = sd_bus_message_exit_container(message);
  if (result >= 0) result = sd_bus_message_exit_container(message);
  return result;
}

// Interface, domain, whether it only routes.
int ResolvedDns::read_domains(sd_bus_message* message) {
  int result = sd_bus_message_enter_container(message, 'v', "a(isb)");
  if (result >= 0) result = sd_bus_message_enter_container(message, 'a', "(isb)");
  while (result >= 0 && (result = sd_bus_message_enter_container(message, 'r', "isb")) > 0) {
    int interface = 0;
    const char* domain = nullptr;
    int route_only = 0;
    result = sd_bus_message_read(message, "isb", &interface, &domain, &route_only);
    if (result >= 0) result = sd_bus_message_exit_container(message);
    if (result < 0 || (links_.size() >= kMaxLinks && !links_.contains(interface))) continue;
    links_[interface].dns.add_domain(domain, route_only != 0);
  }
  if (result >= 0) result = sd_bus_message_exit_container(message);
  if (result >= 0) result = sd_bus_message_exit_container(message);
  return result;
}

// systemd-resolved works out DefaultRoute from the domains where nobody has set it.
void ResolvedDns::ask_default_routes() {
  for (auto& [interface, link] : links_) {
    link.owner = this;
    char* path = nullptr;
    const std::string number = std::to_string(interface);
    if (sd_bus_path_encode("/org/freedesktop/resolve1/link", number.c_str(), &path) < 0) continue;
    link.call = get_property(bus_, {kService, path, "org.freedesktop.resolve1.Link", nullptr},
                             "DefaultRoute", on_default_route, &link);
    std::free(path);
  }
  tell_when_complete();
}

int ResolvedDns::on_default_route(sd_bus_message* message, void* user, sd_bus_error*) {
  auto& link = *static_cast<Link*>(user);
  int is_default = 1;
  if (sd_bus_message_is_method_error(message, nullptr) <= 0 &&
      sd_bus_message_read(message, "v", "b", &is_default) >= 0)
    link.dns.is_default_route = is_default != 0;
  link.call.reset();
  link.owner->tell_when_complete();
  return 0;
}

void ResolvedDns::tell_when_complete() {
  std::vector<LinkDns> all;
  for (const auto& [interface, link] : links_) {
    if (link.call) return;
    all.push_back(link.dns);
  }
  on_links_(std::move(all));
}

}  // namespace meshdns::dnsd
