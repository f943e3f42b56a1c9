// SPDX-License-Identifier: Apache-2.0
#include "registry/tables/reverse_table.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace meshdns::registry {
namespace {

// An address by which PTR finds a record.
struct UsedAddress {
  IpAddress address;
  AddressUse use;
  friend auto operator<=>(const UsedAddress&, const UsedAddress&) = default;
};

// Collects the addresses that records of one host answer with, and a Kubernetes Service's
// endpoints. Resolved names' addresses are left out: their reverse names are their owners'
// business.
class UsedAddresses {
 public:
  void add(const ServiceRecord& record) {
    // The address is that of the gateway's Service, which has a name.
    if (record.provider == Provider::Gateway) return;
    if (record.answer == AnswerKind::Vips ||
        (record.answer == AnswerKind::Endpoints && !has_resolved(record)))
      add_answers(record);
    // The addresses of an alias belong to its target.
    if (record.endpoints() == nullptr || record.answer == AnswerKind::Alias) return;
    const bool are_answers = record.answer == AnswerKind::Endpoints;
    if (record.is_claim() && !(are_answers && has_resolved(record))) return;
    for (const auto& entry : record.endpoints()->entries)
      if (!record.is_claim())
        add(record, entry.address, AddressUse::Kind::Service);
      else if (entry.ready && !entry.resolved)
        add(record, entry.address, AddressUse::Kind::Claim);
  }

  // Sorted.  Of an address that is used in several ways, the first kind counts, for all who see
  // one of them.
  std::vector<UsedAddress> take(const Symbol& ns, std::string_view host) {
    std::ranges::sort(found_);
    const std::uint64_t host_hash = hash_bytes(host);
    std::vector<UsedAddress> used;
    for (auto it = found_.begin(); it != found_.end();) {
      const Found& first = *it;
      auto audience = first.audience;
      for (; it != found_.end() && it->address == first.address; ++it)
        audience = std::min(audience, it->audience);
      used.push_back({first.address, AddressUse(first.kind, audience, ns, host_hash)});
    }
    return used;
  }

 private:
  struct Found {
    IpAddress address;
    AddressUse::Kind kind;
    AddressUse::Audience audience;
    auto operator<=>(const Found&) const = default;
  };
  static bool has_resolved(const ServiceRecord& record) {
    return record.endpoints() != nullptr &&
           std::ranges::any_of(record.endpoints()->entries, &EndpointEntry::resolved);
  }
  static AddressUse::Audience audience_of(const ServiceRecord& record) {
    if (record.is_public()) return AddressUse::Audience::Everybody;
    const bool is_for_others = std::ranges::any_of(
        record.exports->namespaces, [&](const SymbolRef& ns) { return ns != record.ns; });
    return is_for_others ? AddressUse::Audience::Some : AddressUse::Audience::Own;
  }
  void add(const ServiceRecord& record, const IpAddress& address, AddressUse::Kind kind) {
    found_.push_back({address, kind, audience_of(record)});
  }
  void add_answers(const ServiceRecord& record) {
    const AddressView view = record.addresses(nullptr, nullptr);
    const auto kind = record.is_claim()          ? AddressUse::Kind::Claim
                      : record.has_cluster_ips() ? AddressUse::Kind::ClusterIp
                                                 : AddressUse::Kind::Service;
    for (const auto& octets : view.v4) add(record, IpAddress::v4(octets), kind);
    for (const auto& octets : view.v6) add(record, IpAddress::v6(octets), kind);
  }

  std::vector<Found> found_;
};

std::vector<UsedAddress> used_addresses(std::string_view host, const ServiceRecord* record) {
  if (record == nullptr || record->placeholder) return {};
  UsedAddresses used;
  if (const ServiceParts* parts = record->parts())
    for (const auto& part : parts->all()) used.add(*part);
  else
    used.add(*record);
  return used.take(*record->ns, host);
}

}  // namespace

std::vector<IpAddress> reverse_addresses(const ServiceRecord* record) {
  std::vector<IpAddress> addresses;
  for (const UsedAddress& used : used_addresses({}, record)) addresses.push_back(used.address);
  return addresses;
}

void ReverseTable::note(std::string_view host, const ServiceRecord* before,
                        const ServiceRecord* after) {
  const auto was = used_addresses(host, before);
  const auto is = used_addresses(host, after);
  std::vector<UsedAddress> difference;
  std::ranges::set_difference(was, is, std::back_inserter(difference));
  for (const auto& used : difference) noted_.push_back({hash_of(used.address), true, used.use});
  difference.clear();
  std::ranges::set_difference(is, was, std::back_inserter(difference));
  for (const auto& used : difference) noted_.push_back({hash_of(used.address), false, used.use});
}

const ReverseEntry* ReverseTable::find(const IpAddress& address) const {
  const std::uint64_t hash = hash_of(address);
  return entries_.find(hash, [&](const ReverseEntry& e) { return e.address_hash() == hash; });
}

// In the order of the index, so that the part of it that one address has brought into the caches
// serves the next: a million addresses take half as long as in the order of their hosts.
void ReverseTable::apply() {
  auto changes = std::exchange(noted_, {});
  std::ranges::sort(changes);
  std::vector<AddressUse> uses;
  for (auto it = changes.begin(); it != changes.end();) {
    const std::uint64_t hash = it->address_hash;
    const auto same = [&](const ReverseEntry& e) { return e.address_hash() == hash; };
    uses.clear();
    if (const ReverseEntry* old = entries_.find(hash, same); old != nullptr)
      uses.assign(old->uses().begin(), old->uses().end());
    const auto sorted = static_cast<std::ptrdiff_t>(uses.size());
    for (; it != changes.end() && it->address_hash == hash && !it->removed; ++it)
      uses.push_back(it->use);
    std::inplace_merge(uses.begin(), uses.begin() + sorted, uses.end());
    for (; it != changes.end() && it->address_hash == hash; ++it)
      if (const auto use = std::ranges::lower_bound(uses, it->use);
          use != uses.end() && *use == it->use)
        uses.erase(use);
    if (uses.empty())
      entries_.erase(hash, same);
    else
      entries_.put(hash, ReverseEntry::create(hash, uses), same);
  }
}

}  // namespace meshdns::registry
