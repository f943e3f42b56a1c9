// SPDX-License-Identifier: Apache-2.0
#include "registry/snapshot/endpoint_addresses.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <span>
#include <unordered_map>
#include <utility>

namespace meshdns::registry {

bool AddressSetBuilder::add(const IpAddress& address, std::uint32_t weight) {
  if (address.is_unspecified() || !seen_.insert(address).second) return false;
  weighted_ |= weight != 1;
  if (address.is_v4()) {
    std::array<std::uint8_t, 4> octets;
    std::ranges::copy_n(address.octets().begin() + 12, 4, octets.begin());
    set_.v4.push_back(octets);
    v4_weights_.push_back(weight);
  } else {
    set_.v6.push_back(address.octets());
    v6_weights_.push_back(weight);
  }
  return true;
}

AddressSet AddressSetBuilder::take() {
  if (weighted_) {
    set_.v4_weights = std::move(v4_weights_);
    set_.v6_weights = std::move(v6_weights_);
  }
  set_.v4.shrink_to_fit();
  set_.v6.shrink_to_fit();
  return std::move(set_);
}

namespace {

using Entries = std::vector<const EndpointEntry*>;

// The ready endpoints by network, in the order of their first appearance.
class ReadyByNetwork {
 public:
  void add(const EndpointEntry& entry) {
    const auto [it, is_new] = positions_.try_emplace(entry.network.get(), networks_.size());
    if (is_new) networks_.emplace_back(entry.network, Entries());
    networks_[it->second].second.push_back(&entry);
  }
  const std::vector<std::pair<SymbolRef, Entries>>& networks() const { return networks_; }

 private:
  std::vector<std::pair<SymbolRef, Entries>> networks_;
  std::unordered_map<const Symbol*, std::size_t> positions_;
};

// An address with its weight and the place of its endpoint; a gateway has no place.
struct Weighted {
  IpAddress address;
  std::uint64_t weight = 1;
  Ref<const EndpointPlace> place = {};
};

// The places of a set's addresses, in the order in which they are added.
class PlaceList {
 public:
  explicit PlaceList(const NearRule& rule) {
    places_->rule = rule;
    places_->places.emplace_back();
  }
  void add(const IpAddress& address, const Ref<const EndpointPlace>& place) {
    const auto [it, is_new] =
        positions_.try_emplace(place.get(), static_cast<std::uint16_t>(places_->places.size()));
    if (is_new) places_->places.push_back(place);
    (address.is_v4() ? places_->v4 : places_->v6).push_back(it->second);
  }
  // Null: too many addresses, or nothing to tell them apart.
  Ref<const AddressPlaces> take() {
    const bool is_too_long =
        std::max(places_->v4.size(), places_->v6.size()) > AddressPlaces::kMaxAddresses;
    return is_too_long || places_->places.size() == 1 ? Ref<const AddressPlaces>() : places_;
  }

 private:
  Ref<AddressPlaces> places_{new AddressPlaces};
  std::unordered_map<const EndpointPlace*, std::uint16_t> positions_{{nullptr, 0}};
};

// Only the proportions of weights count.
AddressSet set_of(std::span<const Weighted> addresses, const NearRule& rule) {
  std::uint64_t common = 0;
  for (const Weighted& each : addresses) common = std::gcd(common, each.weight);
  const std::uint64_t divisor = std::max<std::uint64_t>(common, 1);
  AddressSetBuilder builder;
  PlaceList places(rule);
  const bool has_places = rule.is_active();
  for (const auto& [address, weight, place] : addresses) {
    const auto share =
        std::min<std::uint64_t>(weight / divisor, std::numeric_limits<std::uint32_t>::max());
    if (builder.add(address, static_cast<std::uint32_t>(share)) && has_places)
      places.add(address, place);
  }
  AddressSet set = builder.take();
  if (has_places) set.places = places.take();
  return set;
}

// The gateways in the place of endpoints, each with the weight of the endpoints behind it, as in
// Istio.
class Substitutes {
 public:
  Substitutes(const NetworkGateways& gateways, const ReadyByNetwork& table) : gateways_(gateways) {
    if (gateways.all().empty()) return;
    for (const auto& [network, own] : table.networks())
      for (const EndpointEntry* entry : own) note_size(to(*entry).size());
    for (const auto& [network, own] : table.networks())
      for (const EndpointEntry* entry : own)
        for (const auto& gateway : to(*entry)) {
          const std::uint64_t weight =
              std::max<std::uint64_t>(entry->weight * scale_ / to(*entry).size(), 1);
          all_[gateway.address] += weight;
          by_network_[network.get()][gateway.address] += weight;
        }
  }

