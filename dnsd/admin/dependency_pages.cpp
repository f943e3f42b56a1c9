// SPDX-License-Identifier: Apache-2.0
#include "dnsd/admin/dependency_pages.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <set>
#include <string_view>
#include <utility>

#include "dnsd/admin/admin_routes.hpp"
#include "dnsd/admin/http_request.hpp"
#include "dnsd/answer/answer_history.hpp"
#include "dnsd/config/enum_names.hpp"
#include "dnsd/query/query_counters.hpp"
#include "registry/base/host_name.hpp"
#include "registry/view/view.hpp"
#include "registry/view/view_explanation.hpp"

namespace meshdns::dnsd {
namespace {

std::pair<std::string_view, std::string_view> names_of(const DependentWorkload& workload) {
  return {workload.ns, workload.workload};
}

// Null: it is gone.
const registry::ServiceRecord* object_of(const Dependency& row,
                                         const registry::Snapshot& snapshot) {
  const registry::HostEntry* entry = row.host.empty() ? nullptr : find_entry(snapshot, row.host);
  if (entry == nullptr) return nullptr;
  const auto records = entry->records();
  const auto found = std::ranges::find_if(records, [&](const registry::ServiceRecord* record) {
    return !record->placeholder && record->ns->text() == row.host_ns;
  });
  return found == records.end() ? nullptr : *found;
}

}  // namespace

DependencyList::DependencyList(registry::Registry& registry, const Dependencies& dependencies,
                               DependencyRecord record, DependencyFilter filter)
    : registry_(registry),
      dependencies_(dependencies),
      record_(record),
      filter_(std::move(filter)),
      snapshot_(registry.current()),
      workloads_(dependencies.workloads()) {
  std::erase_if(workloads_, [this](const DependentWorkload& each) {
    return (!filter_.ns.empty() && each.ns != filter_.ns) ||
           (!filter_.workload.empty() && each.workload != filter_.workload);
  });
  std::ranges::sort(workloads_, {}, names_of);
}

void DependencyList::step(std::string& text) {
  if (!std::exchange(is_begun_, true))
    text += "{\"record\":\"" + std::string(name_of(record_)) + "\",\"dependencies\":";
  const auto put_next = [&](const auto& put_members) {
    text += std::exchange(separator_, ',');
    text += json_text([&](Json& json) {
      json.StartObject();
      put_members(json);
      json.EndObject();
    });
  };
  if (written_ < rows_.size())
    return put_next([&](Json& json) { put_row(json, rows_[written_++]); });
  if (taken_ < workloads_.size()) return take_rows(workloads_[taken_++]);
  if (taken_ == workloads_.size()) {
    ++taken_;
    rows_.clear();
    written_ = 0;
    text += separator_ == '[' ? "[]" : "]";
    text += ",\"workloads\":";
    separator_ = '[';
  }
  if (written_ == workloads_.size()) {
    text += separator_ == '[' ? "[]}\n" : "]}\n";
    is_done_ = true;
    return;
  }
  put_next([&](Json& json) {
    const DependentWorkload& workload = workloads_[written_++];
    put(json, "namespace", workload.ns);
    put(json, "workload", workload.workload);
    put(json, "since", time_text(workload.since));
    put(json, "dropped", workload.dropped);
    put_bool(json, "incomplete", workload.dropped > 0);
  });
}

void DependencyList::take_rows(const DependentWorkload& workload) {
  rows_.clear();
  written_ = 0;
  DependencyFilter filter = filter_;
  filter.ns = workload.ns;
  filter.workload = workload.workload;
  dependencies_.for_each(filter, [&](const Dependency& row) {
    // To a filter, an unknown namespace or workload is any.
    if (row.ns == workload.ns && row.workload == workload.workload) rows_.push_back(row);
  });
}

void DependencyList::put_row(Json& json, const Dependency& row) {
  const registry::ServiceRecord* object = object_of(row, *snapshot_);
  put(json, "namespace", row.ns);
  put(json, "workload", row.workload);
  put(json, "hostNamespace", row.host_ns);
  put(json, "host", row.host);
  put(json, "object",
      object == nullptr ? std::string() : describe_source(object->source, *snapshot_));
  put(json, "first", time_text(row.first));
  put(json, "last", time_text(row.last));
  put(json, "questions", row.questions);
  json.Key("types");
  json.StartArray();
  for (std::size_t slot = 0; slot < QueryCounters::kTypeSlots; ++slot)
    if ((row.types >> slot & 1U) != 0) put(json, QueryCounters::type_name(slot));
  json.EndArray();
  put(json, "result", to_string(row.result));
  const bool is_hidden = row.result == AskedResult::Hidden && object != nullptr;
  put(json, "rule", is_hidden ? rule_of(row, *object) : std::string());
}

std::string DependencyList::rule_of(const Dependency& row, const registry::ServiceRecord& object) {
  if (row.ns.empty()) return {};
  if (clients_.empty()) find_clients();
  Ref<const registry::Client>& client = clients_[taken_ - 1];
  if (!client) {
    registry::ClientIdentity identity;
    identity.ns = row.ns;
    client = registry_.client_of(identity);
  }
  std::string reason;
  registry::View(*snapshot_, *client).sees(row.host, object, &reason);
  return reason;
}

void DependencyList::find_clients() {
  clients_.resize(workloads_.size());
  const auto note = [&](const Ref<const registry::Client>& client) {
    if (!client || !client->ns) return;
    const std::pair<std::string_view, std::string_view> names(client->ns->text(), client->workload);
    const auto found = std::ranges::lower_bound(workloads_, names, {}, names_of);
    if (found != workloads_.end() && names_of(*found) == names)
      clients_[static_cast<std::size_t>(found - workloads_.begin())] = client;
  };
  note(snapshot_->default_client);
  snapshot_->clients.for_each([&](const registry::ClientEntry& entry) { note(entry.client); });
}

std::vector<std::pair<std::string, std::size_t>> hidden_by_namespace(
    const Dependencies& dependencies, std::size_t limit) {
  std::set<std::string> namespaces;
  for (DependentWorkload& workload : dependencies.workloads())
    namespaces.insert(std::move(workload.ns));
  std::vector<std::pair<std::string, std::size_t>> numbers;
  for (const std::string& ns : namespaces)
    if (const std::size_t rows = dependencies.hidden_of(ns); rows > 0)
      numbers.emplace_back(ns.empty() ? "(unknown)" : ns, rows);
  std::ranges::stable_sort(numbers, std::ranges::greater(),
                           &std::pair<std::string, std::size_t>::second);
  std::size_t of_others = 0;
  for (std::size_t i = limit; i < numbers.size(); ++i) of_others += numbers[i].second;
  if (of_others == 0) return numbers;
  numbers.resize(limit);
  numbers.emplace_back("(others)", of_others);
  return numbers;
}

namespace {

DependencyFilter filter_of(const HttpRequest& request) {
  DependencyFilter filter;
  filter.ns = request.argument("namespace");
  filter.workload = request.argument("workload");
  filter.host = canonical_host(request.argument("host"));
  return filter;
}

}  // namespace

HttpResponse show_dependencies(const ShownDaemon& daemon, const HttpRequest& request) {
  const auto since = number_argument(request, "since", 0);
  if (!since) return bad_request(since.error().message);
  DependencyFilter filter = filter_of(request);
  constexpr std::uint64_t kLatest = std::numeric_limits<std::int64_t>::max();
  filter.since = static_cast<std::int64_t>(std::min(*since, kLatest));
  filter.hidden_only = !request.argument("hidden").empty();
  return daemon.streams.list(std::make_unique<DependencyList>(
      daemon.engine.registry, daemon.dependencies, daemon.engine.config.dependencies.record,
      std::move(filter)));
}

HttpResponse forget_dependencies(const ShownDaemon& daemon, const HttpRequest& request) {
  const DependencyFilter filter = filter_of(request);
  const bool is_some = !filter.ns.empty() || !filter.workload.empty() || !filter.host.empty();
  const bool is_all = !request.argument("all").empty();
  if (is_some == is_all)
    return bad_request(
        "namespace=, workload= or host= is needed, or several of them; or else all=yes");
  const std::size_t removed = daemon.dependencies.forget(filter);
  daemon.engine.log.info("dependencies forgotten", {{"namespace", std::string_view(filter.ns)},
                                                    {"workload", std::string_view(filter.workload)},
                                                    {"host", std::string_view(filter.host)},
                                                    {"rows", removed}});
  return object_response([&](Json& json) { put(json, "removed", removed); });
}

}  // namespace meshdns::dnsd
