// From the configuration's sources to running ones.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dnsd/config/config.hpp"
#include "dnsd/daemon/registry_feed.hpp"
#include "registry/source/kubernetes/watch_plan.hpp"
#include "registry/source/source.hpp"

struct uv_loop_s;  // NOLINT(readability-identifier-naming): libuv's name

namespace meshdns::dnsd {

// "files:PATH", "name_table:PATH", "kubernetes:CLUSTER": what a source is called in the log, in
// metrics and in the registry.
std::string source_name(const SourceConfig& source);

// What of the sources makes a state of an earlier run theirs.
std::vector<registry::SavedSource> saved_sources(const Config& config);

// What the rest of the configuration asks of a Kubernetes source; nullopt for the others.
std::optional<registry::kubernetes::WatchNeeds> watch_needs(const Config& config,
                                                            const SourceConfig& source);

// Whether all of the cluster is known, so that what its domain does not have is ours to deny.
bool is_authority(const Config& config);

// REQUIRES: `feed` outlives the source, and the loop runs on for it to close.
std::unique_ptr<registry::Source> make_source(uv_loop_s* loop, const Config& config,
                                              const SourceConfig& source, RegistryFeed& feed);

}  // namespace meshdns::dnsd
