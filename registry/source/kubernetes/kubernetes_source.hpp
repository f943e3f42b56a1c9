// SPDX-License-Identifier: Apache-2.0
// The Kubernetes API as a source of resources.
#pragma once

#include <chrono>
#include <memory>
#include <set>
#include <string>

#include "registry/source/kubernetes/watch_plan.hpp"
#include "registry/source/server_lookup.hpp"
#include "registry/source/source.hpp"

struct uv_loop_s;  // NOLINT(readability-identifier-naming): libuv's name

namespace meshdns::registry {

struct KubernetesSourceOptions {
  std::string name;        // for SourceBatch::source, and the beginning of its origins' names
  std::string kubeconfig;  // empty: the Pod's own service account
  std::string cluster;     // stamped on every object
  std::string network;
  kubernetes::WatchNeeds needs;
  std::set<std::string> known_origins = {};  // whose objects the sink has already
  // A connection that brings nothing any more is left within this time.
  std::chrono::milliseconds path_timeout{45'000};
};

// Control thread.  REQUIRES: `servers` and `sink` outlive the source; the loop runs on for the
// handles to close after destruction.
std::unique_ptr<Source> make_kubernetes_source(uv_loop_s* loop, KubernetesSourceOptions options,
                                               ServerLookup& servers, SourceSink& sink);

}  // namespace meshdns::registry
