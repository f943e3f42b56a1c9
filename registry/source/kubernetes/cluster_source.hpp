// SPDX-License-Identifier: Apache-2.0
// A cluster as a source: discovery decides what is followed, each collection follows itself, and
// what they bring is handed over in batches.  Knows no sockets: the transport is given to it.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "registry/source/kubernetes/api_client.hpp"
#include "registry/source/kubernetes/change_batch.hpp"
#include "registry/source/kubernetes/followed_collection.hpp"
#include "registry/source/kubernetes/kind_discovery.hpp"
#include "registry/source/kubernetes/slice_search.hpp"
#include "registry/source/kubernetes/watch_plan.hpp"
#include "registry/source/source.hpp"

namespace meshdns::registry::kubernetes {

struct ClusterSourceOptions {
  FollowedCollection::Naming naming;
  WatchNeeds needs;
  ReflectorOptions reflector;
  PathProbe::Limits path;
  SliceSearch::Limits slices;
  // Changes within this time are applied together.
  Milliseconds batch_delay{2};
  std::size_t batch_objects = 500;
  // The interval of discovery where CRDs may not be watched.
  Milliseconds discovery_poll{60'000};
  // The names of the collections whose objects are there already, by an earlier run or an earlier
  // configuration.
  std::set<std::string> known;
};

class ClusterSource final : private CollectionListener {
 public:
  // REQUIRES: transport, scheduler and sink outlive the source.
  ClusterSource(ClusterSourceOptions options, Transport& transport, Scheduler& scheduler,
                Backoff::Random random, SourceSink& sink);
  ~ClusterSource() override;

  void start();
  void rescan();
  SourceStatus status() const;

 private:
  using Trouble = ReflectorStatus::Trouble;

  // Called by the collections.
  void on_upsert(FollowedCollection& from, Resource&& resource, bool is_initial) override;
  void on_remove(FollowedCollection& from, ResourceKey&& key) override;
  void on_retain(FollowedCollection& from, std::vector<std::uint64_t>&& retained) override;
  void on_findings(FollowedCollection& from) override;
  void on_state(FollowedCollection& from) override;
  bool may_retry(FollowedCollection& from) override {
    return from.plan().slices == SliceChoice::Named ? reach_.is_reached() : reach_.may_ask(&from);
  }

  void replan();
  void follow(PlannedCollection&& planned);
  bool is_needed_for_now(const FollowedCollection& followed, const std::set<Kind>& unlisted) const;
  std::set<std::string> selected_pods();
  bool are_listed(Kind kind, SliceChoice slices = SliceChoice::Any) const;
  void on_served();
  void on_synced(const FollowedCollection& from);
  void note_selector(const Resource& resource, std::uint64_t object);
  void note_root_namespace(const std::optional<std::string>& of_mesh_config);
  void want_replan();

  // Slices of headless Services without the label (slice_search.hpp).
  bool searches_slices() const;
  void note_service(const Resource& resource, std::uint64_t object);
  bool is_wanted_slice(const FollowedCollection& from, Resource& resource, std::uint64_t object);
  void note_removal(const FollowedCollection& from, const ResourceKey& key);
  void note_retained(const FollowedCollection& from, const std::vector<std::uint64_t>& retained);
  void want_search(Milliseconds delay);
  void search();
  void leave_found_before();
  Reflector::Environment environment();
  KindDiscovery::Hooks kind_hooks();

  void note_failure(FollowedCollection& from);
  std::optional<Milliseconds> last_heard();
  void leave_dead_paths(Milliseconds silent_since);
  void leave_paths_silent_since(Milliseconds when, std::optional<std::uint64_t> working);
  void leave_other_paths(const PathProbe::Answer& answer);
  void note_reachability(const void* who, Trouble trouble, const std::string& error);

  void want_flush();
  void flush();
  void check_complete();
  bool lacks_endpoints() const;
  const FollowedCollection* followed_namespace(const std::string& ns) const;
  std::vector<std::string> missing_namespaces() const;
  bool awaits_namespace() const;
  void note_missing_namespaces();
  bool has_seen(const std::string& ns) const { return seen_namespaces_.contains(ns); }
  bool lacks_policies() const;
  std::string last_error() const;

  const ClusterSourceOptions options_;
  WatchNeeds needs_;
  Transport& transport_;
  Scheduler& scheduler_;
  SourceSink& sink_;
  Backoff::Random random_;
  JsonParser parser_;
  ServerAbilities server_;

  KindDiscovery kinds_;
  std::map<std::string, std::unique_ptr<FollowedCollection>> followed_;  // by label
  std::set<std::string> failing_;                   // labels of those that fail, and said so
  std::map<std::uint64_t, std::string> selectors_;  // ServiceEntries with a workloadSelector: ns
  std::unique_ptr<Timer> replan_timer_;
  const std::string found_origin_;  // of the slices that slice_search_ has found
  bool has_found_before_ = false;   // an earlier run has found some, which stay for now
  SliceSearch slice_search_;
  std::unique_ptr<Timer> search_timer_;
  Milliseconds search_at_{0};

  ChangeBatch batch_;
  std::vector<SourceNotice> notices_;
  std::unique_ptr<Timer> flush_timer_;
  Milliseconds flushed_at_{0};

  bool complete_ = false;
  bool origins_changed_ = false;
  std::set<std::string> seen_namespaces_;   // of those that are chosen
  std::string missing_;                     // those of them that are not there, as the log has them
  bool waits_for_lists_ = false;            // to stop following what they replace
  std::set<std::string> known_selections_;  // namespaces whose Pods were selected
  std::unique_ptr<Timer> complete_timer_;
  ServerReach reach_;
  PathProbe probe_;

  std::uint64_t changes_ = 0;
  ChangeDelays delays_;
};

}  // namespace meshdns::registry::kubernetes
