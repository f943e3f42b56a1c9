// SPDX-License-Identifier: Apache-2.0
// Between the sources, the resolver engine and the registry: what sources deliver becomes a
// transaction, what the registry then needs resolved becomes the engine's work, and what is wrong
// becomes a line of the log.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "dnsd/config/config.hpp"
#include "dnsd/log/log.hpp"
#include "registry/registry.hpp"
#include "registry/snapshot/snapshot_file.hpp"
#include "registry/source/source.hpp"
#include "resolver/names/name_resolver.hpp"

namespace meshdns::dnsd {

struct FeedCounters {
  std::uint64_t commits = 0;
  std::uint64_t changed_resources = 0;
  std::uint64_t changed_hosts = 0;
  std::uint64_t errors = 0;  // findings, since the start
  std::uint64_t warnings = 0;
};

// Control thread.
class RegistryFeed final : public registry::SourceSink, public resolver::ResolverListener {
 public:
  // REQUIRES: both outlive the feed.
  RegistryFeed(registry::Registry& registry, Log& log);

  // Names go to `resolver` from now on.
  void set_resolver(resolver::NameResolver* resolver);
  // The sources there are from now on: what others delivered is taken out of the registry.
  void set_sources(std::set<std::string> sources);
  // Takes up what an earlier run knew.  It is served until its sources say otherwise, origin by
  // origin; what a source has not mentioned by the time that it is complete goes then. REQUIRES: no
  // source has delivered yet.
  void restore(registry::SavedSnapshot&& saved);
  // The origins of `source` that only an earlier run knew of so far.
  std::set<std::string> restored_origins(const std::string& source) const;
  // The origins of `source` whose objects the registry has.
  std::set<std::string> origins_of(const std::string& source) const;
  // Returns the resources of the registry by source, for a later run to restore.
  registry::SavedSources saved_sources(std::vector<registry::SavedSource> sources);
  // Handles a commit that no source caused, for example after a change of settings.
  void follow(const registry::Changes& changes);

  void apply(registry::SourceBatch&& batch) override;
  void on_resolved(std::string_view ns, std::vector<registry::ResolvedName>&& names) override;

  bool is_complete(const std::string& source) const { return complete_.contains(source); }
  // Returns whether all of the source is known: it is complete, or was in an earlier run.
  bool is_known(const std::string& source) const;
  // Returns whether anything that an earlier run knew still waits to be confirmed.
  bool is_restored() const { return !restored_.empty(); }
  // Returns whether a source may not read the endpoints of headless Services.
  bool lacks_endpoints() const { return !without_endpoints_.empty(); }
  // Returns whether a source may not read Sidecars or MeshConfig.
  bool lacks_policies() const { return !without_policies_.empty(); }
  std::size_t complete_sources() const { return complete_.size(); }
  // Returns whether a commit was given up, because the process is to end.
  bool is_interrupted() const { return interrupted_; }
  // Called after each batch.
  void set_listener(std::function<void()> listener) { listener_ = std::move(listener); }
  // Called with the namespace and the name of each result of a lookup, before it is in the
  // registry.
  void set_result_listener(std::function<void(std::string_view, const std::string&)> listener) {
    result_listener_ = std::move(listener);
  }

  // Findings that stand now, by origin.
  const std::map<std::string, std::vector<registry::Finding>>& findings() const {
    return findings_;
  }
  // The error for which an object ("ServiceEntry shop/api") of the origin is not what its source
  // has now; empty: it is.  Any thread.
  std::string error_of(const std::string& object, const std::string& origin) const;
  const FeedCounters& counters() const { return counters_; }

 private:
  // The saved state of a source that has not been read completely yet.
  struct Restored {
    bool complete = false;
    std::set<std::string> origins;  // that the source has not mentioned
  };

  void forget_others(std::set<std::string>& origins, const std::vector<std::string>& held,
                     registry::Transaction& transaction);
  void report(const registry::OriginChange& change);
  void note_held(const registry::OriginChange& change);
  void forget_findings(const std::string& origin);
  void tell_of_mesh_config();
  void confirm(const registry::SourceBatch& batch, registry::Transaction& transaction);

  registry::Registry& registry_;
  Log& log_;
  resolver::NameResolver* resolver_ = nullptr;
  std::map<std::string, std::set<std::string>> origins_by_source_;
  std::set<std::string> complete_;
  std::set<std::string> without_endpoints_;
  std::set<std::string> without_policies_;
  std::size_t unreturned_ = 0;  // resources parsed since memory was last given back
  bool interrupted_ = false;
  std::map<std::string, Restored> restored_;  // by source
  mutable std::mutex findings_mutex_;
  // Guarded by findings_mutex_, but for reading on the control thread.
  std::map<std::string, std::vector<registry::Finding>> findings_;
  // Origins that could not be read the last time: their earlier objects stay.
  std::set<std::string> held_origins_;

  std::function<void()> listener_;
  std::function<void(std::string_view, const std::string&)> result_listener_;
  FeedCounters counters_;
};

}  // namespace meshdns::dnsd
