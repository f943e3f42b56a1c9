// SPDX-License-Identifier: Apache-2.0
#include "dnsd/daemon/server_names.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <sstream>
#include <utility>

#include "dnsd/forward/forward_listener.hpp"
#include "dnsd/forward/forwarder.hpp"
#include "registry/base/durable_file.hpp"
#include "registry/base/host_name.hpp"
#include "wire/octets.hpp"
#include "wire/query_message.hpp"

namespace meshdns::dnsd {
namespace {

using State = registry::ResolvedName::State;

// Stands for the namespace of these names, which no object is in.
constexpr std::string_view kNoNamespace = "";
constexpr std::size_t kMaxServersFile = std::size_t{1} << 20;
// Addresses of one name that are used: more servers than this only delay an answer that fails.
constexpr std::size_t kMaxServerAddresses = 8;

UpstreamConfig without_rules(UpstreamConfig system) {
  system.zones.clear();
  system.link_zones.clear();
  system.deny_answers.clear();  // servers usually have private addresses
  return system;
}

}  // namespace

// The servers of this machine, asked without a cache: its answers are not those of the servers that
// the configuration names.
class SystemServers final : public resolver::QueryPath, private SilentListener {
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

ServerNames::ServerNames(registry::Registry& registry, Log& log, std::string hosts_file)
    : registry_(registry), log_(log), hosts_path_(std::move(hosts_file)), mesh_names_(registry) {}
ServerNames::~ServerNames() = default;

void ServerNames::follow(uv_loop_t* loop, const UpstreamConfig& config,
                         const UpstreamConfig& system, const std::string& file,
                         std::function<void()> on_change) {
  on_change_ = std::move(on_change);
  if (std::exchange(file_, file) != file) load();
  std::set<std::string, std::less<>> names;
  const auto add = [&](const std::vector<UpstreamServer>& servers) {
    for (const UpstreamServer& server : servers)
      if (!server.host.empty()) names.insert(server.host);
  };
  add(config.servers);
  for (const auto& [zone, servers] : config.zones) add(servers);
  const auto before = std::exchange(names_, std::move(names));
  if (names_.empty()) return close();
  if (auto hosts = read_hosts_file(hosts_path_)) hosts_ = *std::move(hosts);
  if (system_) {
    system_->reconfigure(system);
  } else {
    system_ = std::make_unique<SystemServers>(loop, system);
    change_timer_.open(loop, [this] {
      const auto call = on_change_;  // which follow() replaces
      call();
    });
    auto lookups = resolver::CaresLookups::open(loop, *system_, 2 * system.timeout);
    if (!lookups) {
      log_.error("names of upstream servers are not looked up",
                 {{"reason", lookups.error().message}});
      return close();
    }
    lookups_ = std::move(*lookups);
    resolver_ = std::make_unique<resolver::NameResolver>(
        loop, *lookups_, resolver::ResolverPolicy{},
        [] { return std::chrono::steady_clock::now(); },
        static_cast<resolver::ResolverListener&>(*this), static_cast<resolver::MeshNames*>(this));
    for (const std::string& name : names_) resolver_->watch(name, kNoNamespace);
    return;
  }
  for (const std::string& name : before)
    if (!names_.contains(name)) resolver_->unwatch(name, kNoNamespace);
  for (const std::string& name : names_)
    if (!before.contains(name)) resolver_->watch(name, kNoNamespace);
  resolver_->recheck_all();
  resolver_->retry_failed();
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
    const auto found = addresses_.find(server.host);
    if (found == addresses_.end()) continue;
    for (const IpAddress& address : found->second) {
      UpstreamServer& one = known.emplace_back(server);
      one.host.clear();
      one.address.ip = address;
    }
  }
  servers = std::move(known);
}

void ServerNames::recheck() {
  const std::string& domain = registry_.current()->settings->cluster_domain;
  for (const std::string& name : names_)
    if (resolver_ && is_below(name, domain)) resolver_->recheck(name, kNoNamespace);
}

void ServerNames::close() {
  change_timer_.close();
  resolver_.reset();
  lookups_.reset();
  if (system_) system_->close();
  system_.reset();
}

void ServerNames::on_resolved(std::string_view, std::vector<registry::ResolvedName>&& names) {
  bool has_changed = false;
  for (registry::ResolvedName& name : names) {
    if (name.state == State::Failed || name.state == State::NoAddresses)
      log_.write_folded(LogLevel::Warn, "the name of an upstream server has no address",
                        {{"name", name.host}, {"reason", name.reason}});
    if (name.addresses.empty()) continue;  // the last good ones stay
    if (name.addresses.size() > kMaxServerAddresses) name.addresses.resize(kMaxServerAddresses);
    std::vector<IpAddress>& known = addresses_[name.host];
    has_changed = has_changed || known != name.addresses;
    known = std::move(name.addresses);
  }
  if (!has_changed) return;
  save();
  change_timer_.start(std::chrono::milliseconds(0));
}

resolver::MeshAnswer ServerNames::find(std::string_view, std::string_view host,
                                       std::string_view name) {
  if (is_below(name, registry_.current()->settings->cluster_domain))
    return mesh_names_.find(kNoNamespace, host, name);
  resolver::MeshAnswer answer;
  answer.result.host = host;
  for (const HostsFile::Entry& entry : hosts_.entries)
    if (std::ranges::find(entry.names, name) != entry.names.end())
      answer.result.addresses.push_back(entry.address);
  answer.is_outside = answer.result.addresses.empty();
  answer.result.state = answer.is_outside ? State::Pending : State::Resolved;
  return answer;
}

std::vector<std::string> ServerNames::names_of(std::string_view) const {
  return {names_.begin(), names_.end()};
}

std::vector<std::string> ServerNames::namespaces() const { return {std::string(kNoNamespace)}; }

// A line for each name: "dns.example.org 192.0.2.53 2001:db8::53".
void ServerNames::load() {
  if (file_.empty()) return;
  const auto octets = read_octets(file_, kMaxServersFile);
  if (!octets)
    log_.warn("cannot read the addresses of upstream servers",
              {{"reason", octets.error().message}});
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
  for (const std::string& name : names_) {
    const auto known = addresses_.find(name);
    if (known == addresses_.end()) continue;
    text += name;
    for (const IpAddress& address : known->second) text.append(" ").append(address.to_string());
    text += '\n';
  }
  const auto* const octets = reinterpret_cast<const std::uint8_t*>(text.data());
  if (auto written = write_durably(file_, {octets, text.size()}); !written)
    log_.warn("cannot save the addresses of upstream servers",
              {{"reason", written.error().message}});
}

}  // namespace meshdns::dnsd
