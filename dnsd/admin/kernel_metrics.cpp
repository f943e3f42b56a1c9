// SPDX-License-Identifier: Apache-2.0
#include <string_view>
#include <utility>

#include "dnsd/admin/metric_groups.hpp"
#include "dnsd/kernel/program/answer_maps.h"

namespace meshdns::dnsd {

void collect_kernel_answers(MetricCollection& to, const KernelAnswersStatus& kernel) {
  to.gauges("kernel_answers", "1 while the kernel may answer queries (server.kernel_answers).")
      .add(kernel.is_open ? 1.0 : 0.0);
  to.counters("kernel_passed_total",
              "Number of queries that the program in the kernel left to the daemon, by reason.");
  constexpr std::pair<meshdns_counter, std::string_view> kReasons[] = {
      {MESHDNS_PASSED_OTHER, "form"},    {MESHDNS_PASSED_CLIENT, "client"},
      {MESHDNS_PASSED_ROUTE, "route"},   {MESHDNS_PASSED_ABSENT, "absent"},
      {MESHDNS_PASSED_OLD, "changed"},   {MESHDNS_PASSED_SIZE, "size"},
      {MESHDNS_PASSED_ASLEEP, "asleep"}, {MESHDNS_PASSED_LIMIT, "limit"}};
  for (const auto& [counter, reason] : kReasons)
    to.add(kernel.counters.empty() ? 0 : kernel.counters[counter],
           {{"reason", std::string(reason)}});
}

}  // namespace meshdns::dnsd
