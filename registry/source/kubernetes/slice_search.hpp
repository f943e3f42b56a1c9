// SPDX-License-Identifier: Apache-2.0
// Selects headless Services whose slices are listed by name, because they have none with the label.
//
// Slices are watched by the label service.kubernetes.io/headless.  The controller of Kubernetes
// sets it when it writes a slice, but it does not write a slice because its Service has become
// headless.
//
// The lists are bounded whatever the number of Services: one at a time, and one in limits.pause.
// Namespaces take turns.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "registry/model/resources.hpp"
#include "registry/source/scheduler.hpp"

namespace meshdns::registry::kubernetes {

// Control thread.
class SliceSearch {
 public:
  struct Limits {
    Milliseconds grace{30'000};     // for a slice to get the label
    Milliseconds repeat{600'000};   // between two lists of one Service
    Milliseconds pause{1'000};      // between the starts of two lists
    Milliseconds patience{60'000};  // of a list that does not end, if other Services wait
  };
  // The Service to list.
  struct Target {
    std::string ns;
    std::string name;
    std::uint64_t turn = 0;  // differs between any two lists
    friend bool operator==(const Target&, const Target&) = default;
  };

  // `lose` is called with each slice that a list has found and that is no longer taken from there.
  SliceSearch(const Limits& limits, std::function<void(ResourceKey&&)> lose)
      : limits_(limits), lose_(std::move(lose)) {}

  // The Service is there or has changed; `key` = hash_of(key_of(service)).  A new headless one is
  // listed at `due` at the earliest.  Returns whether it is such a one.
  bool note_service(std::uint64_t key, const KubeService& service, Milliseconds due);
  void forget_service(std::uint64_t key);
  // The end of a list of the Services of `ns` (empty = all): those not in `keys` (sorted) are gone.
  void retain_services(std::string_view ns, const std::vector<std::uint64_t>& keys);

  // Slices with the label, by collection.  `service`: the key of its Service.  They return whether
  // a headless Service has lost its last one.
  bool note_labelled(const std::string& origin, std::uint64_t slice, std::uint64_t service,
                     Milliseconds now);
  bool forget_labelled(const std::string& origin, std::uint64_t slice, Milliseconds now);
  bool retain_labelled(const std::string& origin, const std::vector<std::uint64_t>& slices,
                       Milliseconds now);

  // A slice of the list under way.  Returns whether it is one of the target, without the label.
  bool note_found(std::uint64_t slice, std::uint64_t service, const ResourceKey& key);
  // The list under way is complete: it has `slices` (sorted).
  void retain_found(const std::vector<std::uint64_t>& slices);
  void finish(Milliseconds now);
  // All slices that lists have found, sorted.
  std::vector<std::uint64_t> found() const;

  // Begins the next list; nullopt: none is due, or another one is under way.
  std::optional<Target> next(Milliseconds now);
  // When next() may have a list without news.
  std::optional<Milliseconds> next_due() const;
  // Returns whether all Services that were due have been listed.
  bool is_done(Milliseconds now) const;

 private:
  struct Searched {
    std::string ns;
    std::string name;
    Milliseconds due{0};
    Milliseconds tried_at{0};
    std::map<std::uint64_t, ResourceKey> found = {};  // slices
  };
  using Service = std::pair<const std::uint64_t, Searched>;

  bool is_searched_for(const Service& service) const;
  bool unlabel(std::uint64_t service, Milliseconds now);
  void lose(std::uint64_t slice);
  std::optional<Milliseconds> first_due() const;
  Milliseconds not_before() const {
    return begun_at_ + (listing_ ? limits_.patience : limits_.pause);
  }

  const Limits limits_;
  const std::function<void(ResourceKey&&)> lose_;
  std::unordered_map<std::uint64_t, Searched> services_;  // the headless ones
  // Slices with the label by collection, and their number by Service.
  std::map<std::string, std::unordered_map<std::uint64_t, std::uint64_t>> labelled_;
  std::unordered_map<std::uint64_t, std::uint32_t> labels_;
  std::unordered_map<std::uint64_t, std::uint64_t> found_;  // the Services of found slices
  std::map<std::string, Milliseconds, std::less<>> turns_;  // of namespaces
  std::optional<std::uint64_t> listing_;                    // the Service of the list under way
  Milliseconds begun_at_{0};
  std::uint64_t turn_ = 0;
};

}  // namespace meshdns::registry::kubernetes
