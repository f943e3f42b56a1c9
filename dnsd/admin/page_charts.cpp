// SPDX-License-Identifier: Apache-2.0
#include "dnsd/admin/page_charts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <deque>

#include "dnsd/admin/page_html.hpp"

namespace meshdns::dnsd {
namespace {

constexpr int kChartWidth = 600;
constexpr int kChartHeight = 110;
constexpr int kAxisWidth = 48;  // left of the chart, for its scale
constexpr int kAxisHeight = 16;
constexpr int kSparkWidth = 120;
constexpr int kSparkHeight = 24;

using Points = std::deque<LoadHistory::Point>;
using Value = double LoadHistory::Point::*;

double highest(const Points& points, Value value) {
  double top = 0;
  for (const auto& point : points) top = std::max(top, point.*value);
  return top;
}

// A number that is easy to read, not below `top`: 1, 2 or 5 times a power of ten.
double round_up(double top) {
  if (top <= 0) return 1;
  double scale = 1e-3;
  for (;; scale *= 10)
    for (const double step : {1.0, 2.0, 5.0})
      if (step * scale >= top) return step * scale;
}

// Adds "x,y" of each point, with the newest one at the right edge of an area that has room for
// `room` points, and `top` at its upper edge.
template <typename Point>
void add_coordinates(std::string& page, const std::deque<Point>& points, double Point::* value,
                     double top, int width, int height, std::size_t room) {
  const double step = static_cast<double>(width) / static_cast<double>(room - 1);
  double x = width - step * static_cast<double>(points.size() - 1);
  for (const Point& point : points) {
    page += fmt::format("{:.1f},{:.1f} ", x, (height - 2) * (1 - point.*value / top) + 1);
    x += step;
  }
}

void add_line(std::string& page, const Points& points, const ChartLine& line, double top) {
  page += fmt::format("<polyline class=\"{}\" points=\"", line.css_class);
  add_coordinates(page, points, line.value, top, kChartWidth, kChartHeight, LoadHistory::kPoints);
  page += "\"/>";
}

// Lines and numbers for no, half and full scale, and a line a minute.
void add_axes(std::string& page, double top, std::string_view unit) {
  page += fmt::format("<rect width=\"{}\" height=\"{}\"/>", kChartWidth, kChartHeight);
  for (const double part : {0.0, 0.5, 1.0}) {
    const double y = (kChartHeight - 2) * (1 - part) + 1;
    page += fmt::format("<line x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>", kChartWidth, y, y);
    page += fmt::format("<text x=\"-4\" y=\"{:.1f}\" text-anchor=\"end\">{:.6g}{}</text>",
                        std::clamp(y + 4, 9.0, kChartHeight - 1.0), top * part, unit);
  }
  const int minutes = static_cast<int>(LoadHistory::kPoints / 60);
  for (int minute = 0; minute <= minutes; ++minute) {
    const int x = kChartWidth * minute / minutes;
    page += fmt::format("<line x1=\"{0}\" x2=\"{0}\" y2=\"{1}\"/>", x, kChartHeight);
    const char* anchor = minute == minutes ? "end" : minute == 0 ? "start" : "middle";
    page +=
        fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"{}\">{}</text>", x, kChartHeight + 12,
                    anchor, minute == minutes ? "now" : fmt::format("-{} min", minutes - minute));
  }
}

void add_path(std::string& page, const char* css_class,
              const std::deque<UpstreamHistory::Point>& points,
              double UpstreamHistory::Point::* value, double top) {
  page += fmt::format("<path fill=\"none\" class=\"{}\" d=\"M", css_class);
  add_coordinates(page, points, value, top, kSparkWidth, kSparkHeight, UpstreamHistory::kPoints);
  page += "\"/>";
}

}  // namespace

void add_sparkline(std::string& page, const std::deque<UpstreamHistory::Point>& points) {
  using Point = UpstreamHistory::Point;
  if (points.size() < 2) return;
  double highest_value = 0;
  for (const Point& point : points)
    highest_value = std::max({highest_value, point.replies_per_second, point.failures_per_second});
  const double top = round_up(highest_value);
  page += fmt::format(
      "<svg role=\"img\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\"><title>Replies per "
      "second of the last 5 minutes: {2:.4g} now, at most {3:.4g}; failures: {4:.4g} now</title>",
      kSparkWidth, kSparkHeight, points.back().replies_per_second, highest_value,
      points.back().failures_per_second);
  add_path(page, "a", points, &Point::replies_per_second, top);
  add_path(page, "b", points, &Point::failures_per_second, top);
  page += "</svg>";
}

void add_chart(std::string& page, std::string_view title, std::string_view unit,
               const LoadHistory& load, std::initializer_list<ChartLine> lines) {
  const Points& points = load.points();
  double highest_value = 0;
  for (const ChartLine& line : lines)
    highest_value = std::max(highest_value, highest(points, line.value));
  const double top = round_up(highest_value);
  page += fmt::format(
      "<figure><svg role=\"img\" width=\"{0}\" height=\"{1}\" viewBox=\"-{2} 0 {0} {1}\">"
      "<title>{3}</title>",
      kChartWidth + kAxisWidth, kChartHeight + kAxisHeight, kAxisWidth, escaped(title));
  add_axes(page, top, unit);
  if (!points.empty())
    for (const ChartLine& line : lines) add_line(page, points, line, top);
  page += fmt::format("</svg><figcaption>{}; now:", escaped(title));
  for (const ChartLine& line : lines)
    page += fmt::format(" <span class=\"{}\">{} {:.4g}{}</span>", line.css_class, line.name,
                        points.empty() ? 0.0 : points.back().*line.value, unit);
  page += fmt::format(", highest {:.4g}{}</figcaption></figure>\n", highest_value, unit);
}

}  // namespace meshdns::dnsd
