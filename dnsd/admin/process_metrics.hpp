// SPDX-License-Identifier: Apache-2.0
// The metrics of the process that Prometheus' client libraries have, under the same names.
#pragma once

#include "dnsd/admin/metric_collection.hpp"

namespace meshdns::dnsd {

// Adds the metrics that /proc has.  `started`: Unix time of the start.
void collect_process(MetricCollection& to, double started);

}  // namespace meshdns::dnsd
