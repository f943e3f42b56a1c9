// SPDX-License-Identifier: Apache-2.0
// From the configuration's sources to running ones.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dnsd/config/config.hpp"
#include "dnsd/mesh/registry_feed.hpp"
#include "registry/source/kubernetes/watch_plan.hpp"
#include "registry/source/server_lookup.hpp"
#include "registry/source/source.hpp"

struct uv_loop_s;  // NOLINT(readability-identifier-naming): libuv's name

namespace meshdns::dnsd {

// The addresses, with a comma between two.
template <typename Addresses>
std::string joined(const Addresses& addresses) {
  std::string text;
  for (const auto& address : addresses) text += (text.empty() ? "" : ",") + address.to_string();
  return text;
}

// "files:PATH", "name_table:PATH", "kubernetes:CLUSTER", "istiod:ADDRESS": what a source is called
// in the log, in metrics and in the registry.
std::string source_name(const SourceConfig& source);

// Returns the fingerprint of each source; a saved state with another fingerprint is not used.
std::vector<registry::SavedSource> saved_sources(const Config& config);

// Returns the resources that the rest of the configuration needs from a Kubernetes source; nullopt
// for other sources.
std::optional<registry::kubernetes::WatchNeeds> watch_needs(const Config& config,
                                                            const SourceConfig& source);

// The node of this daemon, and of the clients whose own is not known; empty: unknown.
std::string own_node(const Config& config);

// Returns whether the sources cover the whole cluster, so that unknown names of its domain are
// NXDOMAIN.
bool is_authority(const Config& config);

// REQUIRES: `feed` and `servers` outlive the source, and the loop runs on for it to close.
std::unique_ptr<registry::Source> make_source(uv_loop_s* loop, const Config& config,
                                              const SourceConfig& source, RegistryFeed& feed,
                                              registry::ServerLookup& servers);

}  // namespace meshdns::dnsd
