// SPDX-License-Identifier: Apache-2.0
// A file source of manifests: Istio's and Kubernetes' resources in YAML or JSON.
#include "registry/manifest/manifest.hpp"
#include "registry/source/file_source.hpp"

namespace meshdns::registry {

std::unique_ptr<Source> make_manifest_source(uv_loop_s* loop, FileSourceOptions options,
                                             SourceSink& sink) {
  return std::make_unique<FileSource>(loop, std::move(options), read_manifest, sink);
}

}  // namespace meshdns::registry
