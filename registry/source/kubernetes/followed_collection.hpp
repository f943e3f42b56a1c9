// SPDX-License-Identifier: Apache-2.0
// One collection on its way into the registry: its objects, as the reflector hands them over, are
// read, counted and put into the batch.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "registry/base/finding.hpp"
#include "registry/manifest/decode.hpp"
#include "registry/source/kubernetes/reflector.hpp"
#include "registry/source/kubernetes/watch_plan.hpp"
#include "registry/source/source.hpp"

namespace meshdns::registry::kubernetes {

// A server that starts refuses what it will allow a moment later.
inline constexpr Milliseconds kRefusalGrace{5'000};

class FollowedCollection;

// Receives the changes of all collections of a cluster.
class CollectionListener {
 public:
  virtual ~CollectionListener() = default;
  virtual void on_upsert(FollowedCollection& from, Resource&& resource, bool is_initial) = 0;
  virtual void on_remove(FollowedCollection& from, ResourceKey&& key) = 0;
  virtual void on_retain(FollowedCollection& from, std::vector<std::uint64_t>&& retained) = 0;
  virtual void on_findings(FollowedCollection& from) = 0;
  virtual void on_state(FollowedCollection& from) = 0;
  virtual bool may_retry(FollowedCollection& from) = 0;
};

class FollowedCollection final : private ReflectorListener {
 public:
  struct Naming {
    std::string source;
    std::string cluster;
    std::string network;
    std::vector<Kind> gateway_kinds = {};  // ManifestOptions::gateway_kinds
  };
  // REQUIRES: the listener, and what the environment refers to, outlive it.
  FollowedCollection(PlannedCollection plan, const Naming& naming, const ReflectorOptions& options,
                     Reflector::Environment environment, CollectionListener& listener);

  void start() { reflector_.start(); }
  void retry_now() { reflector_.retry_now(); }
  void leave_path_silent_since(Milliseconds when, std::optional<std::uint64_t> working) {
    reflector_.leave_path_silent_since(when, working);
  }

  // Whether the server lists the kind no more, and may do so again.
  void set_unconfirmed(bool is_unconfirmed);

  const PlannedCollection& plan() const { return plan_; }
  const std::string& origin() const { return origin_; }
  const ReflectorStatus& reflector() const { return reflector_.status(); }
  CollectionStatus status(Milliseconds now) const;
  // The reason why is_troubled(), in words.
  std::string trouble() const;
  // The findings about the collection itself, then about its objects.
  std::vector<Finding> findings() const;
  // It has a fault that matters to the source as a whole.
  bool is_troubled() const {
    using Trouble = ReflectorStatus::Trouble;
    const Trouble trouble = reflector_.status().trouble;
    if (is_unconfirmed_) return true;
    return trouble != Trouble::None && !(plan_.is_optional && trouble == Trouble::Forbidden);
  }
  // Nothing more is to be waited for: it is synced, or has been refused for a while.
  bool is_settled(Milliseconds now) const;

 private:
  std::optional<std::uint64_t> on_object(const Node& object,
                                         std::span<const DocumentProblem> problems,
                                         bool is_initial) override;
  std::optional<std::uint64_t> on_unreadable(const ObjectRef& object,
                                             std::string_view why) override;
  std::optional<std::uint64_t> on_deleted(const ObjectRef& object) override;
  void on_listed(std::vector<std::uint64_t> seen) override;
  void on_state() override;
  bool may_retry() override { return listener_.may_retry(*this); }

  ResourceKey key_of(const ObjectRef& object) const;
  void replace_findings(std::uint64_t object, std::vector<Finding>&& findings);
  bool is_refused_for_good(Milliseconds now) const;
  std::string refusal() const;
  // Returns a finding with the number of objects whose findings are not kept.
  Finding untold() const;

  const PlannedCollection plan_;
  const std::string source_;
  const std::string origin_;
  ManifestOptions decode_;
  Scheduler& scheduler_;
  CollectionListener& listener_;
  std::map<std::uint64_t, std::vector<Finding>> findings_;  // by hash_of(key); bounded
  std::set<std::uint64_t> refused_;                         // objects that are not taken
  std::optional<Milliseconds> refused_since_;
  std::unique_ptr<Timer> refusal_timer_;
  bool is_unconfirmed_ = false;
  Reflector reflector_;
};

}  // namespace meshdns::registry::kubernetes
