// SPDX-License-Identifier: Apache-2.0
// The kernel program, loaded, and the folder of the BPF file system with the maps that the daemon
// uses, too.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

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

// Numbers of entries.
struct MapSizes {
  std::uint32_t answers;
  std::uint32_t clients;
};

// Owns the program and its maps.  Attached filters and pinned maps outlive it.
class AnswerProgram {
 public:
  // Loads the program that is embedded in the loader.  Takes over the maps in `folder`, or makes
  // new ones and pins them there.
  static Result<AnswerProgram> load(const PinFolder& folder, const MapSizes& sizes);

  int fd() const { return fd_; }
  std::uint32_t id() const { return id_; }
  bool took_over_maps() const { return took_over_maps_; }

 private:
  struct Closer {
    void operator()(bpf_object* object) const;
  };
  AnswerProgram() = default;
  Result<void> find_program();

  std::unique_ptr<bpf_object, Closer> object_;
  int fd_ = -1;  // the object's
  std::uint32_t id_ = 0;
  bool took_over_maps_ = false;
};

// The last lines of libbpf's warnings since the last call, at most 4,000 octets; empty if there
// were none.
std::string take_libbpf_messages();

}  // namespace meshdns::kernel
