// SPDX-License-Identifier: Apache-2.0
// The folder of the pinned maps (dnsd/kernel/program/answer_maps.h).
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "dnsd/kernel/program/answer_maps.h"
#include "registry/base/file_descriptor.hpp"
#include "registry/base/result.hpp"

struct bpf_object;

namespace meshdns::kernel {

// All maps that are shared with the daemon.
inline constexpr std::array kSharedMaps = {
    MESHDNS_MAP_CONTROL, MESHDNS_MAP_GENERATIONS, MESHDNS_MAP_SERVED,   MESHDNS_MAP_CLIENTS,
    MESHDNS_MAP_ANSWERS, MESHDNS_MAP_ACCOUNTS,    MESHDNS_MAP_COUNTERS, MESHDNS_MAP_SAMPLES};

class PinFolder {
 public:
  // Makes the folder if it is missing.  Fails if it is in no BPF file system.
  static Result<PinFolder> open(const std::string& path);

  // One loader at a time changes maps and filters.  False: another one has the folder.
  bool try_lock() const;

  std::string path_of(const char* map) const { return path_ + '/' + map; }

  // Removes the pinned maps, unless they are all there and are those of `program`, an object that
  // is open and not loaded, and of our version.  Returns whether they stay.  The maps are taken
  // over together or not at all: the daemon notices the change at any one of them.
  Result<bool> prepare_for(bpf_object& program) const;

  // Lets a group use the maps: it may enter the folder, but not add or remove maps.  Without a
  // group only the owner may use them.
  Result<void> give_to(std::optional<unsigned> group) const;

  Result<void> remove_maps() const;
  // Also removes the folder.  Does nothing without one; fails while a loader runs.
  static Result<void> remove_all(const std::string& path);

 private:
  PinFolder(std::string path, FileDescriptor fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  std::string path_;
  FileDescriptor fd_;  // holds the lock
};

// A pinned map, open.  The message of the error has the path.
Result<FileDescriptor> open_pinned(const std::string& path);

// The group of `user`: a user's name, or UID:GID.
Result<unsigned> group_of(const std::string& user);

}  // namespace meshdns::kernel
