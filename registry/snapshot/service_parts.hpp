// SPDX-License-Identifier: Apache-2.0
// One host of one namespace that a client may see in part.
//
// Istio makes one service of each entry, decides for each whether a client sees it, and merges
// those that the client sees.  Nearly all hosts have one entry, or entries that the same clients
// see: their service is merged once, when it is derived.  Only where entries differ in exportTo or
// ports does the record have parts.  The service of a client that sees several parts, but not all,
// is merged when somebody first asks for it, and kept: the number of such sets can grow with the
// number of client namespaces and Sidecars, but few of them are ever asked for.
//
// A Kubernetes Service that differs by cluster has a part for each cluster, beside the one that
// unites all: a client sees exactly one of these.
#pragma once

#include <array>
#include <atomic>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "registry/base/ref.hpp"
#include "registry/snapshot/network_gateways.hpp"
#include "registry/snapshot/symbol.hpp"

namespace meshdns::registry {

class ServiceRecord;

// Immutable but for the merged services that it keeps; any thread.
class ServiceParts final : public RefCounted {
 public:
  // Sources with further exports or ports are left out, the youngest first.
  static constexpr std::size_t kMaxParts = 1024;
  using Set = std::bitset<kMaxParts>;

  // `parts`: a record for each, of a Kubernetes Service first, then by age; none of them has parts.
  // `pod_names`: MeshSettings::endpoint_pod_names.  `gateways`: as for addresses_of().  `clusters`:
  // those of the Kubernetes Services of parts 1, 2, ...; part 0 then unites them all.  REQUIRES: 2
  // to kMaxParts of them.
  ServiceParts(std::vector<Ref<const ServiceRecord>> parts, bool pod_names,
               Ref<const NetworkGateways> gateways, std::vector<SymbolRef> clusters = {});
  ~ServiceParts();

  std::span<const Ref<const ServiceRecord>> all() const { return parts_; }
  // Empty: the Service, if there is one, is the same for all clusters.  A cluster with the empty
  // name is that of the sources without `cluster`.
  std::span<const SymbolRef> clusters() const { return clusters_; }

  // The index of the oldest part that is public, and of the oldest that names `client_ns` in its
  // exportTo; kNone: there is none.  A look at two parts shows what a client may see of all.
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  std::size_t first_public() const { return first_public_; }
  std::size_t first_exported_to(const Symbol* client_ns) const;

  // These find the first part with a port that a client may see without a look at the others: where
  // the ports of listeners matter, it may be any of them.
  static constexpr std::size_t kMany = 4;
  bool are_many() const { return parts_.size() > kMany; }
  const Set& all_public() const { return public_; }
  Set all_exported_to(const Symbol* client_ns) const;
  // Null: none has it.  REQUIRES: many.
  const Set* all_with_port(std::uint16_t port) const;

  // The service of a client that sees these parts; it lives as long as this object.  The first
  // question for a set of several parts takes a lock and allocates.  If the kept services would
  // take many times the memory of the parts, the result is the first part that has an answer.
  // REQUIRES: not empty.
  const ServiceRecord& merged(const Set& visible) const;

  // Returns whether `record` is one of the parts, or was returned by merged().
  bool has(const ServiceRecord& record) const;

 private:
  // A merged service.  Lists of them only grow, so that readers need no lock.
  struct Kept {
    Set visible;
    Ref<const ServiceRecord> record;
    const Kept* next;
  };
  static constexpr std::size_t kLists = 64;

  void find_first_parts();
  void sort_by_port();
  const Kept* find(std::size_t list, const Set& visible) const;
  const ServiceRecord& keep(std::size_t list, const Set& visible) const;
  const ServiceRecord& first_with_answer(const Set& visible) const;

  const std::vector<Ref<const ServiceRecord>> parts_;
  const bool pod_names_;
  const Ref<const NetworkGateways> gateways_;
  const std::vector<SymbolRef> clusters_;
  struct Exported {
    const Symbol* ns;
    std::size_t part;
  };
  std::size_t first_public_ = kNone;
  std::vector<Exported> exported_;  // by ns, then part
  Set public_;
  // For records of many parts only:
  std::vector<std::uint16_t> ports_;  // sorted
  std::vector<Set> with_port_;        // of each of these ports
  mutable std::array<std::atomic<const Kept*>, kLists> lists_{};
  mutable std::mutex mutex_;
  mutable std::size_t room_;  // guarded by mutex_: addresses and endpoints that may still be kept
};

// The service that a client has who sees all of these: the Kubernetes Service, else the union of
// the entries' addresses, else of their endpoints.  Pure.  REQUIRES: as for ServiceParts, but one
// is enough.
Ref<ServiceRecord> merge_services(std::span<const Ref<const ServiceRecord>> parts, bool pod_names,
                                  const NetworkGateways* gateways);

}  // namespace meshdns::registry
