// SPDX-License-Identifier: Apache-2.0
#include "registry/snapshot/snapshot.hpp"

namespace meshdns::registry {

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
