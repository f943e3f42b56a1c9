// SPDX-License-Identifier: Apache-2.0
#include "dnsd/links/system_links.hpp"

#include <net/if.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dnsd/links/bus_properties.hpp"
#include "dnsd/links/link_dns.hpp"
#include "dnsd/links/system_bus.hpp"
#include "registry/base/handle.hpp"

namespace meshdns::dnsd {
namespace {

// nullopt: the service does not run.
using Links = std::optional<std::vector<LinkDns>>;
using LinksCallback = std::function<void(Links)>;

// The DNS settings of links as systemd-resolved has them (org.freedesktop.resolve1(5)).
// The loop's thread only.
class ResolvedDns {
 public:
  explicit ResolvedDns(LinksCallback on_links);

  void follow(sd_bus* bus);
  void ask() { manager_.ask(); }
  // REQUIRES: called before the bus is closed.
  void forget();

 private:
  struct Link {
    ResolvedDns* owner = nullptr;
    LinkDns dns;
    BusSlot call;  // for DefaultRoute; null: answered
  };

  void on_manager(sd_bus_message* message);
  LinkDns* link_at(int interface);
  int read_server(sd_bus_message* message);
  int read_domain(sd_bus_message* message);
  void ask_default_routes();
  static int on_default_route(sd_bus_message* message, void* link, sd_bus_error* error);
  void tell_when_complete();

  const LinksCallback on_links_;
  BusProperties manager_;
  sd_bus* bus_ = nullptr;
  std::map<int, Link> links_;  // by interface
};

constexpr const char* kResolved = "org.freedesktop.resolve1";

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

std::string name_of_interface(int index) {
  std::array<char, IF_NAMESIZE> name{};
  const char* const found = if_indextoname(static_cast<unsigned>(index), name.data());
  return found != nullptr ? found : std::to_string(index);
}

ResolvedDns::ResolvedDns(LinksCallback on_links)
    : on_links_(std::move(on_links)),
      manager_(
          {kResolved, "/org/freedesktop/resolve1", "org.freedesktop.resolve1.Manager", nullptr},
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
    if (name == "DNSEx") return read_array(value, "(iiayqs)", [&] { return read_server(value); });
    if (name == "Domains") return read_array(value, "(isb)", [&] { return read_domain(value); });
    return sd_bus_message_skip(value, "v");
  });
  // Interface 0 stands for the settings of resolved.conf(5), which are about all links; ours are
  // among them.
  std::erase_if(links_, [](const auto& entry) {
    return entry.first <= 0 || entry.second.dns.servers.empty();
  });
  ask_default_routes();
}

// The link with this index; null: it is one too many.
LinkDns* ResolvedDns::link_at(int interface) {
  if (links_.size() >= kMaxLinks && !links_.contains(interface)) return nullptr;
  return &links_[interface].dns;
}

// Interface, family, address, port (0: 53), name for TLS.
int ResolvedDns::read_server(sd_bus_message* message) {
  int interface = 0;
  int family = 0;
  const void* octets = nullptr;
  std::size_t size = 0;
  std::uint16_t port = 0;
  int result = sd_bus_message_enter_container(message, 'r', "iiayqs");
  if (result >= 0) result = sd_bus_message_read(message, "ii", &interface, &family);
  if (result >= 0) result = sd_bus_message_read_array(message, 'y', &octets, &size);
  if (result >= 0) result = sd_bus_message_read(message, "q", &port);
  if (result >= 0) result = sd_bus_message_skip(message, "s");
  if (result >= 0) result = sd_bus_message_exit_container(message);
  const auto ip = result >= 0 ? address_of(family, octets, size) : std::nullopt;
  LinkDns* const link = ip ? link_at(interface) : nullptr;
  if (link != nullptr)
    link->add_server(
        {*ip, port != 0 ? port : std::uint16_t{53},
         IpPrefix::parse("fe80::/10")->contains(*ip) ? name_of_interface(interface) : ""});
  return result;
}

int ResolvedDns::read_domain(sd_bus_message* message) {
  int interface = 0;
  const char* domain = nullptr;
  int route_only = 0;
  const int result = sd_bus_message_read(message, "(isb)", &interface, &domain, &route_only);
  LinkDns* const link = result >= 0 ? link_at(interface) : nullptr;
  if (link != nullptr) link->add_domain(domain, route_only != 0);
  return result;
}

