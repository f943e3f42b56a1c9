// SPDX-License-Identifier: Apache-2.0
#include "dnsd/answer/unreached.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>

namespace meshdns::dnsd {
namespace {

using registry::EndpointEntry;
using registry::ServiceRecord;
using registry::View;
using wire::Type;

// Endpoints that are looked at for a reason, and networks that it names: every query may ask for
// it.
constexpr std::size_t kMaxLookedAt = 256;
constexpr std::size_t kMaxNetworksNamed = 3;

template <typename Visit>
void for_each_unreached(const View& view, const ServiceRecord& service, const ServiceLabels& labels,
                        const Visit& visit) {
  for_each_endpoint_where(
      view, service, labels, [&](const EndpointEntry& entry) { return !view.reaches(entry); },
      visit);
}

// One more than is named, at most.
std::set<std::string_view> unreached_networks(const View& view, const Decision& decision) {
  const ServiceRecord& service = *decision.match.service;
  std::set<std::string_view> networks;
  const auto note = [&](const EndpointEntry& entry) {
    networks.insert(entry.network->text());
    return networks.size() <= kMaxNetworksNamed;
  };
  const ServiceLabels labels = read_service_labels(decision.below, service);
  if (labels.kind == ServiceLabels::Kind::Endpoint) {
    for_each_unreached(view, service, labels, note);
  } else if (const registry::EndpointList* const endpoints = service.endpoints()) {
    const std::span entries(endpoints->entries);
    for (const EndpointEntry& entry : entries.first(std::min(entries.size(), kMaxLookedAt)))
      if (entry.ready && !view.reaches(entry) && !note(entry)) break;
  }
  return networks;
}

std::string list_of(const std::set<std::string_view>& networks) {
  std::string text = networks.size() == 1 ? "network " : "networks ";
  std::size_t named = 0;
  for (const std::string_view network : networks) {
    if (named == kMaxNetworksNamed) break;
    text += (named++ == 0 ? "" : ", ") + std::string(network);
  }
  return networks.size() == named ? text : text + " and others";
}

}  // namespace

bool has_unreached_address(const ServiceRecord& service, Type type) {
  if (!service.details || service.details->by_network.empty()) return false;
  const registry::AddressSet& all = service.details->addresses;
  return type == Type::A ? !all.v4.empty() : !all.v6.empty();
}

bool are_all_unreached(const View& view, const ServiceRecord& service) {
  const registry::EndpointList* const endpoints = service.endpoints();
  if (!view.client().network || endpoints == nullptr) return false;
  if (endpoints->index.is_made())
    return std::ranges::none_of(endpoints->index.kinds(),
                                [&](const auto& kind) { return view.reaches(kind.network); });
  return std::ranges::none_of(endpoints->entries, [&](const EndpointEntry& entry) {
    return entry.ready && view.reaches(entry);
  });
}

UnreachedName find_unreached(const View& view, const ServiceRecord& service,
                             const ServiceLabels& labels) {
  UnreachedName found;
  if (!view.client().network) return found;
  for_each_unreached(view, service, labels, [&](const EndpointEntry& entry) {
    found.exists = true;
    for (const auto& gateway : view.gateways_to(entry))
      (gateway.address.is_v4() ? found.has_v4 : found.has_v6) = true;
    return !found.has_v4 || !found.has_v6;
  });
  return found;
}

void answer_gateways(const ServiceRecord& service, const ServiceLabels& labels,
                     AnswerContext& context) {
  const std::uint32_t ttl = context.view.ttl(service);
  std::set<IpAddress> written;
  std::set<const void*> done;  // lists of gateways: endpoints of one network have the same
  for_each_unreached(context.view, service, labels, [&](const EndpointEntry& entry) {
    const auto gateways = context.view.gateways_to(entry);
    if (!done.insert(gateways.data()).second) return true;
    for (const auto& gateway : gateways) {
      const IpAddress& address = gateway.address;
      if (address.is_v4() != (context.type == Type::A) || !written.insert(address).second) continue;
      if (context.writer.add_address(wire::Section::Answer, context.owner, ttl, address)) continue;
      context.writer.set_truncated();
      return false;
    }
    return true;
  });
}

std::string why_of(const View& view, const Decision& decision) {
  if (!decision.is_unreached) return std::string(decision.why);
  const auto networks = unreached_networks(view, decision);
  if (networks.empty() || !view.client().network) return std::string(decision.why);
  const bool has_gateways = view.settings().networks == registry::NetworkChoice::Gateways;
  return fmt::format("all endpoints are in {}, which clients of network {} cannot reach{}",
                     list_of(networks), view.client().network->text(),
                     has_gateways ? "; no gateway is known" : "");
}

}  // namespace meshdns::dnsd
