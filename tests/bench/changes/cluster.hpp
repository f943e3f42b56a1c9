// SPDX-License-Identifier: Apache-2.0
// A cluster of headless Services with one EndpointSlice each, made up from numbers, and what is
// true of it: which Service an address belongs to, and which change took it away.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace meshdns::bench {

using Clock = std::chrono::steady_clock;

// One address of a Service is replaced by one that never was there before.
struct Change {
  std::uint32_t number = 0;  // from 1
  std::uint32_t service = 0;
  std::uint32_t added = 0;
  Clock::time_point written_at;  // to the watch, or just before
};

// Any thread.  An address is a number; it stands for the IPv4 address so far after 11.0.0.0.
class Cluster {
 public:
  static constexpr std::uint32_t kFirstAddress = 11U << 24;
  static constexpr unsigned kNamespaces = 100;
  static constexpr std::uint32_t kNobody = ~0U;

  Cluster(unsigned services, unsigned endpoints, unsigned max_changes);

  unsigned services() const { return services_; }
  unsigned endpoints() const { return endpoints_; }
  std::uint64_t version() const { return version_; }

  std::string name_of(unsigned service) const;  // "svc-7.ns-7.svc.cluster.local"
  // kNobody: no address of ours.
  std::uint32_t owner_of(std::uint32_t address) const;
  // The change that took the address away; 0: it is there.  REQUIRES: it has an owner.
  std::uint32_t removed_by(std::uint32_t address) const { return removed_by_[address]; }

  // REQUIRES: at most `max_changes` of them, from one thread.
  Change change(unsigned service);

  static std::string namespace_json(unsigned number);
  std::string service_json(unsigned service) const;
  std::string slice_json(unsigned service) const;

 private:
  const unsigned services_;
  const unsigned endpoints_;
  std::atomic<std::uint64_t> version_;
  std::uint32_t changes_ = 0;
  std::uint32_t next_address_;
  std::vector<std::uint32_t> owners_;  // of addresses that came later
  std::unique_ptr<std::atomic<std::uint32_t>[]> removed_by_;
  mutable std::mutex mutex_;            // guards what is below
  std::vector<std::uint32_t> current_;  // each Service's `endpoints_` addresses
  std::vector<std::uint8_t> oldest_;    // which of them goes next
};

}  // namespace meshdns::bench
