// SPDX-License-Identifier: Apache-2.0
// The kernel program, loaded.
#pragma once

#include <cstdint>
#include <memory>

#include "dnsd/kernel/loader/pinned_maps.hpp"
#include "registry/base/result.hpp"

struct bpf_object;

namespace meshdns::kernel {

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

}  // namespace meshdns::kernel
