// SPDX-License-Identifier: Apache-2.0
#include "registry/traffic/traffic_match.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <tuple>
#include <utility>

#include "registry/base/enum_text.hpp"
#include "registry/base/hash.hpp"
#include "registry/base/host_name.hpp"
#include "registry/model/claim_rules.hpp"
#include "registry/model/entry_endpoints.hpp"

namespace meshdns::registry {
namespace {

std::string with_port(const std::string& address, std::uint16_t port) {
  if (IpAddress::parse(address) && address.find(':') != std::string::npos)
    return "[" + address + "]:" + std::to_string(port);
  return address + ":" + std::to_string(port);
}

// The port of an endpoint for a port of its service: the one of that name, else the target port.
std::uint16_t endpoint_port(const EndpointList& endpoints, const EndpointEntry& entry,
                            const ServicePort& port) {
  for (const ServicePort& own : endpoints.ports[entry.subset]->ports)
    if (own.name == port.name) return own.number;
  return port.target_port != 0 ? port.target_port : port.number;
}

class EndpointLister {
 public:
  EndpointLister(const View& view, const Connection& connection, TrafficMatch& match)
      : view_(view), connection_(connection), match_(match) {}

  void run() {
    bool has_entry = false;
    CountedEntries counted;
    match_.service->for_each_source([&](const StoredRef& source) {
      if (source->kind() != Kind::ServiceEntry) return;
      has_entry = true;
      const Resource resource = source->decode();
      const auto& entry = std::get<ServiceEntry>(resource);
      if (counted.counts(entry)) add_endpoints_of(entry);
    });
    if (has_entry) return;
    if (const EndpointList* endpoints = match_.service->endpoints()) {
      for (const EndpointEntry& entry : endpoints->entries)
        if (!goes_to_original_address(*endpoints) || entry.address == connection_.address)
          add(entry.address.to_string(), endpoint_port(*endpoints, entry, match_.port),
              entry.ready);
    }
    if (match_.endpoints.empty()) note("its endpoints are not known");
  }

 private:
  void note(std::string text) { match_.notes.push_back(std::move(text)); }

  void add(const std::string& address, std::uint16_t port, bool ready) {
    std::string text = with_port(address, port) + (ready ? "" : ", not ready");
    if (seen_.insert(text).second) match_.endpoints.push_back(std::move(text));
  }

  // A headless Service's connections are not distributed: each goes where it was meant to.
  bool goes_to_original_address(const EndpointList& endpoints) const {
    if (match_.rule == TrafficMatch::Rule::HeadlessEndpoint) return true;
    return match_.service->headless &&
           std::ranges::find(endpoints.entries, connection_.address, &EndpointEntry::address) !=
               endpoints.entries.end();
  }

  void add_endpoints_of(const ServiceEntry& entry) {
    const auto port = std::ranges::find(entry.ports, match_.port.number, &ServicePort::number);
    if (port == entry.ports.end()) return;  // another entry of the host has that port
    if (entry.resolution == Resolution::None && !entry.workload_selector) {
      add(connection_.address.to_string(), connection_.port, true);
      return;
    }
    const auto for_each_selected = [&](const Labels& selector, const auto& visit) {
      visit_selected(entry.meta.ns, selector, visit);
    };
    for_each_endpoint(entry, match_.host, for_each_selected, [&](const EntryEndpoint& endpoint) {
      if (endpoint.pod != nullptr)
        for (const IpAddress& ip : endpoint.pod->ips)
          add(ip.to_string(), target(*port), endpoint.pod->ready);
      else if (endpoint.spec != nullptr)
        add_spec(*endpoint.spec, entry, *port, endpoint.healthy);
      else
        add(match_.host, target(*port), true);
    });
  }

  static std::uint16_t target(const ServicePort& port) {
    return port.target_port != 0 ? port.target_port : port.number;
  }

  void add_spec(const WorkloadSpec& spec, const ServiceEntry& entry, const ServicePort& port,
                bool healthy) {
    std::string why;
    const auto how = reached(spec, entry, &why);
    if (!how) return note(std::move(why));
    if (how == Reached::BySocket) return match_.endpoints.push_back(spec.address);
    const auto own =
        std::ranges::find_if(spec.ports, [&](const auto& pair) { return pair.first == port.name; });
    add(spec.address, own != spec.ports.end() ? own->second : target(port), healthy);
  }

