// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>

#include "dnsd/admin/metric_groups.hpp"

namespace meshdns::dnsd {
namespace {

void collect_each_source(MetricCollection& to, const std::vector<SourceReport>& sources) {
  to.gauges("source_complete", "1 once the source has been read completely.");
  for (const auto& [source, changed] : sources)
    to.add(source.complete ? 1.0 : 0.0, {{"name", source.name}});
  to.gauges("source_broken",
            "Number of files or collections of the source that are broken; their last good state "
            "is used.");
  for (const auto& [source, changed] : sources) to.add(source.broken, {{"name", source.name}});
  to.gauges("source_failing", "1 while the source reports an error (see /readyz).");
  for (const auto& [source, changed] : sources)
    to.add(source.last_error.empty() ? 0.0 : 1.0, {{"name", source.name}});
  to.counters("source_changes_total",
              "Number of changed files or collections that the source delivered.");
  for (const auto& [source, changed] : sources) to.add(source.changes, {{"name", source.name}});
  to.gauges("source_last_change_timestamp_seconds",
            "Unix time of the last change that the source delivered.");
  for (const auto& [source, changed] : sources) to.add(unix_time(changed), {{"name", source.name}});
}

prometheus::ClientMetric::Histogram histogram_of(const registry::DelayHistogram& delays) {
  prometheus::ClientMetric::Histogram histogram;
  for (std::size_t i = 0; i < delays.counts.size(); ++i) {
    histogram.sample_count += delays.counts[i];
    const double limit = i < registry::DelayHistogram::kLimits.size()
                             ? registry::DelayHistogram::kLimits[i]
                             : std::numeric_limits<double>::infinity();
    histogram.bucket.push_back({histogram.sample_count, limit});
  }
  histogram.sample_sum = delays.sum;
  return histogram;
}

// Adds the metrics of sources that follow a cluster's API.
void collect_clusters(MetricCollection& to, const std::vector<SourceReport>& sources) {
  std::vector<const registry::SourceStatus*> clusters;
  for (const auto& [source, changed] : sources)
    if (source.cluster) clusters.push_back(&source);
  if (clusters.empty()) return;
  const auto each_collection = [&](auto value) {
    for (const auto* source : clusters)
      for (const auto& collection : source->cluster->collections)
        to.add(static_cast<double>(value(collection)),
               {{"name", source->name}, {"collection", collection.name}});
  };
  using Collected = const registry::CollectionStatus&;
  to.gauges("kubernetes_reachable", "1 while the API server answers.");
  for (const auto* source : clusters)
    to.add(source->cluster->reachable ? 1.0 : 0.0, {{"name", source->name}});
  to.gauges("kubernetes_synced", "1 once the collection has been listed completely.");
  each_collection([](Collected c) { return c.synced ? 1 : 0; });
  to.gauges("kubernetes_watching", "1 while a watch of the collection is open.");
  each_collection([](Collected c) { return c.watching ? 1 : 0; });
  to.gauges("kubernetes_forbidden",
            "1 while the API server denies access to the collection (403).");
  each_collection([](Collected c) { return c.trouble == "forbidden" ? 1 : 0; });
  to.gauges("kubernetes_objects", "Number of objects in the collection.");
  each_collection([](Collected c) { return c.objects; });
  to.gauges("kubernetes_refused_objects",
            "Number of invalid objects in the collection; their last valid version is used, if "
            "there is one.");
  each_collection([](Collected c) { return c.refused; });
  to.gauges("kubernetes_silence_seconds",
            "Time since the last message of the API server about the collection.");
  each_collection([](Collected c) { return c.silent_seconds; });
  to.counters("kubernetes_lists_total", "Number of complete lists of the collection.");
  each_collection([](Collected c) { return c.lists; });
  to.counters("kubernetes_relists_total",
              "Number of complete lists of the collection after the first.");
  each_collection([](Collected c) { return c.relists; });
  to.counters("kubernetes_watches_total", "Number of watches opened for the collection.");
  each_collection([](Collected c) { return c.watches; });
  to.counters("kubernetes_events_total", "Number of watch events received for the collection.");
  each_collection([](Collected c) { return c.events; });
  to.counters("kubernetes_errors_total",
              "Number of lists and watches that failed or were refused.");
  each_collection([](Collected c) { return c.errors; });
  to.histograms("kubernetes_programming_duration_seconds",
                "Time until answers show a change, measured from its event and, for "
                "EndpointSlices, from the change that caused it.");
  for (const auto* source : clusters) {
    to.add(histogram_of(source->cluster->from_arrival),
           {{"name", source->name}, {"since", "event"}});
    to.add(histogram_of(source->cluster->from_trigger),
           {{"name", source->name}, {"since", "change"}});
  }
}

// Adds the streams of istiod sources; nothing where there are none.
void collect_control_planes(MetricCollection& to, const std::vector<SourceReport>& sources) {
  using Status = const registry::ControlPlaneStatus&;
  const bool has_any = std::ranges::any_of(
      sources, [](const auto& report) { return report.status.control_plane.has_value(); });
  if (!has_any) return;
  const auto each = [&](auto value) {
    for (const auto& [source, changed] : sources)
      if (source.control_plane)
        to.add(static_cast<double>(value(*source.control_plane)), {{"name", source.name}});
  };
  to.gauges("istiod_connected", "1 while the stream from istiod is open.");
  each([](Status s) { return s.connected ? 1 : 0; });
  to.gauges("istiod_names", "Number of names that istiod has pushed and not taken back.");
  each([](Status s) { return s.names; });
  to.gauges("istiod_refused_names",
            "Number of invalid names in the name table; their last valid version is used, if there "
            "is one.");
  each([](Status s) { return s.refused; });
  to.gauges("istiod_silence_seconds", "Time since the last push of istiod.");
  each([](Status s) { return s.silent_seconds; });
  to.counters("istiod_connects_total", "Number of streams that were begun.");
  each([](Status s) { return s.connects; });
  to.counters("istiod_pushes_total", "Number of pushes that were taken over (ACK).");
  each([](Status s) { return s.pushes; });
  to.counters("istiod_refused_pushes_total", "Number of pushes that were refused (NACK).");
  each([](Status s) { return s.refused_pushes; });
  to.counters("istiod_changed_names_total", "Number of names that pushes have changed.");
  each([](Status s) { return s.changed_names; });
  to.counters("istiod_push_bytes_total", "Number of bytes of all pushes.");
  each([](Status s) { return s.bytes; });
}

}  // namespace

void collect_sources(MetricCollection& to, const std::vector<SourceReport>& sources) {
  collect_each_source(to, sources);
  collect_clusters(to, sources);
  collect_control_planes(to, sources);
}

}  // namespace meshdns::dnsd
