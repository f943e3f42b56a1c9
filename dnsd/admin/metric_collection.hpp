// SPDX-License-Identifier: Apache-2.0
// Collects metrics and writes them in the Prometheus text format.
#pragma once

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "registry/base/printable.hpp"

namespace meshdns::dnsd {

using MetricLabels = std::vector<std::pair<std::string, std::string>>;

// The families in the order in which they are added.
class MetricCollection {
 public:
  // Begins a metric; add() adds values to it.
  MetricCollection& counters(std::string name, std::string help) {
    return begin(std::move(name), std::move(help), prometheus::MetricType::Counter);
  }
  MetricCollection& gauges(std::string name, std::string help) {
    return begin(std::move(name), std::move(help), prometheus::MetricType::Gauge);
  }
  MetricCollection& add(double value, const MetricLabels& labels = {}) {
    prometheus::ClientMetric metric;
    for (const auto& [name, text] : labels) metric.label.push_back({name, registry::as_utf8(text)});
    if (families_.back().type == prometheus::MetricType::Counter)
      metric.counter.value = value;
    else
      metric.gauge.value = value;
    families_.back().metric.push_back(std::move(metric));
    return *this;
  }
  MetricCollection& add(std::uint64_t value, const MetricLabels& labels = {}) {
    return add(static_cast<double>(value), labels);
  }
  // Begins a metric; add() adds histograms to it.
  MetricCollection& histograms(std::string name, std::string help) {
    return begin(std::move(name), std::move(help), prometheus::MetricType::Histogram);
  }
  MetricCollection& add(prometheus::ClientMetric::Histogram histogram,
                        const MetricLabels& labels = {}) {
    prometheus::ClientMetric metric;
    for (const auto& [name, text] : labels) metric.label.push_back({name, registry::as_utf8(text)});
    metric.histogram = std::move(histogram);
    families_.back().metric.push_back(std::move(metric));
    return *this;
  }
  std::string text() const { return prometheus::TextSerializer().Serialize(families_); }

 private:
  MetricCollection& begin(std::string name, std::string help, prometheus::MetricType type) {
    prometheus::MetricFamily family;
    family.name = name.starts_with("process_") ? std::move(name) : "meshdns_" + name;
    family.help = std::move(help);
    family.type = type;
    families_.push_back(std::move(family));
    return *this;
  }
  std::vector<prometheus::MetricFamily> families_;
};

}  // namespace meshdns::dnsd