// systemd-resolved works out DefaultRoute from the domains where nobody has set it.
void ResolvedDns::ask_default_routes() {
  for (auto& [interface, link] : links_) {
    link.owner = this;
    char* path = nullptr;
    const std::string number = std::to_string(interface);
    if (sd_bus_path_encode("/org/freedesktop/resolve1/link", number.c_str(), &path) < 0) continue;
    link.call = get_property(bus_, {kResolved, path, "org.freedesktop.resolve1.Link", nullptr},
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

// One entry of "Configuration": {nameservers: as, domains: as, interface: s, ...}.
struct Entry {
  std::vector<std::string> servers;
  std::vector<std::string> domains;
  std::string interface;
};

int read_texts(sd_bus_message* message, std::vector<std::string>& texts) {
  return read_array(message, "s", [&] {
    const char* text = "";
    const int result = sd_bus_message_read(message, "s", &text);
    if (result >= 0) texts.emplace_back(text);
    return result;
  });
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

// The DNS settings of links as NetworkManager has them (org.freedesktop.NetworkManager.DnsManager).
Links links_of_networkmanager(sd_bus_message* message) {
  if (message == nullptr) return std::nullopt;
  std::vector<LinkDns> links;
  read_properties(message, [&links](std::string_view name, sd_bus_message* value) {
    if (name != "Configuration") return sd_bus_message_skip(value, "v");
    return read_array(value, "a{sv}", [&] {
      Entry entry;
      const int result = read_entry(value, entry);
      if (result >= 0 && links.size() < kMaxLinks) links.push_back(link_of(entry));
      return result;
    });
  });
  return links;
}

constexpr BusProperties::Object kNetworkManager{
    "org.freedesktop.NetworkManager", "/org/freedesktop/NetworkManager/DnsManager",
    "org.freedesktop.NetworkManager.DnsManager", "/org/freedesktop/NetworkManager/DnsManager"};

// A VPN client sets servers and domains one after the other.
constexpr std::chrono::milliseconds kSettle{100};
// systemd-resolved does not tell when a link goes.
constexpr std::chrono::seconds kAskAgain{5};

}  // namespace

struct SystemLinks::Services {
  std::function<void()> on_change;
  Links of_resolved;
  Links of_networkmanager;
  loop::Timer settle;
  loop::Timer again;  // while links have domains
  ResolvedDns resolved{[this](Links links) { put(of_resolved, std::move(links)); }};
  BusProperties networkmanager{kNetworkManager, [this](sd_bus_message* message) {
                                 put(of_networkmanager, links_of_networkmanager(message));
                               }};
  SystemBus bus;  // ends first

  void put(Links& known, Links links) {
    known = std::move(links);
    settle.start(kSettle);
  }
  void forget() {
    resolved.forget();
    networkmanager.forget();
  }
};

SystemLinks::SystemLinks() = default;
SystemLinks::~SystemLinks() { stop(); }

void SystemLinks::start(uv_loop_t* loop, std::function<void()> on_change) {
  stop();
  services_ = std::make_unique<Services>();
  Services& services = *services_;
  services.on_change = std::move(on_change);
  services.settle.open(loop, [this] { update(); });
  services.again.open(loop, [this] { ask_again(); });
  services.bus.open(
      loop,
      [&services](sd_bus* bus) {
        services.resolved.follow(bus);
        services.networkmanager.follow(bus);
      },
      // The settings stay as they were: D-Bus may only be restarted.
      [&services] { services.forget(); });
}

void SystemLinks::ask_again() {
  if (!services_) return;
  services_->resolved.ask();
  services_->networkmanager.ask();
  services_->bus.turn();
}

void SystemLinks::stop() {
  routes_ = {};
  if (!services_) return;
  services_->forget();
  services_.reset();
}

// systemd-resolved knows what NetworkManager knows, and more, unless they are kept apart.
void SystemLinks::update() {
  const Links& links = services_->of_resolved && !services_->of_resolved->empty()
                           ? services_->of_resolved
                           : services_->of_networkmanager;
  LinkRoutes next = links ? routes_of(*links) : LinkRoutes();
  if (next.zones.empty())
    services_->again.stop();
  else
    services_->again.start(kAskAgain);
  if (next == routes_) return;
  routes_ = std::move(next);
  // A copy: the callback may stop us.
  const auto on_change = services_->on_change;
  on_change();
}

}  // namespace meshdns::dnsd
