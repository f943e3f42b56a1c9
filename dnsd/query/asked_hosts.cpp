// SPDX-License-Identifier: Apache-2.0
#include "dnsd/query/asked_hosts.hpp"

#include <utility>

#include "registry/base/enum_text.hpp"

namespace meshdns::dnsd {
namespace {

using registry::Client;

std::string_view namespace_of(const Client& client) {
  return client.ns ? client.ns->text() : std::string_view();
}

}  // namespace

std::string_view to_string(AskedResult result) {
  return enum_text<AskedResult::Outside>(
      result, {"address", "alias", "nodata", "forwarded", "hidden", "nxdomain", "refused", "failed",
               "outside"});
}

AskedHosts::Cell& AskedHosts::take(Cell& cell, const Client& client,
                                   const registry::HostEntry* entry, const registry::Symbol* ns,
                                   AskedResult result) {
  if (used_ >= kMaxRows) return dropped_cell_of(client);
  ++used_;
  cell.client = Ref(&client);
  cell.entry = Ref(entry);
  cell.ns = Ref(ns);
  cell.result = result;
  return cell;
}

AskedHosts::Cell& AskedHosts::dropped_cell_of(const Client& client) {
  std::size_t i = place_of(&client, nullptr, kAskedResults) % kCells;
  for (;; i = (i + 1) % kCells) {
    Cell& cell = cells_[i];
    if (cell.client.get() == &client && cell.is_dropped) return cell;
    if (!cell.client) break;
  }
  if (used_ >= kMaxUsed) return unknown_;
  ++used_;
  cells_[i].client = Ref(&client);
  cells_[i].is_dropped = true;
  return cells_[i];
}

void AskedHosts::note_name(const Question& question, std::string_view name, AskedResult result) {
  const std::uint64_t hash = hash_bytes(name);
  std::size_t i = place_of(&question.client, nullptr, static_cast<std::uint64_t>(result)) ^ hash;
  for (;; ++i) {
    Name& place = names_[i % kNames];
    if (place.client.get() == &question.client && place.hash == hash && place.result == result)
      return count(place, question);
    if (place.client) continue;
    if (names_used_ >= kNames / 4 * 3) return note_outside(question);
    ++names_used_;
    place.client = Ref(&question.client);
    place.hash = hash;
    place.result = result;
    place.size = static_cast<std::uint8_t>(name.copy(place.text.data(), place.text.size()));
    return count(place, question);
  }
}

void AskedHosts::for_each(const std::function<void(const AskedHost&)>& visit) const {
  const auto visit_row = [&](const Counts& counts, const Client& client, std::string_view host_ns,
                             std::string_view host) {
    visit({.ns = namespace_of(client),
           .workload = client.workload,
           .host_ns = host_ns,
           .host = host,
           .result = counts.result,
           .types = counts.types,
           .questions = counts.questions,
           .first_ns = counts.first_ns,
           .last_ns = counts.last_ns});
  };
  for (const Cell& cell : cells_)
    if (cell.client && !cell.is_dropped)
      visit_row(cell, *cell.client, cell.ns ? cell.ns->text() : std::string_view(),
                cell.entry ? cell.entry->host() : std::string_view());
  for (const Name& name : names_)
    if (name.client) visit_row(name, *name.client, {}, {name.text.data(), name.size});
}

void AskedHosts::for_each_dropped(
    const std::function<void(std::string_view ns, std::string_view workload,
                             std::uint64_t questions)>& visit) const {
  for (const Cell& cell : cells_)
    if (cell.is_dropped) visit(namespace_of(*cell.client), cell.client->workload, cell.questions);
  if (unknown_.questions > 0) visit({}, {}, unknown_.questions);
}

void AskedInbox::put(std::unique_ptr<AskedHosts>& table) {
  const std::scoped_lock lock(mutex_);
  if (tables_.size() >= max_tables_) return;
  auto next = std::make_unique<AskedHosts>(table->has_names());
  tables_.push_back(std::exchange(table, std::move(next)));
}

std::vector<std::unique_ptr<AskedHosts>> AskedInbox::take() {
  const std::scoped_lock lock(mutex_);
  return std::exchange(tables_, {});
}

}  // namespace meshdns::dnsd
