// SPDX-License-Identifier: Apache-2.0
// Resources from a file or a directory tree, followed as it changes.
//
// inotify tells that something happened, never what: each wake-up compares the whole tree with what
// was seen before (stat identity, then content), so that lost, merged or reordered events cost
// nothing but time, and a poll is a net below them.  Watched are the directories of the tree, every
// directory on the way to them and to what symbolic links lead to, and files outside of the tree's
// directories; that makes editors' renames, recreated directories and the `..data` swap of a
// mounted ConfigMap the same ordinary case.  Directories outside of the tree report names only:
// others may write files there all the time.
//
// Walking, reading and parsing happen on libuv's worker threads, one round at a time; a change that
// comes during a round starts exactly one more.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "registry/base/result.hpp"
#include "registry/manifest/manifest.hpp"
#include "registry/source/source.hpp"

struct uv_loop_s;  // NOLINT(readability-identifier-naming): libuv's name

namespace meshdns::registry {

struct FileSourceOptions {
  std::string name;          // for SourceBatch::source and its status
  std::string path;          // a file (of any name) or a directory
  ManifestOptions manifest;  // `path` in it is overwritten with each file's own

  // In a directory: names with one of these endings that do not begin with a dot.
  std::vector<std::string> endings = {".yaml", ".yml", ".json"};

  // Files whose state is in the registry already, from an earlier run: what breaks them leaves it
  // there.
  std::set<std::string> restored;

  // A file that was replaced, or closed by its writer, is looked at when no event has followed for
  // `settle`; during a burst, and for names whose file may not be complete, after `debounce`. Looks
  // begin at least `debounce` apart.
  std::chrono::milliseconds settle{2};
  std::chrono::milliseconds debounce{50};
  std::chrono::milliseconds poll{10'000};  // the net below inotify
  std::chrono::milliseconds poll_without_inotify{700};
  // A file that is gone must still be gone after this time: an editor that deletes and writes anew
  // takes nothing away in between.
  std::chrono::milliseconds removal_grace{250};
  // A file that a writer holds open is left alone until it is closed or was quiet for this long.
  std::chrono::milliseconds writer_quiet{3'000};
  // A new name of which no write was heard: its writer has not begun, or it is a link to a file
  // that is complete.
  std::chrono::milliseconds new_name_quiet{250};

  std::size_t max_file_bytes = std::size_t{64} << 20;
  std::size_t max_files = 100'000;
  std::size_t max_directories = 8'192;
  std::size_t max_depth = 32;
};

// Reads one file's text: read_manifest, or one of its shape.  Called on worker threads, one call at
// a time per source.
using FileReader = std::function<Result<void>(std::string_view text, const ManifestOptions& options,
                                              ManifestSink& sink)>;

// Rules, each of them a test:
//  - A text that the reader fails on, and a file that became empty, leave the file's whole earlier
//    state in place (Effect::Keep with the finding).  Where there is no earlier state, what was
//    read before the error is served.
//  - An object that the reader refuses keeps its last good version (OriginChange::kept).
//  - A file or directory that cannot be read, and a link that leads nowhere, keep their last state.
//  - A path that disappears as a whole keeps its last state until it is back; a path that was never
//    there leaves the source incomplete.
//  - One file under two names (links) is read once, under the first name in order.
//
// Control thread.  `loop` must run on for the handles to close after destruction.
class FileSource final : public Source {
 public:
  // REQUIRES: `sink` outlives the source.
  FileSource(uv_loop_s* loop, FileSourceOptions options, FileReader reader, SourceSink& sink);
  ~FileSource() override;

  void start() override;
  void rescan() override;
  SourceStatus status() const override;

 private:
  class Engine;
  std::shared_ptr<Engine> engine_;
};

// A file source of manifests.
std::unique_ptr<Source> make_manifest_source(uv_loop_s* loop, FileSourceOptions options,
                                             SourceSink& sink);
// A file source of istiod NameTable dumps in JSON (registry/manifest/name_table.hpp).
std::unique_ptr<Source> make_name_table_source(uv_loop_s* loop, FileSourceOptions options,
                                               SourceSink& sink);

}  // namespace meshdns::registry
