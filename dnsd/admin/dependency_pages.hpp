// SPDX-License-Identifier: Apache-2.0
// The record of dependencies as the admin pages show it: /dependencies, and metrics.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dnsd/admin/json.hpp"
#include "dnsd/admin/registry_streams.hpp"
#include "dnsd/config/config.hpp"
#include "dnsd/mesh/dependencies.hpp"
#include "registry/registry.hpp"

namespace meshdns::dnsd {

// The rows that match, each with the object as it is now, and then the workloads.  Takes one
// workload's rows out of the record at a time, so that a record of 100,000 rows does not hold up
// the control thread.  Control thread.
class DependencyList final : public TextFeed {
 public:
  // REQUIRES: the registry and the record outlive it.
  DependencyList(registry::Registry& registry, const Dependencies& dependencies,
                 DependencyRecord record, DependencyFilter filter);

  bool has_work() const override { return !is_done_; }
  bool is_done() const override { return is_done_; }
  void step(std::string& text) override;

 private:
  void take_rows(const DependentWorkload& workload);
  void put_row(Json& json, const Dependency& row);
  // Why a client of the row's workload does not see the object now, or, if none of it is known, one
  // of its namespace; empty: it does.
  std::string rule_of(const Dependency& row, const registry::ServiceRecord& object);
  void find_clients();

  registry::Registry& registry_;
  const Dependencies& dependencies_;
  const DependencyRecord record_;
  const DependencyFilter filter_;
  const std::shared_ptr<const registry::Snapshot> snapshot_;
  std::vector<DependentWorkload> workloads_;  // sorted
  std::size_t taken_ = 0;                     // workloads whose rows have been taken
  std::vector<Dependency> rows_;              // of one workload
  std::size_t written_ = 0;                   // of rows_; at the end, of workloads_
  // A client of each workload, null where none is known; empty: they have not been needed.
  std::vector<Ref<const registry::Client>> clients_;
  char separator_ = '[';
  bool is_begun_ = false;
  bool is_done_ = false;
};

// The numbers of hidden rows by the clients' namespace, the largest first, of at most `limit`
// namespaces; those of all others follow as "(others)".  A client without a namespace is
// "(unknown)": neither is the name of a namespace.
std::vector<std::pair<std::string, std::size_t>> hidden_by_namespace(
    const Dependencies& dependencies, std::size_t limit);

}  // namespace meshdns::dnsd
