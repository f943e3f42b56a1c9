// SPDX-License-Identifier: Apache-2.0
// Finds the slices of headless Services that lack the label of such slices.
//
// The slices of Kubernetes' own controller are watched by the label service.kubernetes.io/headless,
// because a cluster has many more slices of other Services.  The controller sets the label when it
// writes a slice, but it does not write a slice because its Service has become headless.  So this
// class looks for slices by the names of headless Services, in groups: one watch for each group.
//
// The first groups are watched for good.  From the others, a Service leaves kGrace after it has
// become headless, unless it has slices without the label, or none with it.  If there are more such
// Services than the groups hold, those without a find take turns.
//
// A list after a gap does not show that a Service was something else in between, or another one of
// the same name.  So each Service that has left is looked for again every kRecheck, one group at a
// time.  A turn costs a list and a watch of one group: one turn in ten minutes for some 130
// Services, and never more than one in kMinPause.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "registry/model/resources.hpp"
#include "registry/source/scheduler.hpp"

namespace meshdns::registry::kubernetes {

// Services whose slices are watched by their names.
struct SliceGroup {
  std::string ns;                  // empty = of all namespaces
  std::vector<std::string> names;  // sorted, unique
  std::uint64_t revision = 0;      // changes when the group must be listed again
  friend bool operator==(const SliceGroup&, const SliceGroup&) = default;
};

// Control thread.
class SliceSearch {
 public:
  static constexpr std::size_t kMaxGroups = 16;
  static constexpr std::size_t kStandingGroups = 4;
  // Of the names of one group, which stand in the URL: proxies accept 8 KiB.
  static constexpr std::size_t kMaxNamesSize = 4'000;
  // The controller may write slices from its older state of the Service for so long.
  static constexpr Milliseconds kGrace{30'000};
  // Between two looks at a settled Service, for up to kRecheck / kMinPause groups of them.
  static constexpr Milliseconds kRecheck{600'000};
  static constexpr Milliseconds kMinPause{1'000};

  // `namespaces`: as in WatchNeeds.
  explicit SliceSearch(std::vector<std::string> namespaces) : namespaces_(std::move(namespaces)) {}

  // The Service is there or has changed; `key` = hash_of(key_of(service)).  Returns whether
  // regroup() has work.
  bool note_service(std::uint64_t key, const KubeService& service);
  void forget_service(std::uint64_t key) { services_.erase(key); }
  // The end of a list of the Services of `ns` (empty = all): those not in `keys` (sorted) are gone.
  void retain_services(std::string_view ns, const std::vector<std::uint64_t>& keys);

  // Slices with the label, by collection.  `service`: the key of its Service.  They return whether
  // regroup() has work.
  bool note_labelled(const std::string& origin, std::uint64_t slice, std::uint64_t service);
  bool forget_labelled(const std::string& origin, std::uint64_t slice);
  bool retain_labelled(const std::string& origin, const std::vector<std::uint64_t>& slices);

  // A slice of a group's watch.  Returns whether its Service is headless: no other is of use.
  bool note_found(std::size_t group, std::uint64_t slice, std::uint64_t service);
  void forget_found(std::size_t group, std::uint64_t slice);
  // The end of the group's list.
  void retain_found(std::size_t group, const std::vector<std::uint64_t>& slices, Milliseconds now);

  // Lets Services leave and join groups.  Groups without names are not to be watched.
  const std::vector<SliceGroup>& regroup(Milliseconds now);
  // The time when regroup() will have work without news.
  std::optional<Milliseconds> next_change() const;
  // Services that wait for a place in a group.
  std::size_t waiting() const { return waiting_; }

 private:
  struct Searched {
    std::string ns;
    std::string name;
    std::optional<std::size_t> group;
    Milliseconds joined_at{0};
    bool was_checked = false;  // a group held it for long enough
    bool is_recheck = false;   // a list of its group suffices, without kGrace
  };
  using Service = std::pair<const std::uint64_t, Searched>;
  struct Group {
    std::unordered_set<std::uint64_t> members;                // Services
    std::unordered_map<std::uint64_t, std::uint64_t> slices;  // and their Services
    std::unordered_map<std::uint64_t, std::uint32_t> found;   // slices by Service
    std::size_t names_size = 0;
    std::optional<Milliseconds> listed_at;
    bool has_joined = false;  // a member that its watch does not cover yet
  };

  bool is_searched_for(const Service& service) const;
  bool is_checked(const Service& service, Milliseconds now) const;
  bool has_found(const Service& service) const;
  bool forget_labelled_of(std::uint64_t service);
  void release_settled(Group& group, std::size_t index, Milliseconds now);
  void measure(Group& group) const;
  std::vector<Service*> settled();
  Milliseconds pause_between_rechecks(const std::vector<Service*>& settled) const;
  void recheck_settled(Milliseconds now);
  void release_idle(Milliseconds now);
  std::vector<Service*> find_waiting();
  void place_waiting(Milliseconds now);
  bool join(Service& service, Milliseconds now);
  std::optional<std::size_t> place_for(const Searched& service);
  bool has_room(std::size_t group, const Searched& service) const;
  void rebuild(std::size_t group);
  std::string scope_of(const Searched& service) const {
    return namespaces_.empty() ? std::string() : service.ns;
  }

  const std::vector<std::string> namespaces_;
  std::unordered_map<std::uint64_t, Searched> services_;  // the headless ones
  // Slices with the label by collection, and their number by Service.
  std::map<std::string, std::unordered_map<std::uint64_t, std::uint64_t>> labelled_;
  std::unordered_map<std::uint64_t, std::uint32_t> labels_;
  std::vector<Group> groups_;
  std::vector<SliceGroup> plan_;  // one for each of groups_
  std::size_t waiting_ = 0;
  Milliseconds regrouped_at_{0};
  std::optional<Milliseconds> next_recheck_;  // while there are settled Services
};

}  // namespace meshdns::registry::kubernetes
