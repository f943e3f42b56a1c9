// SPDX-License-Identifier: Apache-2.0
// Interfaces of this network namespace, and the filters for incoming packets on them, by rtnetlink.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "registry/base/file_descriptor.hpp"
#include "registry/base/result.hpp"

namespace meshdns::kernel {

struct Link {
  int index = 0;
  std::string name;
  bool is_ethernet = false;
  bool is_bridge_port = false;
};

// A filter of tc.
struct Filter {
  std::uint32_t priority = 0;
  std::uint32_t handle = 0;
  std::string name;              // of a BPF filter: NAME:[ID] for those that libbpf attaches
  std::uint32_t program_id = 0;  // 0 = not a BPF filter
};

enum class Direction : std::uint8_t { Ingress, Egress };

Result<std::vector<Link>> list_links();
Result<std::vector<Filter>> list_filters(int interface, Direction direction);

struct LinkGone {
  int index;
};
// Filters were removed from the interface, or all of its queueing disciplines.
struct FiltersGone {
  int index;
};
// The kernel had no room for some events: list everything again.
struct EventsLost {};
using LinkEvent = std::variant<Link, LinkGone, FiltersGone, EventsLost>;

// Reports changes of links (new, renamed, joined a bridge) and removals.
class LinkEvents {
 public:
  static Result<LinkEvents> open();
  int fd() const { return fd_.get(); }  // readable: take() has something
  // Never blocks.
  std::vector<LinkEvent> take();

 private:
  explicit LinkEvents(FileDescriptor fd) : fd_(std::move(fd)) {}
  FileDescriptor fd_;
};

}  // namespace meshdns::kernel