  // The weights of endpoints are multiplied by this, so that those of gateways are whole.
  std::uint64_t scale() const { return scale_; }
  std::size_t size() const { return all_.size(); }
  // Adds the gateways to the endpoints of all networks but `own`.
  void add_others(const Symbol* own, std::vector<Weighted>& to) const {
    const auto left_out = by_network_.find(own);
    for (const auto& [address, weight] : all_) {
      std::uint64_t rest = weight;
      if (left_out != by_network_.end())
        if (const auto at = left_out->second.find(address); at != left_out->second.end())
          rest -= at->second;
      if (rest != 0) to.push_back({address, rest});
    }
  }

 private:
  using Weights = std::map<IpAddress, std::uint64_t>;
  static constexpr std::uint64_t kMaxScale = 5'040;  // beyond it, weights are nearly right

  std::span<const NetworkGateways::Gateway> to(const EndpointEntry& entry) const {
    return gateways_.to(entry.network.get(), entry.cluster.get());
  }
  void note_size(std::size_t gateways) {
    const std::uint64_t multiple = std::lcm(scale_, std::max<std::uint64_t>(gateways, 1));
    if (multiple <= kMaxScale) scale_ = multiple;
  }

  const NetworkGateways& gateways_;
  std::uint64_t scale_ = 1;
  Weights all_;
  std::map<const Symbol*, Weights> by_network_;
};

// The addresses for clients of `network`.
AddressSet set_for(const Symbol* network, const Entries& own, const Entries& unnamed,
                   const Substitutes& substitutes, const NearRule& rule) {
  std::vector<Weighted> addresses;
  for (const Entries* const entries : {&own, &unnamed})
    for (const EndpointEntry* entry : *entries)
      addresses.push_back({entry->address, entry->weight * substitutes.scale(), entry->place});
  substitutes.add_others(network, addresses);
  return set_of(addresses, rule);
}

}  // namespace

EndpointAddresses addresses_of(const EndpointList& endpoints, const NetworkGateways* gateways) {
  EndpointAddresses result;
  std::vector<Weighted> ready;
  Entries unnamed;  // reachable from every network
  ReadyByNetwork table;
  for (const auto& entry : endpoints.entries) {
    if (!entry.ready) continue;
    ready.push_back({entry.address, entry.weight, entry.place});
    if (entry.network)
      table.add(entry);
    else
      unnamed.push_back(&entry);
  }
  result.all = set_of(ready, endpoints.near);
  if (gateways == nullptr || table.networks().empty()) return result;
  const Substitutes substitutes(*gateways, table);
  std::size_t copies = 0;
  for (const auto& [network, own] : table.networks()) {
    copies += unnamed.size() + substitutes.size();
    if (copies > EndpointAddresses::kMaxCopies)
      ++result.networks_left_out;
    else
      result.by_network.push_back(
          {network, nullptr, set_for(network.get(), own, unnamed, substitutes, endpoints.near)});
  }
  // Clients of a network without endpoints of its own.
  result.by_network.push_back(
      {nullptr, nullptr, set_for(nullptr, {}, unnamed, substitutes, endpoints.near)});
  return result;
}

}  // namespace meshdns::registry
