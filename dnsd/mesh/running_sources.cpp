// SPDX-License-Identifier: Apache-2.0
#include "dnsd/mesh/running_sources.hpp"
#include "registry/model/mesh_settings.hpp"

#include <algorithm>
#include <set>

namespace meshdns::dnsd {

void RunningSources::follow(const Config& config) {
  std::vector<Running> kept;
  std::set<std::string> names;
  const auto gateway_kinds = registry::gateway_kinds_to_read(config.mesh);
  for (const auto& source : config.sources) {
    const std::string name = source_name(source);
    names.insert(name);
    auto needs = watch_needs(config, source);
    const auto running = std::ranges::find_if(sources_, [&](const Running& r) {
      return r.source && r.config == source && r.needs == needs && r.gateway_kinds == gateway_kinds;
    });
    if (running != sources_.end()) {
      kept.push_back(std::move(*running));
      continue;
    }
    const bool was_complete = std::ranges::any_of(
        sources_, [&](const Running& r) { return r.source && r.name == name && is_complete(r); });
    auto made = make_source(loop_, config, source, feed_, servers_);
    made->start();
    kept.push_back({source, std::move(needs), gateway_kinds, name, std::move(made), was_complete});
  }
  sources_ = std::move(kept);
  feed_.set_sources(std::move(names));
}

void RunningSources::rescan() {
  for (const Running& running : sources_) running.source->rescan();
}

registry::SourceStatus RunningSources::status_of(const Running& running) {
  registry::SourceStatus status = running.source->status();
  status.awaits_namespace &= !running.was_complete;
  return status;
}

bool RunningSources::is_complete(const Running& running) const {
  return feed_.is_complete(running.name) && !status_of(running).awaits_namespace;
}

bool RunningSources::are_complete() const {
  return std::ranges::all_of(sources_, [&](const Running& r) { return is_complete(r); });
}

std::string RunningSources::awaited() const {
  const auto found = std::ranges::find_if(
      sources_, [&](const Running& running) { return !feed_.is_known(running.name); });
  return found == sources_.end() ? std::string() : found->name;
}

std::vector<SourceReport> RunningSources::reports() const {
  std::vector<SourceReport> list;
  for (const Running& running : sources_)
    list.push_back({status_of(running), last_change(running.name)});
  return list;
}

void RunningSources::note_changes(Time now) {
  for (const Running& running : sources_) {
    const std::uint64_t changes = running.source->status().changes;
    const auto [known, is_new] = freshness_.try_emplace(running.name, changes, now);
    if (!is_new && known->second.changes != changes) known->second = {changes, now};
  }
}

RunningSources::Time RunningSources::last_change(const std::string& source) const {
  const auto known = freshness_.find(source);
  return known == freshness_.end() ? started_ : known->second.at;
}

}  // namespace meshdns::dnsd
