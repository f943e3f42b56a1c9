// SPDX-License-Identifier: Apache-2.0
// Charts of the status page, as SVG.
#pragma once

#include <deque>
#include <initializer_list>
#include <string>
#include <string_view>

#include "dnsd/admin/load_history.hpp"

namespace meshdns::dnsd {

// One line of a chart.
struct ChartLine {
  const char* css_class;
  const char* name;
  double LoadHistory::Point::* value;
};

// Adds a chart of the last LoadHistory::kPoints seconds.  `unit` follows each number.
void add_chart(std::string& page, std::string_view title, std::string_view unit,
               const LoadHistory& load, std::initializer_list<ChartLine> lines);

// Adds a small chart without axes: replies and failures of one upstream server.  Nothing while
// there are fewer than two points.
void add_sparkline(std::string& page, const std::deque<UpstreamHistory::Point>& points);

}  // namespace meshdns::dnsd
