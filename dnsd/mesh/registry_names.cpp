// SPDX-License-Identifier: Apache-2.0
#include "dnsd/mesh/registry_names.hpp"

#include <algorithm>
#include <utility>

#include "dnsd/answer/cluster_zone.hpp"
#include "dnsd/answer/local_resolution.hpp"
#include "dnsd/answer/service_names.hpp"
#include "registry/base/host_name.hpp"

namespace meshdns::dnsd {
namespace {

using registry::ResolvedName;
using registry::View;
using resolver::MeshAnswer;
using State = ResolvedName::State;

// Addresses of one family that are taken, as of a name that is looked up outside: a host may have
// thousands of endpoints, and thousands of hosts may have its name as theirs.
constexpr std::size_t kMaxAddresses = 256;

constexpr Millis kClientLife = 1'000;        // for lookups
constexpr std::size_t kMaxClients = 10'000;  // that are kept, one for each namespace

// The addresses of one family, at most kMaxAddresses.
class Taken {
 public:
  Taken(bool is_v4, std::vector<IpAddress>& to) : is_v4_(is_v4), to_(to) {}
  void add(const IpAddress& address) {
    if (!is_full() && address.is_v4() == is_v4_ &&
        std::ranges::find(to_.end() - count_, to_.end(), address) == to_.end()) {
      to_.push_back(address);
      ++count_;
    }
  }
  bool is_full() const { return count_ == kMaxAddresses; }

 private:
  bool is_v4_;
  std::ptrdiff_t count_ = 0;
  std::vector<IpAddress>& to_;
};

void take_addresses(const View& view, const Decision& decision, Taken taken) {
  switch (decision.verdict) {
    case Verdict::Addresses: {
      const registry::AddressView addresses = view.addresses(*decision.match.service);
      for (const auto& octets : addresses.v4) taken.add(IpAddress::v4(octets));
      for (const auto& octets : addresses.v6) taken.add(IpAddress::v6(octets));
      return;
    }
    case Verdict::EndpointAddresses: {
      const registry::ServiceRecord& service = *decision.match.service;
      for_each_endpoint_named(view, service, read_service_labels(decision.below, service),
                              [&](const registry::EndpointEntry& endpoint) {
                                taken.add(endpoint.address);
                                return !taken.is_full();
                              });
      return;
    }
    case Verdict::LocalAddresses:
      for (const IpAddress& address : decision.local->addresses) taken.add(address);
      return;
    case Verdict::Address:
      taken.add(decision.address);
      return;
    default:
      return;
  }
}

// Returns the state of a name without addresses.
State state_of(const View& view, const Decision& decision) {
  switch (decision.verdict) {
    case Verdict::Wait:
      return State::Pending;
    case Verdict::NotReady:
      return view.snapshot().sources.synced ? State::Failed : State::Pending;
    case Verdict::Unresolvable:
      return State::Failed;
    default:
      return State::NoAddresses;
  }
}

// One more than the endpoint names of the service have, whose own addresses may come through
// further services.
std::uint8_t links_through(const Decision& decision) {
  if (decision.match.service == nullptr || !decision.match.service->details) return 0;
  const auto& details = *decision.match.service->details;
  if (details.resolved_names.empty()) return 0;
  return std::min<std::uint8_t>(details.name_links + 1, ResolvedName::kMaxLinks + 1);
}

void add_family(const View& view, const Decision& decision, wire::Type type, ResolvedName& name) {
  name.links = std::max(name.links, links_through(decision));
  take_addresses(view, decision, Taken(type == wire::Type::A, name.addresses));
  name.state = name.addresses.empty() ? state_of(view, decision) : State::Resolved;
  name.reason = name.addresses.empty() ? std::string(decision.why) : "";
}

// Services whose endpoint names lead in a circle would hand the addresses on for ever.  Each link
// counts, so that a circle ends like a chain that is too long.
void end_circle(ResolvedName& name) {
  if (name.links <= ResolvedName::kMaxLinks) return;
  name.state = State::NoAddresses;
  name.addresses.clear();
  name.reason = "its endpoint names form a loop or a chain of more than 8 services";
}

}  // namespace

// The table may keep the client of a namespace that has no names any more.
RegistryNames::KnownClient& RegistryNames::client_of(std::string_view ns) {
  const registry::Snapshot& snapshot = *registry_.current();
  const auto known = clients_.find(ns);
  if (known != clients_.end() && known->second.generation == snapshot.generation)
    return known->second;
  if (clients_.size() >= kMaxClients) clients_.clear();
  registry::ClientIdentity identity;
  identity.ns = ns;
  identity.cluster = snapshot.default_client->identity.cluster;
  return clients_[std::string(ns)] = {registry_.client_of(identity), snapshot.generation, 0};
}

const registry::Client& RegistryNames::client_for_lookup(std::string_view ns, Millis now) {
  const auto known = clients_.find(ns);
  const bool is_old =
      known == clients_.end() || (known->second.old_at != 0 && now >= known->second.old_at);
  KnownClient& client = is_old ? client_of(ns) : known->second;
  if (client.old_at == 0 || is_old) client.old_at = now + kClientLife;
  return *client.client;
}

MeshAnswer RegistryNames::find(std::string_view ns, std::string_view host, std::string_view name) {
  View view(*registry_.current(), *client_of(ns).client);
  view.leave_out_users_of(host);
  MeshAnswer answer;
  answer.result.host = host;
  for (const wire::Type type : {wire::Type::A, wire::Type::Aaaa}) {
    AliasChain chain;
    const Decision decision = resolve_locally(view,
                                              {.name = name,
                                               .type = type,
                                               .is_target = name != host,
                                               .is_absolute = true,
                                               .local = local_.get()},
                                              chain);
    answer.result.via.clear();
    for (std::size_t i = 0; i < chain.size(); ++i) answer.result.via.emplace_back(chain.target(i));
    if (decision.verdict == Verdict::Forward) {
      answer.is_outside = true;
      answer.result.addresses.clear();
      answer.result.state = State::Pending;
      return answer;
    }
    add_family(view, decision, type, answer.result);
  }
  end_circle(answer.result);
  return answer;
}

}  // namespace meshdns::dnsd
