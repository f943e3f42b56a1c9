// SPDX-License-Identifier: Apache-2.0
#include "dnsd/mesh/server_names.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <sstream>
#include <utility>

#include "registry/base/durable_file.hpp"
#include "registry/base/host_name.hpp"
#include "resolver/forward/forwarder.hpp"
#include "resolver/wire/octets.hpp"
#include "resolver/wire/query_message.hpp"

namespace meshdns::dnsd {
namespace {

using State = registry::ResolvedName::State;

// Stands for the namespace of these names, which no object is in.
constexpr std::string_view kNoNamespace = "";
constexpr std::size_t kMaxServersFile = std::size_t{1} << 20;
// Addresses of one name that are used: more servers than this only delay an answer that fails.
constexpr std::size_t kMaxServerAddresses = 8;
// There are few of these names, and much depends on each.
constexpr std::chrono::milliseconds kLongestBackoff{5'000};

UpstreamConfig without_rules(UpstreamConfig system) {
  system.zones.clear();
  system.link_zones.clear();
  system.deny_answers.clear();  // servers usually have private addresses
  return system;
}

}  // namespace

// The servers of this machine, asked without a cache: its answers are not those of the servers that
// the configuration names.
class SystemServers final : public resolver::QueryPath, private ForwardListener {
 public:
  SystemServers(uv_loop_t* loop, const UpstreamConfig& system)
      : loop_(loop),
        shared_(std::make_shared<ForwardShared>(kNoCache, static_cast<ForwardListener&>(*this))),
        forwarder_(loop, shared_, without_rules(system), kNoCache) {
    shared_->reconfigure(without_rules(system));
  }

  void reconfigure(const UpstreamConfig& system) {
    shared_->reconfigure(without_rules(system));
    forwarder_.reconfigure(without_rules(system), kNoCache);
  }
  void close() { forwarder_.close(); }

  void ask(resolver::PathQuery query, Reply reply) override {
    wire::QueryMessage message;
    if (wire::parse_query(query.message, message) != wire::ParseOutcome::Ok) return reply({});
    ForwardRequest request;
    request.question = question_of(message);
    forwarder_.resolve(
        std::move(request), [this, type = message.qtype, id = wire::load_u16(query.message.data()),
                             reply = std::move(reply)](const Outcome& outcome) {
          std::vector<std::uint8_t> octets = outcome.message->to_wire(uv_now(loop_));
          wire::store_u16(octets.data(), id);
          // One name error is for all types, with the type that was asked first.
          wire::store_u16(octets.data() + wire::kHeaderSize + outcome.message->name().size(),
                          static_cast<std::uint16_t>(type));
          reply(octets);
        });
  }

 private:
  static inline const CacheConfig kNoCache = [] {
    CacheConfig cache;
    cache.size_bytes = 0;
    cache.serve_stale = std::chrono::seconds(0);
    return cache;
  }();

  uv_loop_t* loop_;
  std::shared_ptr<ForwardShared> shared_;
  Forwarder forwarder_;
};

class ServerNames::Use final : public registry::NamedServer {
 public:
  Use(ServerNames& names, std::string host, std::function<void()> on_change)
      : names_(names), host_(std::move(host)), on_change_(std::move(on_change)) {
    names_.uses_.push_back(this);
  }
  ~Use() override { std::erase(names_.uses_, this); }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;

  registry::ServerAddresses find() const override { return names_.addresses_of(host_); }
  const std::string& host() const { return host_; }
  const std::function<void()>& on_change() const { return on_change_; }

