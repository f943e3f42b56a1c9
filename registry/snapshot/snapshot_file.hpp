// SPDX-License-Identifier: Apache-2.0
// The registry's resources as a file: what a restart answers from until the sources have been read.
//
// Octets go out and come in as a stream, so that neither side ever holds the file.  A line with the
// format's version is followed by blocks; the first names the sources and their origins, the others
// hold StoredResource::encoded() one after the other, and an empty one is the end.  Each block's
// checksum continues the one before: what is cut, changed, repeated or reordered anywhere is
// noticed before it is looked into.
//
// Nothing but the program that wrote a file needs to read it: another format, or another layout of
// the resources, is Foreign and not an error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "registry/base/result.hpp"
#include "registry/snapshot/snapshot.hpp"
#include "registry/snapshot/stored_resource.hpp"

namespace meshdns::registry {

// A source as the configuration describes it.  Another cluster or network is another source: its
// objects have other keys and other addresses.
struct SavedSource {
  std::string name;
  std::string cluster;
  std::string network;
  // It had been read as a whole, so that what is missing was missing in it.
  bool complete = false;
  friend bool operator==(const SavedSource&, const SavedSource&) = default;
};

// The sources, and the origins that each of them delivered.
struct SavedSources {
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
  std::vector<SavedSource> sources;
  // By OriginId: the index of the origin's source; kNone, or beyond the end: its resources are not
  // written.
  std::vector<std::uint32_t> source_of;
};

// Takes the octets of the file.  An Error ends the writing.
using OctetSink = std::function<Result<void>(std::span<const std::uint8_t> octets)>;
// Fills the span, or as much of it as there is: less only at the end.
using OctetReader = std::function<Result<std::size_t>(std::span<std::uint8_t> octets)>;

// Any thread.  `now`: Unix seconds.  The Error is the sink's.
Result<void> write_snapshot_file(const Snapshot& snapshot, const SavedSources& sources,
                                 std::int64_t now, const OctetSink& sink);

struct SnapshotFileError {
  enum class Kind : std::uint8_t {
    Corrupt,     // cut or damaged
    Foreign,     // no file of ours, or of another version
    Unreadable,  // the reader failed
  };
  Kind kind;
  std::string message;
};

struct SavedOrigin {
  std::string name;
  std::uint32_t source = 0;  // index in `sources`
};

struct SavedSnapshot {
  std::int64_t written_at = 0;  // Unix seconds by the clock of then
  std::vector<SavedSource> sources;
  std::vector<bool> wanted;          // which of them were
  std::vector<SavedOrigin> origins;  // of the sources that were wanted
  std::vector<StoredRef> resources;  // theirs
};

// Callbacks of a reader: `wants` selects the sources whose resources are wanted, `origin` gives an
// id to each of their origins.  Called only with complete entries of this version.
struct SnapshotFileWishes {
  std::function<bool(const SavedSource& source)> wants;
  std::function<OriginId(std::string_view name)> origin;
};

// Any octets are safe; memory is bounded by the octets read.
std::expected<SavedSnapshot, SnapshotFileError> read_snapshot_file(
    const OctetReader& reader, const SnapshotFileWishes& wishes);

}  // namespace meshdns::registry
