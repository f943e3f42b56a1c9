#include "registry/snapshot/snapshot.hpp"

#include <algorithm>
#include <cstdlib>
#include <new>

namespace meshdns::registry {

Ref<const ReverseEntry> ReverseEntry::create(std::uint64_t address_hash,
                                             std::span<const std::uint64_t> host_hashes) {
  void* memory = std::malloc(sizeof(ReverseEntry) + host_hashes.size_bytes());
  if (memory == nullptr) throw std::bad_alloc();
  auto* entry = new (memory) ReverseEntry(address_hash, host_hashes.size());
  std::ranges::copy(host_hashes, reinterpret_cast<std::uint64_t*>(entry + 1));
  return Ref<const ReverseEntry>(entry);
}

void ReverseEntry::destroy(const ReverseEntry* entry) {
  entry->~ReverseEntry();
  std::free(const_cast<ReverseEntry*>(entry));  // NOLINT(cppcoreguidelines-pro-type-const-cast)
}

std::uint64_t hash_of(const IpAddress& address) {
  const auto& octets = address.octets();
  return hash_bytes({reinterpret_cast<const char*>(octets.data()), octets.size()});
}

const PodEntry* Snapshot::find_pod(const IpAddress& address) const {
  return pods.find(hash_of(address), [&](const PodEntry& e) { return e.address == address; });
}

const Client* Snapshot::client_at(const IpAddress& source) const {
  if (!by_source_address) return default_client.get();
  const ClientEntry* entry =
      clients.find(hash_of(source), [&](const ClientEntry& e) { return e.address == source; });
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
