// SPDX-License-Identifier: Apache-2.0
#include "registry/snapshot/snapshot.hpp"

#include <algorithm>
#include <cstdlib>
#include <new>

namespace meshdns::registry {

// Kind, audience, namespace, and of the host's hash the 12 uppermost and the 32 lowest bits.
AddressUse::AddressUse(Kind kind, Audience audience, const Symbol& ns, std::uint64_t host_hash)
    : bits_(first_of(kind, audience, tag_of(ns.text())).bits_ | host_hash >> 52 << 32 |
            (host_hash & 0xffffffffU)) {}

AddressUse AddressUse::first_of(Kind kind, Audience audience, std::uint32_t ns_tag) {
  return AddressUse(static_cast<std::uint64_t>(kind) << kKindShift |
                    static_cast<std::uint64_t>(audience) << kAudienceShift |
                    std::uint64_t{ns_tag} << kNamespaceShift);
}

AddressUse AddressUse::behind(Kind kind, Audience audience, std::uint32_t ns_tag) {
  return AddressUse(first_of(kind, audience, ns_tag).bits_ + (std::uint64_t{1} << kNamespaceShift));
}

std::uint32_t AddressUse::tag_of(std::string_view ns) {
  return static_cast<std::uint32_t>(hash_bytes(ns)) & kNamespaceMask;
}

std::uint64_t AddressUse::host_hash() const {
  return (bits_ >> 32 & 0xfff) << 52 | (bits_ & 0xffffffffU);
}

Ref<const ReverseEntry> ReverseEntry::create(std::uint64_t address_hash,
                                             std::span<const AddressUse> uses) {
  void* memory = std::malloc(sizeof(ReverseEntry) + uses.size_bytes());
  if (memory == nullptr) throw std::bad_alloc();
  auto* entry = new (memory) ReverseEntry(address_hash, uses.size());
  std::uninitialized_copy(uses.begin(), uses.end(), reinterpret_cast<AddressUse*>(entry + 1));
  return Ref<const ReverseEntry>(entry);
}

void ReverseEntry::destroy(const ReverseEntry* entry) {
  entry->~ReverseEntry();
  std::free(const_cast<ReverseEntry*>(entry));  // NOLINT(cppcoreguidelines-pro-type-const-cast)
}

std::span<const AddressUse> ReverseEntry::uses(AddressUse::Kind kind) const {
  return std::ranges::equal_range(uses(), kind, {}, &AddressUse::kind);
}

std::span<const AddressUse> ReverseEntry::uses(AddressUse::Kind kind,
                                               AddressUse::Audience audience) const {
  return std::ranges::equal_range(uses(kind), audience, {}, &AddressUse::audience);
}

std::span<const AddressUse> ReverseEntry::uses(AddressUse::Kind kind, AddressUse::Audience audience,
                                               std::uint32_t ns_tag) const {
  const auto all = uses();
  return {std::ranges::lower_bound(all, AddressUse::first_of(kind, audience, ns_tag)),
          std::ranges::lower_bound(all, AddressUse::behind(kind, audience, ns_tag))};
}

std::uint64_t hash_of(const IpAddress& address) {
  const auto& octets = address.octets();
  return hash_bytes({reinterpret_cast<const char*>(octets.data()), octets.size()});
}

const PodEntry* Snapshot::find_pod(const IpAddress& address) const {
  return pods.find(hash_of(address), [&](const PodEntry& e) { return e.address == address; });
}

const ClientEntry* Snapshot::client_entry_at(const IpAddress& source) const {
  return clients.find(hash_of(source), [&](const ClientEntry& e) { return e.address == source; });
}

const Client* Snapshot::client_at(const IpAddress& source) const {
  if (!by_source_address) return default_client.get();
  const ClientEntry* entry = client_entry_at(source);
  if (entry != nullptr && entry->client) return entry->client.get();
  switch (unknown_clients) {
    case UnknownClient::Public:
      return public_client.get();
    case UnknownClient::Default:
      return default_client.get();
    case UnknownClient::Refuse:
      break;
  }
  return nullptr;
}

}  // namespace meshdns::registry