 private:
  ServerNames& names_;
  const std::string host_;
  const std::function<void()> on_change_;
};

ServerNames::ServerNames(registry::Registry& registry, Log& log, std::string hosts_file)
    : registry_(registry), log_(log), hosts_path_(std::move(hosts_file)), mesh_names_(registry) {}
ServerNames::~ServerNames() = default;

void ServerNames::follow(uv_loop_t* loop, const UpstreamConfig& config, SystemResolver system,
                         const std::string& file, std::function<void()> on_change) {
  loop_ = loop;
  on_change_ = std::move(on_change);
  resolver_of_system_ = std::move(system);
  if (std::exchange(file_, file) != file) load();
  of_upstream_.clear();
  const auto add = [&](const std::vector<UpstreamServer>& servers) {
    for (const UpstreamServer& server : servers)
      if (!server.host.empty()) of_upstream_.insert(server.host);
  };
  add(config.servers);
  for (const auto& [zone, servers] : config.zones) add(servers);
  if (hosts().empty()) return close();
  if (auto hosts = read_hosts_file(hosts_path_)) hosts_ = *std::move(hosts);
  const bool is_open = resolver_ != nullptr;
  if (!open()) return;
  if (is_open) {
    system_->reconfigure(resolver_of_system_.upstream);
    resolver_->recheck_all();
    resolver_->retry_failed();
  }
  watch_wanted();
}

std::unique_ptr<registry::NamedServer> ServerNames::use(const std::string& host,
                                                        std::function<void()> on_change) {
  auto use = std::make_unique<Use>(*this, host, std::move(on_change));
  if (open()) watch_wanted();
  return use;
}

// False: nothing can be looked up.
bool ServerNames::open() {
  if (resolver_) return true;
  if (auto hosts = read_hosts_file(hosts_path_)) hosts_ = *std::move(hosts);
  const UpstreamConfig& upstream = resolver_of_system_.upstream;
  system_ = std::make_unique<SystemServers>(loop_, upstream);
  change_timer_.open(loop_, [this] { tell(); });
  auto lookups = resolver::CaresLookups::open(loop_, *system_, 2 * upstream.timeout);
  if (!lookups) {
    log_.error("names of servers are not looked up", {{"reason", lookups.error().message}});
    close();
    return false;
  }
  lookups_ = std::move(*lookups);
  resolver::ResolverPolicy policy;
  policy.refresh.max_backoff = kLongestBackoff;
  resolver_ = std::make_unique<resolver::NameResolver>(
      loop_, *lookups_, policy, [] { return std::chrono::steady_clock::now(); },
      static_cast<resolver::ResolverListener&>(*this), static_cast<resolver::MeshNames*>(this));
  return true;
}

std::set<std::string, std::less<>> ServerNames::hosts() const {
  auto hosts = of_upstream_;
  for (const Use* const use : uses_) hosts.insert(use->host());
  return hosts;
}

// The full name comes first, whatever its number of dots: while it exists, the search list is not
// used.
std::vector<std::string> ServerNames::searched(const std::string& host) const {
  std::vector<std::string> names;
  for (const std::string& domain : resolver_of_system_.search) {
    std::string name = host;
    name.append(".").append(domain);
    if (name.size() <= kMaxHostLength) names.push_back(std::move(name));
  }
  return names;
}

void ServerNames::watch_wanted() {
  auto wanted = hosts();
  for (const std::string& host : hosts())
    if (absent_.contains(host))
      for (std::string& name : searched(host)) wanted.insert(std::move(name));
  const auto before = std::exchange(watched_, std::move(wanted));
  for (const std::string& name : before) {
    if (watched_.contains(name)) continue;
    resolver_->unwatch(name, kNoNamespace);
    addresses_.erase(name);
    reasons_.erase(name);
    absent_.erase(name);
  }
  for (const std::string& name : watched_)
    if (!before.contains(name)) resolver_->watch(name, kNoNamespace);
}

registry::ServerAddresses ServerNames::addresses_of(const std::string& host) const {
  std::vector<std::string> names = searched(host);
  names.insert(names.begin(), host);
  registry::ServerAddresses result;
  bool is_awaited = false;
  for (const std::string& name : names) {
    const auto reason = reasons_.find(name);
    const auto known = addresses_.find(name);
    if (known != addresses_.end())
      return {known->second, reason == reasons_.end() ? "" : reason->second};
    if (result.reason.empty() && reason != reasons_.end()) result.reason = reason->second;
    is_awaited = is_awaited || (watched_.contains(name) && reason == reasons_.end());
  }
  if (!resolver_) result.reason = "names are not looked up";
  if (is_awaited) result.reason.clear();
  return result;
}

void ServerNames::fill_in(UpstreamConfig& upstream) const {
  fill_in(upstream.servers);
  for (auto& [zone, servers] : upstream.zones) fill_in(servers);
}

void ServerNames::fill_in(std::vector<UpstreamServer>& servers) const {
  std::vector<UpstreamServer> known;
  for (UpstreamServer& server : servers) {
    if (server.host.empty()) {
      known.push_back(std::move(server));
      continue;
    }
    for (const IpAddress& address : addresses_of(server.host).addresses) {
      UpstreamServer& one = known.emplace_back(server);
      one.host.clear();
      one.address.ip = address;
    }
  }
  servers = std::move(known);
}

void ServerNames::recheck() {
  const std::string& domain = registry_.current()->settings->cluster_domain;
  for (const std::string& name : watched_)
    if (resolver_ && is_below(name, domain)) resolver_->recheck(name, kNoNamespace);
}

void ServerNames::close() {
  change_timer_.close();
  watched_.clear();
  resolver_.reset();
  lookups_.reset();
  if (system_) system_->close();
  system_.reset();
}

void ServerNames::on_resolved(std::string_view, std::vector<registry::ResolvedName>&& names) {
  bool has_changed = false;
  for (registry::ResolvedName& name : names) {
    if (name.state == State::NoAddresses) absent_.insert(name.host);
    if (name.state == State::NoAddresses || name.state == State::Failed)
      reasons_[name.host] = name.reason;
    if (name.addresses.empty()) continue;  // the last good ones stay
    absent_.erase(name.host);
    reasons_.erase(name.host);
    if (name.addresses.size() > kMaxServerAddresses) name.addresses.resize(kMaxServerAddresses);
    std::vector<IpAddress>& known = addresses_[name.host];
    has_changed = has_changed || known != name.addresses;
    known = std::move(name.addresses);
  }
  if (has_changed) save();
  change_timer_.start(std::chrono::milliseconds(0));
}

void ServerNames::tell() {
  watch_wanted();
  std::map<std::string, registry::ServerAddresses, std::less<>> now;
  for (const std::string& host : hosts()) now[host] = addresses_of(host);
  const auto before = std::exchange(told_, now);
  std::set<std::string, std::less<>> changed;
  bool has_upstream_changed = false;
  for (const auto& [host, known] : now) {
    const auto old = before.find(host);
    if (old != before.end() && old->second == known) continue;
    changed.insert(host);
    const bool has_new_addresses =
        old == before.end() ? !known.addresses.empty() : old->second.addresses != known.addresses;
    has_upstream_changed =
        has_upstream_changed || (has_new_addresses && of_upstream_.contains(host));
    if (!known.reason.empty())
      log_.write_folded(LogLevel::Warn, "the name of a server cannot be looked up",
                        {{"name", host}, {"reason", known.reason}});
  }
  // A call may begin and end uses.
  for (const Use* const use : std::vector<Use*>(uses_)) {
    if (std::ranges::find(uses_, use) == uses_.end() || !changed.contains(use->host())) continue;
    const auto call = use->on_change();
    call();
  }
  if (!has_upstream_changed) return;
  const auto call = on_change_;  // which follow() replaces
  call();
}

resolver::MeshAnswer ServerNames::find(std::string_view, std::string_view host,
                                       std::string_view name) {
  resolver::MeshAnswer answer;
  answer.result.host = host;
  for (const HostsFile::Entry& entry : hosts_.entries)
    if (std::ranges::find(entry.names, name) != entry.names.end())
      answer.result.addresses.push_back(entry.address);
  answer.is_outside = answer.result.addresses.empty();
  answer.result.state = answer.is_outside ? State::Pending : State::Resolved;
  if (!answer.is_outside) return answer;
  if (!special_zone_of(name).empty()) return mesh_names_.find(kNoNamespace, host, name);
  // Until the registry has the name, the servers of this machine may know it: those of a Pod do,
  // and the registry may come from the server that the name is for.
  if (is_below(name, registry_.current()->settings->cluster_domain))
    if (auto known = mesh_names_.find(kNoNamespace, host, name); !known.result.addresses.empty())
      return known;
  return answer;
}

std::vector<std::string> ServerNames::names_of(std::string_view) const {
  return {watched_.begin(), watched_.end()};
}

std::vector<std::string> ServerNames::namespaces() const { return {std::string(kNoNamespace)}; }

// A line for each name: "dns.example.org 192.0.2.53 2001:db8::53".
void ServerNames::load() {
  if (file_.empty()) return;
  const auto octets = read_octets(file_, kMaxServersFile);
  if (!octets)
    log_.warn("cannot read the addresses of servers", {{"reason", octets.error().message}});
  if (!octets || !*octets) return;
  std::istringstream lines(std::string((*octets)->begin(), (*octets)->end()));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    std::vector<IpAddress> addresses;
    for (std::string word; words >> word && addresses.size() < kMaxServerAddresses;)
      if (const auto address = IpAddress::parse(word)) addresses.push_back(*address);
    if (!addresses.empty()) addresses_.try_emplace(name, std::move(addresses));
  }
}

void ServerNames::save() {
  if (file_.empty()) return;
  std::string text;
  for (const auto& [name, addresses] : addresses_) {
    text += name;
    for (const IpAddress& address : addresses) text.append(" ").append(address.to_string());
    text += '\n';
  }
  const auto* const octets = reinterpret_cast<const std::uint8_t*>(text.data());
  if (auto written = write_durably(file_, {octets, text.size()}); !written)
    log_.warn("cannot save the addresses of servers", {{"reason", written.error().message}});
}

}  // namespace meshdns::dnsd