  void visit_selected(std::string_view ns, const Labels& selector,
                      const std::function<void(const Resource&)>& visit) const {
    std::vector<Resource> selected;
    view_.snapshot().resources.for_each([&](const StoredResource& stored) {
      if (stored.ns() != ns) return;
      if (stored.kind() != Kind::WorkloadEntry && stored.kind() != Kind::Pod) return;
      Resource resource = stored.decode();
      const auto* const entry = std::get_if<WorkloadEntry>(&resource);
      if (selects(selector,
                  entry == nullptr ? meta_of(resource).labels : selectable_labels(*entry)))
        selected.push_back(std::move(resource));
    });
    std::ranges::sort(selected, precedes_as_endpoint);
    for (const Resource& resource : selected) visit(resource);
  }

  const View& view_;
  const Connection& connection_;
  TrafficMatch& match_;
  TextSet seen_;  // those of match_.endpoints; there may be thousands
};

// The endpoints to which the mesh sends a connection, as answers have them.  For explanations only:
// it may walk all resources, and allocates.
// Fills match.endpoints.  REQUIRES: match.service is not null.
void add_endpoints(const View& view, const Connection& connection, TrafficMatch& match) {
  EndpointLister(view, connection, match).run();
}

constexpr int kMaxAliases = 8;

enum class Protocol : std::uint8_t { Tcp, Tls, Http, Udp, Sniffed };

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> all) {
  return std::ranges::find(all, text) != all.end();
}

Protocol protocol_named(std::string_view lower) {
  if (lower == "udp") return Protocol::Udp;
  if (is_one_of(lower, {"tls", "https"})) return Protocol::Tls;
  if (is_one_of(lower, {"http", "http2", "grpc", "grpc-web", "http_proxy"})) return Protocol::Http;
  if (is_one_of(lower, {"tcp", "mongo", "redis", "mysql"})) return Protocol::Tcp;
  return Protocol::Sniffed;
}

// The application protocol that a Kubernetes port names: in appProtocol or, without that, in its
// name ("http-web").
Protocol protocol_said_by(const ServicePort& port) {
  const std::string lower = to_lower(port.app_protocol.empty() ? port.name : port.app_protocol);
  const std::string_view text = lower;
  if (is_one_of(text, {"kubernetes.io/h2c", "kubernetes.io/ws"})) return Protocol::Http;
  if (text == "kubernetes.io/wss") return Protocol::Tls;
  if (text.starts_with("grpc-web")) return Protocol::Http;
  return protocol_named(text.substr(0, text.find('-')));
}

// A ServiceEntry names the application protocol; of a Kubernetes port that says none the mesh looks
// at the first octets, save where the server speaks first: SMTP, DNS, MySQL, MongoDB.
Protocol protocol_of(const ServiceRecord& service, const ServicePort& port) {
  const std::string declared = to_lower(port.protocol);
  if (service.provider == Provider::ServiceEntry) return protocol_named(declared);
  if (declared == "udp") return Protocol::Udp;
  const Protocol said = protocol_said_by(port);
  constexpr std::array<std::uint16_t, 4> server_first = {25, 53, 3306, 27017};
  const bool is_server_first = std::ranges::find(server_first, port.number) != server_first.end();
  return said == Protocol::Sniffed && is_server_first ? Protocol::Tcp : said;
}

bool host_matches(std::string_view pattern, std::string_view name) {
  if (!pattern.starts_with("*.")) return pattern == name;
  return name.size() > pattern.size() - 1 && name.ends_with(pattern.substr(1));
}

std::string without_port(std::string_view host) {
  if (host.starts_with('[')) return std::string(host.substr(1, host.find(']') - 1));
  if (std::ranges::count(host, ':') == 1) host = host.substr(0, host.find(':'));
  std::string text = to_lower(host);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

const ServicePort* port_of(const ServiceRecord& service, std::uint16_t number) {
  if (!service.ports) return nullptr;
  const auto& ports = service.ports->ports;
  const auto found = std::ranges::find(ports, number, &ServicePort::number);
  return found == ports.end() ? nullptr : &*found;
}

// One service of the client's view that has a port of the connection's number.
struct Candidate {
  std::string_view host;
  const ServiceRecord* service;
  const ServicePort* port;
  Protocol protocol;
};

class Matcher {
 public:
  Matcher(const View& view, const Connection& connection) : view_(view), connection_(connection) {}

  TrafficMatch run() {
    if (connection_.http_host.empty()) {
      collect();
      const bool found = match_vip() || match_headless_endpoint() || match_range() || match_port();
      if (!found) match_.rule = TrafficMatch::Rule::Passthrough;
    } else if (!match_own_listener()) {
      match_http_host();
    }
    if (match_.service != nullptr) add_endpoints(view_, connection_, match_);
    if (match_.routes.empty()) add_routes();
    if (match_.service == nullptr && view_.client().is_registry_only && !is_routed_by_host())
      match_.rule = TrafficMatch::Rule::Dropped;
    return std::move(match_);
  }

 private:
  void note(std::string text) { match_.notes.push_back(std::move(text)); }

  void take(TrafficMatch::Rule rule, const Candidate& candidate) {
    match_.rule = rule;
    match_.host = candidate.host;
    match_.service = candidate.service;
    match_.port = *candidate.port;
  }

  void collect() {
    const auto visit = [&](const HostEntry& entry) {
      const Match match = view_.lookup(entry.host());
      if (match.entry != &entry || match.service == nullptr) return;
      const ServicePort* port = port_of(*match.service, connection_.port);
      if (port == nullptr || match.service->answer == AnswerKind::Alias ||
          is_kept_away(entry.host(), *match.service, *port))
        return;
      const Protocol protocol = protocol_of(*match.service, *port);
      if (protocol == Protocol::Udp) return;
      candidates_.push_back({entry.host(), match.service, port, protocol});
    };
    view_.snapshot().hosts.for_each(visit);
    view_.snapshot().wildcards.for_each(visit);
    // As a client chooses among namespaces: Kubernetes first, then the older.
    std::ranges::sort(candidates_, [](const Candidate& a, const Candidate& b) {
      return std::tuple(a.service->provider, a.service->creation_time, a.host) <
             std::tuple(b.service->provider, b.service->creation_time, b.host);
    });
  }

  // Returns whether a Sidecar keeps the port from the client: an egress listener with a port
  // imports only that port of each service.
  bool is_kept_away(std::string_view host, const ServiceRecord& service,
                    const ServicePort& port) const {
    const SidecarScope* const scope = view_.client().scope.get();
    if (scope == nullptr) return false;
    const Ref<const PortList> alone(new PortList({port}));
    return !scope->imports(host, service.ns.get(), alone.get());
  }

  // The service's port of the connection, as far as the client has it.
  const ServicePort* own_port(const Match& match) {
    const ServicePort* const port = port_of(*match.service, connection_.port);
    const std::string_view host = match.entry->host();
    if (port == nullptr)
      note(std::string(host) + " has no port " + std::to_string(connection_.port));
    else if (is_kept_away(host, *match.service, *port))
      note("the client's Sidecar does not import port " + std::to_string(connection_.port) +
           " of " + std::string(host));
    else
      return port;
    return nullptr;
  }

  // A port that does not say HTTP has a listener of its own at each VIP and at each endpoint of a
  // headless Service. It takes all that comes, whatever the Host header.
  bool match_own_listener() {
    if (IpAddress::parse(without_port(connection_.http_host))) return false;
    collect();
    std::erase_if(candidates_,
                  [](const Candidate& each) { return each.protocol == Protocol::Http; });
    if (!match_vip() && !match_headless_endpoint()) return false;
    note("its port " + std::to_string(match_.port.number) +
         " does not say HTTP: the address decides, the Host header does not");
    return true;
  }

  // HTTP listeners are shared by all services of a port: the Host header alone decides.
  void match_http_host() {
    const std::string host = without_port(connection_.http_host);
    if (const auto ip = IpAddress::parse(host)) {
      Connection by_address{*ip, connection_.port, "", ""};
      match_ = Matcher(view_, by_address).run();
      note("the Host header is an address and is matched as an address");
      return;
    }
    if (match_below_headless(host)) return;
    Match match = view_.lookup(host);
    Match alias;
    for (int i = 0; i < kMaxAliases && match && match.service->answer == AnswerKind::Alias; ++i) {
      note(std::string(match.entry->host()) + " is an ExternalName: an extra match of " +
           std::string(match.service->alias()));
      alias = match;
      match = view_.lookup(match.service->alias());
    }
    // A target outside of the mesh: the endpoints of the alias are its addresses.
    if (!match && alias && alias.service->endpoints() != nullptr) match = alias;
    const bool is_alias = match && match.service->answer == AnswerKind::Alias;
    if (!match || (is_alias && match.service != alias.service) || match.how == Match::How::Below) {
      note("no service that the client sees has the host " + host);
      return;
    }
    const ServicePort* const port = own_port(match);
    if (port == nullptr) return;
    const Candidate candidate{match.entry->host(), match.service, port,
                              protocol_of(*match.service, *port)};
    if (candidate.protocol != Protocol::Http && candidate.protocol != Protocol::Sniffed)
      note("its port " + std::to_string(port->number) + " is " + port->protocol +
           ": the mesh does not read the Host header");
    take(TrafficMatch::Rule::HttpHost, candidate);
  }

  // The Host header of a headless Service may be the name of one of its endpoints, or any other
  // below its own.
  bool match_below_headless(std::string_view host) {
    const Match match = view_.lookup(host);
    if (!match || match.how != Match::How::Below || !match.service->headless) return false;
    const ServicePort* const port = port_of(*match.service, connection_.port);
    if (port == nullptr || is_kept_away(match.entry->host(), *match.service, *port)) return false;
    const Protocol protocol = protocol_of(*match.service, *port);
    if (protocol != Protocol::Http && protocol != Protocol::Sniffed) return false;
    take(TrafficMatch::Rule::HttpHost, {match.entry->host(), match.service, port, protocol});
    return true;
  }

  // The length of the longest prefix of the candidate that has the address; nullopt: none has;
  // -1: it has no addresses and takes every one.
  std::optional<int> prefix_length(const Candidate& candidate) const {
    std::optional<int> longest;
    bool any = false;
    const auto consider = [&](const IpPrefix& prefix) {
      any = true;
      if (prefix.contains(connection_.address))
        longest = std::max<int>(longest.value_or(0), prefix.length);
    };
    const ServiceRecord& service = *candidate.service;
    if (is_refused_address(service)) return std::nullopt;
    if (service.answer == AnswerKind::Vips) {
      const int whole = connection_.address.is_v4() ? 32 : 128;
      const AddressView addresses = view_.addresses(service);
      any = !addresses.empty();
      for (const auto& octets : addresses.v4)
        if (IpAddress::v4(octets) == connection_.address) longest = whole;
      for (const auto& octets : addresses.v6)
        if (octets == connection_.address.octets() && !connection_.address.is_v4()) longest = whole;
    }
    service.for_each_source([&](const StoredRef& source) {
      if (source->kind() != Kind::ServiceEntry) return;
      const Resource resource = source->decode();
      for (const IpPrefix& prefix : std::get<ServiceEntry>(resource).addresses) consider(prefix);
    });
    if (longest) return longest;
    if (any || service.provider == Provider::Kubernetes) return std::nullopt;
    return -1;
  }

  // Claim::ServiceAddress: whether the address belongs to a Service or Pod, which the entry may not
  // take over.
  bool is_refused_address(const ServiceRecord& service) const {
    if (service.provider != Provider::ServiceEntry ||
        ruling_of(Claim::ServiceAddress, service.ns->text(), view_.settings()) != Ruling::Refused)
      return false;
    const AddressView addresses = view_.addresses(service);
    if (addresses.empty() && !has_range(service)) return false;
    return view_.is_cluster_address(connection_.address);
  }

  static bool has_range(const ServiceRecord& service) {
    bool found = false;
    service.for_each_source([&](const StoredRef& source) {
      if (source->kind() != Kind::ServiceEntry) return;
      const Resource resource = source->decode();
      found |= !std::get<ServiceEntry>(resource).addresses.empty();
    });
    return found;
  }

  int whole_length() const { return connection_.address.is_v4() ? 32 : 128; }

  // A listener of its own at each VIP: whatever comes to it is the service's, TLS as well as TCP.
  bool match_vip() {
    const Candidate* best = nullptr;
    for (const Candidate& candidate : candidates_) {
      if (prefix_length(candidate) != whole_length()) continue;
      if (best == nullptr)
        best = &candidate;
      else
        note_second(candidate, *best);
    }
    if (best == nullptr) return false;
    take(TrafficMatch::Rule::Address, *best);
    if (best->protocol == Protocol::Http)
      note("an HTTP port: the Host header decides; specify it with --host");
    if (best->protocol == Protocol::Tls && !connection_.server_name.empty())
      note("a TLS port at a VIP: the address decides, the server name does not");
    return true;
  }

  void note_second(const Candidate& candidate, const Candidate& first) {
    note(std::string(candidate.host) + " has the address, too, but " + std::string(first.host) +
         " comes first");
  }

  // All services without a VIP share the listener of their port.  The longest range of addresses
  // counts most in it, the server name of TLS next.
  bool match_range() {
    const std::vector<std::string> names = server_names();
    const Candidate* best = nullptr;
    std::tuple<int, bool, bool, std::size_t> best_rank;
    for (const Candidate& candidate : candidates_) {
      const bool is_tls = candidate.protocol == Protocol::Tls;
      if (is_tls && !names_match(candidate, names)) continue;
      const auto length = prefix_length(candidate);
      if (!length && is_tls)
        note(std::string(candidate.host) + " has the server name, but " +
             connection_.address.to_string() + " is not one of its addresses");
      if (!length || (*length < 0 && !is_tls)) continue;
      const std::tuple rank(*length, is_tls, is_tls && !candidate.host.starts_with("*"),
                            is_tls ? candidate.host.size() : 0);
      if (best != nullptr && rank == best_rank) note_second(candidate, *best);
      if (best != nullptr && rank <= best_rank) continue;
      best = &candidate;
      best_rank = rank;
    }
    if (best == nullptr) return false;
    take(best->protocol == Protocol::Tls ? TrafficMatch::Rule::ServerName
                                         : TrafficMatch::Rule::AddressRange,
         *best);
    if (best->protocol == Protocol::Http)
      note("an HTTP port: the Host header decides; specify it with --host");
    return true;
  }

  // The server name, and the targets of the ExternalName Services that have it: an alias is an
  // extra match of its target.
  std::vector<std::string> server_names() {
    if (connection_.server_name.empty()) return {};
    std::vector<std::string> names{without_port(connection_.server_name)};
    Match match = view_.lookup(names.front());
    for (int i = 0; i < kMaxAliases && match && match.service->answer == AnswerKind::Alias; ++i) {
      names.emplace_back(match.service->alias());
      note(std::string(match.entry->host()) + " is an ExternalName: an extra match of " +
           names.back());
      match = view_.lookup(match.service->alias());
    }
    return names;
  }

  // Returns whether the client's server name is the candidate's.  Says why not where only that is
  // missing.
  bool names_match(const Candidate& candidate, const std::vector<std::string>& names) {
    const bool matches = std::ranges::any_of(
        names, [&](const std::string& name) { return host_matches(candidate.host, name); });
    if (matches || prefix_length(candidate).value_or(-1) < 0) return matches;
    note(std::string(candidate.host) +
         (names.empty()
              ? " has the address range, but the server name decides; specify it with --sni"
              : " has the address range, but not the server name"));
    return false;
  }

  // A headless Service has a listener per endpoint, at the Service's port; clients that follow its
  // SRV records come to the endpoint's own.
  bool match_headless_endpoint() {
    for (const auto& name : view_.reverse(connection_.address)) {
      const EndpointList* endpoints = name.service->endpoints();
      if (endpoints == nullptr || !name.service->headless) continue;
      if (match_endpoint_of(*name.service, *endpoints)) return true;
    }
    return false;
  }

  bool match_endpoint_of(const ServiceRecord& service, const EndpointList& endpoints) {
    for (const EndpointEntry& entry : endpoints.entries) {
      if (entry.address != connection_.address || !service.ports) continue;
      for (const ServicePort& port : service.ports->ports) {
        if (port.number != connection_.port &&
            endpoint_port(endpoints, entry, port) != connection_.port)
          continue;
        if (is_kept_away(host_of(service), service, port) ||
            !has_listener_per_endpoint(service, port))
          continue;
        take(TrafficMatch::Rule::HeadlessEndpoint,
             {host_of(service), &service, &port, Protocol::Tcp});
        return true;
      }
    }
    return false;
  }

  // Not of HTTP ports: those are matched by the Host header, whatever the address.
  bool has_listener_per_endpoint(const ServiceRecord& service, const ServicePort& port) {
    const Protocol protocol = protocol_of(service, port);
    if (protocol == Protocol::Http && connection_.http_host.empty())
      note(std::string(host_of(service)) +
           " has the endpoint, but its port is HTTP: the Host header decides; specify it with "
           "--host");
    return protocol != Protocol::Http && protocol != Protocol::Udp;
  }

  std::string_view host_of(const ServiceRecord& service) const {
    std::string_view host;
    view_.snapshot().hosts.for_each([&](const HostEntry& entry) {
      for (const ServiceRecord* record : entry.records())
        if (record == &service || (record->parts() != nullptr && record->parts()->has(service)))
          host = entry.host();
    });
    return host;
  }

  // Entries without addresses own their ports at every address.
  bool match_port() {
    for (const Candidate& candidate : candidates_) {
      if (prefix_length(candidate) != -1) continue;
      if (candidate.protocol == Protocol::Http || candidate.protocol == Protocol::Tls) {
        note(std::string(candidate.host) + " has the port, but its connections are matched by " +
             (candidate.protocol == Protocol::Http ? "the Host header" : "the server name"));
        continue;
      }
      if (match_.service == nullptr)
        take(TrafficMatch::Rule::Port, candidate);
      else
        note(std::string(candidate.host) + " has the port, too, but comes later");
    }
    return match_.service != nullptr;
  }

  // --- the VirtualServices that route it

  // A port of which the protocol is not known routes as HTTP what shows a Host header.
  RouteLayer layer() const {
    const bool shows_host = !connection_.http_host.empty();
    if (match_.service == nullptr) return shows_host ? RouteLayer::Http : RouteLayer::Tcp;
    const Protocol protocol = protocol_of(*match_.service, match_.port);
    if (protocol == Protocol::Tls) return RouteLayer::Tls;
    if (protocol == Protocol::Sniffed && shows_host) return RouteLayer::Http;
    return protocol == Protocol::Http ? RouteLayer::Http : RouteLayer::Tcp;
  }

  // The proxy knows the hosts of VirtualServices with HTTP routes, also those without a service.
  bool is_routed_by_host() const { return layer() == RouteLayer::Http && !match_.routes.empty(); }

  void add_routes() {
    const RouteLayer at = layer();
    const std::string& name =
        at == RouteLayer::Http ? connection_.http_host : connection_.server_name;
    if (match_.host.empty() && name.empty()) return;
    match_.routes = match_routes(view_, {.layer = at,
                                         .address = connection_.address,
                                         .port = connection_.port,
                                         .service = match_.host,
                                         .requested = without_port(name)});
    for (const RouteMatched& route : match_.routes)
      for (const std::string& text : route.notes)
        if (std::ranges::find(match_.notes, text) == match_.notes.end()) note(text);
  }

  const View& view_;
  const Connection& connection_;
  std::vector<Candidate> candidates_;
  TrafficMatch match_;
};

}  // namespace

std::string_view to_string(TrafficMatch::Rule rule) {
  return enum_text<TrafficMatch::Rule::Port>(
      rule, {"passthrough", "dropped", "address and port", "address range and port",
             "endpoint of a headless service", "TLS server name", "HTTP host", "port"});
}

TrafficMatch match_traffic(const View& view, const Connection& connection) {
  return Matcher(view, connection).run();
}

}  // namespace meshdns::registry
