// SPDX-License-Identifier: Apache-2.0
// The services of one address.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "registry/base/ref.hpp"
#include "registry/snapshot/service_record.hpp"

namespace meshdns::registry {

// One service that has an address.  The order of the values is the order in which services are
// looked at: the more an address is a service's own, the sooner.  However many objects a tenant
// makes with an address, the names of its owner are found first.
class AddressUse {
 public:
  enum class Kind : std::uint8_t {
    ClusterIp,  // given by the API server
    Service,    // another address of a Service or of its endpoints
    Claim,      // a ServiceEntry's word
  };
  // The namespaces that the objects with the address are exported to.
  enum class Audience : std::uint8_t {
    Everybody,
    Some,  // some namespaces, or all but unknown clients
    Own,   // their own namespace, or none
  };
  AddressUse(Kind kind, Audience audience, const Symbol& ns, std::uint64_t host_hash);
  // The first value that such a use may have, and the one behind the last.
  static AddressUse first_of(Kind kind, Audience audience, std::uint32_t ns_tag);
  static AddressUse behind(Kind kind, Audience audience, std::uint32_t ns_tag);
  static std::uint32_t tag_of(std::string_view ns);

  Kind kind() const { return static_cast<Kind>(bits_ >> kKindShift); }
  Audience audience() const { return static_cast<Audience>(bits_ >> kAudienceShift & 3); }
  // Equal for equal namespaces, and for one in 65,536 pairs of others.
  std::uint32_t ns_tag() const { return (bits_ >> kNamespaceShift) & kNamespaceMask; }
  // The bits of the host's hash that HashTrie reads.
  std::uint64_t host_hash() const;
  bool is_of_host(std::uint64_t hash) const { return host_hash() == (hash & kHashMask); }
  friend auto operator<=>(const AddressUse&, const AddressUse&) = default;

 private:
  static constexpr unsigned kKindShift = 62;
  static constexpr unsigned kAudienceShift = 60;
  static constexpr unsigned kNamespaceShift = 44;
  static constexpr std::uint32_t kNamespaceMask = (1U << 16) - 1;
  static constexpr std::uint64_t kHashMask = 0xfff00000ffffffffULL;

  explicit AddressUse(std::uint64_t bits) : bits_(bits) {}
  std::uint64_t bits_;
};

// The services that have an address, in the order of AddressUse.  Readers check that the host
// still has the service.
class ReverseEntry final : public RefCounted {
 public:
  // REQUIRES: `uses` is sorted.
  static Ref<const ReverseEntry> create(std::uint64_t address_hash,
                                        std::span<const AddressUse> uses);
  static void destroy(const ReverseEntry* entry);

  std::uint64_t address_hash() const { return address_hash_; }
  std::span<const AddressUse> uses() const {
    return {reinterpret_cast<const AddressUse*>(this + 1), count_};
  }
  std::span<const AddressUse> uses(AddressUse::Kind kind) const;
  std::span<const AddressUse> uses(AddressUse::Kind kind, AddressUse::Audience audience) const;
  std::span<const AddressUse> uses(AddressUse::Kind kind, AddressUse::Audience audience,
                                   std::uint32_t ns_tag) const;

 private:
  ReverseEntry(std::uint64_t address_hash, std::size_t count)
      : count_(static_cast<std::uint32_t>(count)), address_hash_(address_hash) {}
  const std::uint32_t count_;
  const std::uint64_t address_hash_;
};

}  // namespace meshdns::registry
