// SPDX-License-Identifier: Apache-2.0
// One look at a file or a directory tree: which files are there, by which names, and which
// directories and files must be watched to hear of a change.  Reads no file.  Any thread; no state
// of its own.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "registry/base/hash.hpp"
#include "registry/source/file_source.hpp"

namespace meshdns::registry {

// The fields of stat() that differ when the content of a file does.
struct FileIdentity {
  dev_t device = 0;
  ino_t inode = 0;
  off_t size = -1;
  std::int64_t modified_ns = 0;
  std::int64_t changed_ns = 0;

  static FileIdentity of(const struct stat& status);
  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

// A name in a watched directory: that of a file, or of a step on the way to one.
struct WatchedName {
  int watch = -1;  // inotify's descriptor of the directory; -1 = it cannot be watched
  std::string name;
  friend auto operator<=>(const WatchedName&, const WatchedName&) = default;
};

// The events of one watched directory or file that matter.
struct WatchInterest {
  bool whole = false;               // a directory of the tree: every visible name
  TextSet names;                    // these in any case, hidden or not
  std::optional<WatchedName> file;  // of a watched file: its name in its directory
};
using WatchInterests = std::unordered_map<int, WatchInterest>;

struct FoundFile {
  std::string path;  // below the source's path, as a person would write it
  FileIdentity identity;
  WatchedName place;  // its name in its directory, links followed
  nlink_t links = 1;  // hard links, this name included
};

// Something that cannot be looked at.
struct Complaint {
  std::string reason;
  std::string outcome = {};  // what a source does about it; may be empty
  bool hides_files = true;   // what was known at or below its path may still be there

  std::string message() const { return outcome.empty() ? reason : reason + "; " + outcome; }
  friend bool operator==(const Complaint&, const Complaint&) = default;
};

struct TreeWalk {
  bool root_found = false;
  FileIdentity root;
  std::vector<FoundFile> files;                 // every file once, in the order of names
  std::size_t directories = 0;                  // those beyond max_directories are counted, too
  std::map<std::string, Complaint> complaints;  // by path
  WatchInterests watches;
  bool watched_wholly = true;  // false: inotify has no room; only polling sees everything
};

// `inotify` is inotify_init1's descriptor, to which the watches are added before the directory they
// belong to is read, so that no change falls between; -1 = none.
// Every directory is entered once, by whatever links it can be reached, and one that holds the tree
// itself not at all: links in a circle end, and so does a link to the parent.
TreeWalk walk_tree(const FileSourceOptions& options, int inotify);

bool has_ending(std::string_view name, const std::vector<std::string>& endings);

}  // namespace meshdns::registry
