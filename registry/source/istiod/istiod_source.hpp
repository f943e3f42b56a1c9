// SPDX-License-Identifier: Apache-2.0
// istiod as a source of resources: the name table (NDS) that it pushes to the proxy of a workload,
// or the services and workloads that it pushes to ztunnel.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "registry/base/result.hpp"
#include "registry/source/istiod/ads.hpp"
#include "registry/source/server_lookup.hpp"
#include "registry/source/source.hpp"

struct uv_loop_s;  // NOLINT(readability-identifier-naming): libuv's name

namespace meshdns::registry {

struct IstiodSourceOptions {
  std::string name;                    // for SourceBatch::source, and of its one origin
  std::vector<std::string> addresses;  // "HOST:PORT"; after an error, the next one is tried
  std::string server_name;             // empty: the host of the address
  // Files in PEM, and a token.  They are read again for every stream.
  std::string ca_file;
  std::string token_file;
  std::string cert_file;
  std::string key_file;
  istiod::AdsApi api = istiod::AdsApi::Names;
  std::string cluster_domain;  // of AdsApi::Workloads: that of Kubernetes Services
  istiod::AdsTransport transport = istiod::AdsTransport::Delta;
  istiod::AdsNode node;
};

// Reads the files that `options` names, as each stream does.  An Error names the file.
Result<void> check_access_files(const IstiodSourceOptions& options);

// Control thread.  Nothing is taken away while istiod is away, and a push that is refused leaves
// the last good table or resource.  REQUIRES: `servers` and `sink` outlive the source; the loop
// runs on for the handles to close after destruction, which ends the stream and waits for its
// thread.
std::unique_ptr<Source> make_istiod_source(uv_loop_s* loop, IstiodSourceOptions options,
                                           ServerLookup& servers, SourceSink& sink);

}  // namespace meshdns::registry
