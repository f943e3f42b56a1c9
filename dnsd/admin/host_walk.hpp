// SPDX-License-Identifier: Apache-2.0
// Visits the hosts of a snapshot in the order of their names, in small steps: to sort 100,000 names
// at once would hold up the control thread for some 50 ms.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "registry/snapshot/snapshot.hpp"

namespace meshdns::dnsd {

// One thread.
class HostWalk {
 public:
  // `host`: only that one; empty = all.  Keeps the snapshot until the walk is done.
  HostWalk(std::shared_ptr<const registry::Snapshot> snapshot, std::string_view host);

  bool is_done() const { return is_sorted() && runs_.empty(); }
  // Does one step.  Null: it has sorted some of the hosts, or is done.
  const registry::HostEntry* step();

 private:
  static constexpr std::size_t kRun = 1024;  // hosts that one step sorts
  // Sorted hosts that have not been visited.
  struct Run {
    std::size_t next;
    std::size_t end;
  };

  bool is_sorted() const { return sorted_ == hosts_.size(); }
  void sort_run();
  bool comes_later(const Run& a, const Run& b) const;

  std::shared_ptr<const registry::Snapshot> snapshot_;
  std::vector<const registry::HostEntry*> hosts_;
  std::size_t sorted_ = 0;
  std::vector<Run> runs_;  // once all are sorted, a heap: the first has the next host
};

}  // namespace meshdns::dnsd
