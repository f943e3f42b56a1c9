// SPDX-License-Identifier: Apache-2.0
#include "dnsd/links/link_follower.hpp"

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dnsd/links/bus_properties.hpp"
#include "dnsd/links/link_dns.hpp"
#include "dnsd/links/resolved_dns.hpp"
#include "dnsd/links/system_bus.hpp"
#include "registry/base/handle.hpp"

namespace meshdns::dnsd {
namespace {

// The DNS settings of links as NetworkManager has them (org.freedesktop.NetworkManager.DnsManager).
// The loop's thread only.
class NetworkManagerDns {
 public:
  // nullopt: NetworkManager does not run.
  using Callback = std::function<void(std::optional<std::vector<LinkDns>>)>;

  explicit NetworkManagerDns(Callback on_links);

  void follow(sd_bus* bus) { manager_.follow(bus); }
  void ask() { manager_.ask(); }
  // REQUIRES: called before the bus is closed.
  void forget() { manager_.forget(); }

 private:
  void on_manager(sd_bus_message* message);

  const Callback on_links_;
  BusProperties manager_;
};

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

// A VPN client sets servers and domains one after the other.
constexpr std::chrono::milliseconds kSettle{100};
// systemd-resolved does not tell when a link goes.
constexpr std::chrono::seconds kAskAgain{5};

using Links = std::optional<std::vector<LinkDns>>;

}  // namespace

struct LinkFollower::Parts {
  std::function<void()> on_change;
  Links of_resolved;
  Links of_networkmanager;
  loop::Timer settle;
  loop::Timer again;  // while links have domains
  ResolvedDns resolved{[this](Links links) {
    of_resolved = std::move(links);
    settle.start(kSettle);
  }};
  NetworkManagerDns networkmanager{[this](Links links) {
    of_networkmanager = std::move(links);
    settle.start(kSettle);
  }};
  SystemBus bus;  // ends first
};

LinkFollower::LinkFollower() = default;
LinkFollower::~LinkFollower() { stop(); }

void LinkFollower::start(uv_loop_t* loop, std::function<void()> on_change) {
  stop();
  parts_ = std::make_unique<Parts>();
  Parts& parts = *parts_;
  parts.on_change = std::move(on_change);
  parts.settle.open(loop, [this] { update(); });
  parts.again.open(loop, [this] { ask_again(); });
  parts.bus.open(
      loop,
      [&parts](sd_bus* bus) {
        parts.resolved.follow(bus);
        parts.networkmanager.follow(bus);
      },
      // The settings stay as they were: D-Bus may only be restarted.
      [&parts] {
        parts.resolved.forget();
        parts.networkmanager.forget();
      });
}

void LinkFollower::ask_again() {
  if (!parts_) return;
  parts_->resolved.ask();
  parts_->networkmanager.ask();
  parts_->bus.turn();
}

void LinkFollower::stop() {
  routes_ = {};
  if (!parts_) return;
  parts_->resolved.forget();
  parts_->networkmanager.forget();
  parts_.reset();
}

// systemd-resolved knows what NetworkManager knows, and more, unless they are kept apart.
void LinkFollower::update() {
  const Links& links = parts_->of_resolved && !parts_->of_resolved->empty()
                           ? parts_->of_resolved
                           : parts_->of_networkmanager;
  LinkRoutes next = links ? routes_of(*links) : LinkRoutes();
  if (next.zones.empty())
    parts_->again.stop();
  else
    parts_->again.start(kAskAgain);
  if (next == routes_) return;
  routes_ = std::move(next);
  // A copy: the callback may stop us.
  const auto on_change = parts_->on_change;
  on_change();
}

}  // namespace meshdns::dnsd
