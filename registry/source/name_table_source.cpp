// SPDX-License-Identifier: Apache-2.0
// A file source of istiod NameTable dumps: an alternative to manifests, not beside them in a tree.
#include "registry/manifest/name_table.hpp"
#include "registry/source/file_source.hpp"

namespace meshdns::registry {

std::unique_ptr<Source> make_name_table_source(uv_loop_s* loop, FileSourceOptions options,
                                               SourceSink& sink) {
  options.endings = {".json"};
  return std::make_unique<FileSource>(loop, std::move(options), read_name_table, sink);
}

}  // namespace meshdns::registry
