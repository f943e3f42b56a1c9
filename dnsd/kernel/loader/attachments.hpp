// SPDX-License-Identifier: Apache-2.0
// Keeps the program attached to all matching interfaces, as a filter for their incoming packets.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dnsd/kernel/loader/netlink.hpp"
#include "registry/base/result.hpp"

namespace meshdns::kernel {

// The number of the program in our place, whoever loaded it; nullopt: there is none of ours.
// Fails if another program has our place.
Result<std::optional<std::uint32_t>> find_filter(int interface);

enum class Qdisc : std::uint8_t { Made, Found };

// Removes our filter, and clsact if we made it and nobody else uses it.  Nothing is no error.
Result<void> detach_filter(int interface, Qdisc qdisc);

class Attachments {
 public:
  // `patterns` are those of fnmatch(3).  `program` and `program_id` are of a loaded program, which
  // outlives this.
  Attachments(std::vector<std::string> patterns, int program, std::uint32_t program_id)
      : patterns_(std::move(patterns)), program_(program), program_id_(program_id) {}

  // Compares with the kernel's list, and attaches where the program is missing.
  void look_at_all();
  void handle(const LinkEvent& event);
  void detach_all();

  std::size_t size() const { return attached_.size(); }

 private:
  struct Attachment {
    std::string name;
    Qdisc qdisc;
  };

  bool wants(const Link& link) const;
  void look_at(const Link& link);
  void attach(const Link& link);
  void detach(int index, const Attachment& attachment);
  void report(const Link& link, const std::string& message);
  void forget(int index);

  const std::vector<std::string> patterns_;
  const int program_;
  const std::uint32_t program_id_;
  std::map<int, Attachment> attached_;  // by index of the interface
  // The last failure of each interface, which is reported once.
  std::map<int, std::string> failures_;
};

}  // namespace meshdns::kernel
