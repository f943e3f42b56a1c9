// SPDX-License-Identifier: Apache-2.0
// Selects the results that the listener gets next: the changed names of one namespace, together.
//
// Telling them costs a commit, which builds every endpoint set anew that uses one of the names. A
// set of thousands of names with short TTLs would otherwise keep the thread busy with commits. So a
// namespace whose commits take long gets fewer of them, each for more names, and costs other
// namespaces nothing but its share.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "resolver/names/refresh_schedule.hpp"

namespace meshdns::resolver {

// Time is an argument. One thread.
class ResultBatches {
 public:
  // Between two batches of a namespace.
  static constexpr std::chrono::milliseconds kShortestPause{5};
  // Part of the time that the batches of one namespace may take, and that all long ones may take.
  static constexpr int kPausePerCost = 19;       // 5%
  static constexpr int kCommonPausePerCost = 4;  // 20%
  // A batch that takes longer is a long one.
  static constexpr std::chrono::milliseconds kLong{2};

  struct Batch {
    std::string ns;
    std::vector<std::string> hosts;  // sorted
  };

  // Notes that what `host` resolves to has changed for `ns`, or may have.  Returns false if that
  // was noted already.
  bool add(std::string_view ns, std::string_view host);
  // Forgets what was noted.
  void remove(std::string_view ns, std::string_view host);
  // Returns one batch that is due, those of namespaces whose last one was not long first.
  std::optional<Batch> take_due(TimePoint now);
  // Notes the processor time that telling the batch took, until `now`.  A busy machine, where the
  // clock runs on while the thread waits, must not make a short batch a long one.
  void told(std::string_view ns, Duration cost, TimePoint now);
  // Returns when take_due() has a batch; nullopt = nothing waits.
  std::optional<TimePoint> next() const;

 private:
  struct Tenant {
    std::string ns;
    std::set<std::string, std::less<>> hosts;  // to tell
    bool is_long = false;                      // the last batch was
    TimePoint due{};                           // of the next batch
  };
  using Queue = std::set<std::pair<TimePoint, Tenant*>>;  // tenants with hosts to tell
  Queue& queue_of(const Tenant& tenant) { return tenant.is_long ? long_ : short_; }

  std::map<std::string, std::unique_ptr<Tenant>, std::less<>> tenants_;
  Queue short_;
  Queue long_;
  TimePoint long_due_{};  // of the next long batch of any namespace
};

}  // namespace meshdns::resolver
