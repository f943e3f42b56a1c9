// SPDX-License-Identifier: Apache-2.0
// The knowledge of a file source about its files, and the round that brings it up to date.  Belongs
// to one thread at a time: the worker's during a round, the control thread's between rounds.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "registry/source/file_source.hpp"
#include "registry/source/source.hpp"
#include "registry/source/tree_walk.hpp"

namespace meshdns::registry {

using Milliseconds = std::chrono::milliseconds;

class FileIndex {
 public:
  struct Request {
    Milliseconds now{0};      // monotonic, from any origin
    bool everything = false;  // whatever stat() says; findings are repeated
    // Files that writers have open.  False: only its name was heard of, which may be a further link
    // to a file that is complete.
    std::map<WatchedName, bool> being_written;
  };
  struct Outcome {
    SourceBatch batch;
    // Watches of the tree as it is now; nullopt when this round did not walk it.
    std::optional<WatchInterests> watches;
    bool watched_wholly = true;
    // Another round is needed after so long, event or not: zero when there is more to read at once.
    std::optional<Milliseconds> again_in;
    SourceStatus status;
  };

  FileIndex(FileSourceOptions options, FileReader reader, int inotify);

  // Says that nobody hears the events of `inotify`, and why; `remedy`: what to do about it.
  // REQUIRES: no round has begun.
  void set_unheard(const std::string& why, const std::string& remedy);

  Outcome look(const Request& request);

 private:
  struct File {
    FileIdentity identity;
    std::optional<std::uint64_t> hash;  // of the content last read; nullopt = to be read again
    bool unverified = false;  // read once only: a write within the clock's tick would look the same
    bool good = false;        // its last state came from a text without errors
    bool broken = false;      // the text on disk is not what is served
    bool has_findings = false;
    bool restored = false;      // known from an earlier run only
    std::size_t resources = 0;  // of the state that is served
    std::optional<Milliseconds> missing_since;
    int unsteady_reads = 0;  // in a row that a writer interfered with
  };
  class Collector;

  void complete(Outcome& outcome);
  void walk(const Request& request, Outcome& outcome);
  void find_missing(const Request& request, Outcome& outcome);
  bool is_hidden(const std::string& path) const;
  Complaint polled_instead(const std::string& why, const std::string& remedy) const;
  void tell_complaints(const Request& request, Outcome& outcome);
  void remove(std::map<std::string, File>::iterator file, Outcome& outcome);

  void read_pending(const Request& request, Outcome& outcome);
  void consider(const FoundFile& found, const Request& request, Outcome& outcome);
  void take_text(const std::string& path, File& file, std::string_view text, Outcome& outcome);
  void remove_renamed(std::uint64_t hash, Outcome& outcome);
  void complain(const std::string& path, std::string message);
  static Finding finding_of(const std::string& path, const Complaint& complaint);
  SourceStatus status() const;
  static void want_again(Outcome& outcome, Milliseconds in);

  const FileSourceOptions options_;
  const FileReader reader_;
  const int inotify_;

  std::map<std::string, File> files_;  // by visible path
  std::map<std::string, Complaint> complaints_;
  std::map<std::string, Complaint> told_complaints_;
  std::vector<FoundFile> pending_;  // found by the last walk and not looked at yet
  std::size_t next_pending_ = 0;
  bool everything_ = false;  // of the walk that pending_ comes from
  std::set<int> watches_;
  bool root_found_ = false;
  FileIdentity root_;
  Milliseconds root_since_ = Milliseconds::min() / 2;  // files were known before it
  bool watched_wholly_ = true;
  std::optional<Complaint> unheard_;
  bool complete_ = false;
  std::uint64_t reads_ = 0;
  std::uint64_t changes_ = 0;
};

}  // namespace meshdns::registry
