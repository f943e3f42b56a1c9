// SPDX-License-Identifier: Apache-2.0
#include "dnsd/links/networkmanager_dns.hpp"

#include <string>
#include <string_view>
#include <utility>

namespace meshdns::dnsd {
namespace {

// One entry of "Configuration": {nameservers: as, domains: as, interface: s, ...}.
struct Entry {
  std::vector<std::string> servers;
  std::vector<std::string> domains;
  std::string interface;
};

int read_texts(sd_bus_message* message, std::vector<std::string>& texts) {
  int result = sd_bus_message_enter_container(message, 'v', "as");
  if (result >= 0) result = sd_bus_message_enter_container(message, 'a', "s");
  const char* text = nullptr;
  while (result >= 0 && (result = sd_bus_message_read(message, "s", &text)) > 0)
    texts.emplace_back(text);
  if (result >= 0) result = sd_bus_message_exit_container(message);
  if (result >= 0) result = sd_bus_message_exit_container(message);
  return result;
}

int read_entry(sd_bus_message* message, Entry& entry) {
  return read_properties(message, [&entry](std::string_view name, sd_bus_message* value) {
    if (name == "nameservers") return read_texts(value, entry.servers);
    if (name == "domains") return read_texts(value, entry.domains);
    if (name == "interface") {
      const char* text = "";
      const int result = sd_bus_message_read(value, "v", "s", &text);
      entry.interface = text;
      return result;
    }
    return sd_bus_message_skip(value, "v");
  });
}

// A domain with "~" in front only routes.  A link with such domains is for its domains alone, as
// for systemd-resolved.
LinkDns link_of(const Entry& entry) {
  LinkDns link;
  for (const std::string& text : entry.servers)
    if (auto server = parse_socket_address(text, 53)) {
      if (server->zone.empty() && text.starts_with("fe80:")) server->zone = entry.interface;
      link.add_server(*server);
    }
  for (const std::string& domain : entry.domains)
    if (domain.starts_with('~')) link.is_default_route = false;
  for (const std::string& domain : entry.domains) {
    const bool route_only = domain.starts_with('~');
    link.add_domain(std::string_view(domain).substr(route_only ? 1 : 0), route_only);
  }
  return link;
}

}  // namespace

NetworkManagerDns::NetworkManagerDns(Callback on_links)
    : on_links_(std::move(on_links)),
      manager_({"org.freedesktop.NetworkManager", "/org/freedesktop/NetworkManager/DnsManager",
                "org.freedesktop.NetworkManager.DnsManager",
                "/org/freedesktop/NetworkManager/DnsManager"},
               [this](sd_bus_message* message) { on_manager(message); }) {}

void NetworkManagerDns::on_manager(sd_bus_message* message) {
  if (message == nullptr) return on_links_(std::nullopt);
  std::vector<LinkDns> links;
  read_properties(message, [&links](std::string_view name, sd_bus_message* value) {
    if (name != "Configuration") return sd_bus_message_skip(value, "v");
    int result = sd_bus_message_enter_container(value, 'v', "aa{sv}");
    if (result >= 0) result = sd_bus_message_enter_container(value, 'a', "a{sv}");
    while (result >= 0 && (result = sd_bus_message_at_end(value, 0)) == 0) {
      Entry entry;
      result = read_entry(value, entry);
      if (result >= 0 && links.size() < kMaxLinks) links.push_back(link_of(entry));
    }
    if (result >= 0) result = sd_bus_message_exit_container(value);
    if (result >= 0) result = sd_bus_message_exit_container(value);
    return result;
  });
  on_links_(std::move(links));
}

}  // namespace meshdns::dnsd
