// SPDX-License-Identifier: Apache-2.0
#include "dnsd/mesh/dependencies.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <unordered_map>

#include "registry/base/durable_file.hpp"
#include "registry/base/hash.hpp"
#include "registry/base/host_name.hpp"
#include "registry/snapshot/octets.hpp"

namespace meshdns::dnsd {
namespace {

// The number goes up with every change of the layout, or of what a part means: AskedResult, or the
// types' slots.
constexpr std::string_view kDependenciesMagic = "meshdns-dependencies 1\n";
constexpr std::string_view kDependenciesMagicOfAnyVersion = "meshdns-dependencies ";
constexpr std::size_t kChecksumLine = 9;  // hexadecimal

constexpr std::uint32_t kFreeSlot = 0xffffffff;
constexpr std::size_t kLeastSlots = 16;

// A node of std::map beside its value, and what malloc() adds to it.
constexpr std::size_t kNodeOverhead = 48;
// Its place in `largest_`, and the least block of memory, for its heap.
constexpr std::size_t kWorkloadOverhead = 64;

// Octets of a text outside of the string itself.
std::size_t text_memory(const std::string& text) {
  static constexpr std::size_t kInside = 15;
  static constexpr std::size_t kMallocOverhead = 24;
  return text.size() <= kInside ? 0 : text.size() + kMallocOverhead;
}

template <typename Map>
std::size_t node_memory(typename Map::const_iterator node) {
  return sizeof(typename Map::value_type) + kNodeOverhead + text_memory(node->first.ns) +
         text_memory(node->first.name);
}

std::uint32_t seconds_from(std::int64_t unix_seconds) {
  return static_cast<std::uint32_t>(
      std::clamp<std::int64_t>(unix_seconds, 0, std::numeric_limits<std::uint32_t>::max()));
}

std::int64_t seconds_between(std::uint64_t before_ns, std::uint64_t now_ns) {
  constexpr std::uint64_t kSecond = 1'000'000'000;
  return before_ns < now_ns ? static_cast<std::int64_t>((now_ns - before_ns) / kSecond) : 0;
}

std::string checksum_line(std::string_view body) { return fmt::format("{:08x}\n", checksum(body)); }

}  // namespace

struct Dependencies::ByAge {
  bool before(RowId a, RowId b) const { return rows[a].last < rows[b].last; }
  std::uint32_t& place(RowId id) const { return rows[id].place; }
  std::deque<Row>& rows;
};

struct Dependencies::BySize {
  bool before(Workloads::iterator a, Workloads::iterator b) const {
    const PlacedHeap<RowId>& of_a = a->second.of_objects;
    const PlacedHeap<RowId>& of_b = b->second.of_objects;
    if (of_a.size() != of_b.size()) return of_a.size() > of_b.size();
    return !of_a.empty() && rows[of_a.front()].last < rows[of_b.front()].last;
  }
  std::uint32_t& place(Workloads::iterator workload) const { return workload->second.place; }
  const std::deque<Row>& rows;
};

Dependencies::ByAge Dependencies::by_age() { return {rows_}; }
Dependencies::BySize Dependencies::by_size() { return {rows_}; }

// --- Counting ------------------------------------------------------------------------------------

void Dependencies::configure(const Limits& limits) {
  limits_ = limits;
  if (is_enabled())
    fit();
  else
    forget({});
}

void Dependencies::add(const AskedHost& asked, std::uint64_t now_ns, std::int64_t now) {
  const std::uint32_t last = seconds_from(now - seconds_between(asked.last_ns, now_ns));
  const std::uint32_t first = seconds_from(now - seconds_between(asked.first_ns, now_ns));
  count({asked.ns, asked.workload}, {asked.host_ns, asked.host}, asked.result,
        {.questions = asked.questions,
         .first = std::min(first, last),
         .last = last,
         .types = asked.types});
}

void Dependencies::add_dropped(std::string_view ns, std::string_view workload, std::uint64_t rows) {
  dropped_ += rows;
  ++version_;
  const auto known = workloads_.find(NamesView{ns, workload});
  if (known != workloads_.end()) known->second.dropped += rows;
}

void Dependencies::count(NamesView workload, NamesView host, AskedResult result,
                         const Counted& counted) {
  if (!is_enabled()) return;
  ++version_;
  if ((rows_.size() + 1) * 4 > slots_.size() * 3)
    resize_slots(std::max(2 * slots_.size(), kLeastSlots));
  const Row row{.workload = workload_of(workload),
                .host = host_of(host),
                .questions = counted.questions,
                .first = counted.first,
                .last = counted.last,
                .place = 0,
                .types = counted.types,
                .result = result};
  row.workload->second.since = std::min<std::int64_t>(row.workload->second.since, counted.first);
  const std::size_t slot = slot_of(row);
  if (slots_[slot] != kFreeSlot) return merge(slots_[slot], counted);
  insert(row, slot);
  fit();
}

Dependencies::Workloads::iterator Dependencies::workload_of(NamesView names) {
  const auto known = workloads_.find(names);
  if (known != workloads_.end()) return known;
  const auto added =
      workloads_.try_emplace(Names{std::string(names.ns), std::string(names.name)}).first;
  names_memory_ += node_memory<Workloads>(added) + kWorkloadOverhead;
  largest_.add(added, by_size());
  return added;
}

Dependencies::Hosts::iterator Dependencies::host_of(NamesView names) {
  const auto known = hosts_.find(names);
  if (known != hosts_.end()) return known;
  const auto added =
      hosts_.try_emplace(Names{std::string(names.ns), std::string(names.name)}).first;
  names_memory_ += node_memory<Hosts>(added);
  return added;
}

void Dependencies::insert(const Row& row, std::size_t slot) {
  ++added_;
  const auto id = static_cast<RowId>(rows_.size());
  rows_.push_back(row);
  slots_[slot] = id;
  Workload& workload = row.workload->second;
  ++workload.rows;
  if (row.result == AskedResult::Hidden) ++workload.hidden;
  ++row.host->second.rows;
  heap_of(row).add(id, by_age());
  largest_.update(workload.place, by_size());
}

void Dependencies::merge(RowId id, const Counted& counted) {
  Row& row = rows_[id];
  row.questions += counted.questions;
  row.types |= counted.types;
  row.first = std::min(row.first, counted.first);
  if (counted.last <= row.last) return;
  row.last = counted.last;
  heap_of(row).update(row.place, by_age());
  largest_.update(row.workload->second.place, by_size());
}

// --- Bounds --------------------------------------------------------------------------------------

void Dependencies::fit() {
  while (memory() > limits_.memory && !rows_.empty()) {
    const RowId oldest = without_object_.empty() ? largest_.front()->second.of_objects.front()
                                                 : without_object_.front();
    ++dropped_;
    ++rows_[oldest].workload->second.dropped;
    remove(oldest);
  }
}

void Dependencies::remove(RowId id) {
  ++version_;
  const Row row = rows_[id];
  clear_slot(slot_of(row));
  Workload& workload = row.workload->second;
  --workload.rows;
  if (row.result == AskedResult::Hidden) --workload.hidden;
  heap_of(row).remove(row.place, by_age());
  largest_.update(workload.place, by_size());
  const Row& last = rows_.back();
  if (id + 1 != rows_.size()) {
    slots_[slot_of(last)] = id;
    heap_of(last).rename(last.place, id);
    rows_[id] = last;
  }
  rows_.pop_back();
  if (slots_.size() > kLeastSlots && rows_.size() * 4 < slots_.size())
    resize_slots(slots_.size() / 2);
  if (--row.host->second.rows == 0) release(row.host);
  if (workload.rows == 0) release(row.workload);
}

void Dependencies::release(Hosts::iterator host) {
  names_memory_ -= node_memory<Hosts>(host);
  hosts_.erase(host);
}

void Dependencies::release(Workloads::iterator workload) {
  names_memory_ -= node_memory<Workloads>(workload) + kWorkloadOverhead;
  largest_.remove(workload->second.place, by_size());
  if (next_to_expire_ == workload) ++next_to_expire_;
  workloads_.erase(workload);
}

void Dependencies::tick(std::int64_t now) {
  const std::uint32_t before = seconds_from(now - limits_.keep);
  std::size_t rows = kRowsPerTick;
  rows -= expire(without_object_, before, rows);
  for (std::size_t i = std::min(kWorkloadsPerTick, workloads_.size()); i > 0 && rows > 0; --i) {
    if (next_to_expire_ == workloads_.end()) next_to_expire_ = workloads_.begin();
    if (next_to_expire_ == workloads_.end()) break;
    const auto workload = next_to_expire_++;
    rows -= expire(workload->second.of_objects, before, rows);
  }
}

// The heap of a workload ends with the workload's last row.
std::size_t Dependencies::expire(PlacedHeap<RowId>& heap, std::uint32_t before,
                                 std::size_t at_most) {
  std::size_t removed = 0;
  const std::size_t end = std::min(heap.size(), at_most);
  for (; removed < end && rows_[heap.front()].last < before; ++removed) remove(heap.front());
  return removed;
}

// --- The hash table ------------------------------------------------------------------------------

PlacedHeap<Dependencies::RowId>& Dependencies::heap_of(const Row& row) {
  return row.host->first.ns.empty() ? without_object_ : row.workload->second.of_objects;
}

std::size_t Dependencies::hash_of(const Row& row) {
  const std::array<std::uint64_t, 3> key{reinterpret_cast<std::uintptr_t>(&*row.workload),
                                         reinterpret_cast<std::uintptr_t>(&*row.host),
                                         static_cast<std::uint64_t>(row.result)};
  return hash_bytes({reinterpret_cast<const char*>(key.data()), sizeof(key)});
}

// Returns the slot of the row that has the same key, or the free slot where it would be.
std::size_t Dependencies::slot_of(const Row& row) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t slot = hash_of(row) & mask;
  for (; slots_[slot] != kFreeSlot; slot = (slot + 1) & mask) {
    const Row& there = rows_[slots_[slot]];
    if (there.workload == row.workload && there.host == row.host && there.result == row.result)
      break;
  }
  return slot;
}

void Dependencies::resize_slots(std::size_t size) {
  slots_.assign(0, 0);
  slots_.shrink_to_fit();
  slots_.assign(size, kFreeSlot);
  for (RowId id = 0; id < rows_.size(); ++id) slots_[slot_of(rows_[id])] = id;
}

// Moves up those behind it that would not be found any more.
void Dependencies::clear_slot(std::size_t slot) {
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t next = (slot + 1) & mask; slots_[next] != kFreeSlot; next = (next + 1) & mask) {
    const std::size_t wanted = hash_of(rows_[slots_[next]]) & mask;
    if (((next - wanted) & mask) < ((next - slot) & mask)) continue;
    slots_[slot] = slots_[next];
    slot = next;
  }
  slots_[slot] = kFreeSlot;
}

// --- Reading -------------------------------------------------------------------------------------

namespace {

template <typename Row>
bool matches(const DependencyFilter& filter, const Row& row) {
  const auto& client = row.workload->first;
  return (filter.ns.empty() || filter.ns == client.ns) &&
         (filter.workload.empty() || filter.workload == client.name) &&
         (filter.host.empty() || is_at_or_below(row.host->first.name, filter.host)) &&
         row.last >= filter.since && (!filter.hidden_only || row.result == AskedResult::Hidden);
}

}  // namespace

void Dependencies::for_each(const DependencyFilter& filter,
                            const std::function<void(const Dependency&)>& visit) const {
  std::vector<const Row*> found;
  for (const Row& row : rows_)
    if (matches(filter, row)) found.push_back(&row);
  std::ranges::sort(found, [](const Row* a, const Row* b) {
    if (a->workload != b->workload) return ByNames()(a->workload->first, b->workload->first);
    if (a->host == b->host) return a->result < b->result;
    const Names& host_a = a->host->first;
    const Names& host_b = b->host->first;
    const int order = host_a.name.compare(host_b.name);
    return order != 0 ? order < 0 : host_a.ns < host_b.ns;
  });
  Dependency shown;
  for (const Row* row : found) {
    shown.ns = row->workload->first.ns;
    shown.workload = row->workload->first.name;
    shown.host_ns = row->host->first.ns;
    shown.host = row->host->first.name;
    shown.result = row->result;
    shown.types = row->types;
    shown.questions = row->questions;
    shown.first = row->first;
    shown.last = row->last;
    visit(shown);
  }
}

std::vector<DependentWorkload> Dependencies::workloads() const {
  std::vector<DependentWorkload> all;
  all.reserve(workloads_.size());
  for (const auto& [names, workload] : workloads_)
    all.push_back({.ns = names.ns,
                   .workload = names.name,
                   .since = workload.since,
                   .dropped = workload.dropped});
  return all;
}

// From the last one on: the place of one that is removed gets a row that has been looked at.
std::size_t Dependencies::forget(const DependencyFilter& filter) {
  const std::size_t before = rows_.size();
  for (std::size_t id = before; id-- > 0;) {
    if (matches(filter, rows_[id])) remove(static_cast<RowId>(id));
  }
  return before - rows_.size();
}

std::size_t Dependencies::hidden_of(std::string_view ns) const {
  std::size_t hidden = 0;
  for (auto at = workloads_.lower_bound(NamesView{ns, {}});
       at != workloads_.end() && at->first.ns == ns; ++at)
    hidden += at->second.hidden;
  return hidden;
}

// --- The file ------------------------------------------------------------------------------------

// Layout: magic, the checksum of what follows, the sum of what has been dropped; the workloads, the
// hosts, and the rows, which refer to both by their order.
std::string Dependencies::save() const {
  std::string body;
  registry::Encoder to(body);
  to.number(dropped_);
  to.number(workloads_.size());
  std::unordered_map<const void*, std::size_t> numbers;
  numbers.reserve(workloads_.size() + hosts_.size());
  for (const auto& node : workloads_) {
    numbers.emplace(&node, numbers.size());
    to.text(node.first.ns);
    to.text(node.first.name);
    to.number(static_cast<std::uint64_t>(node.second.since));
    to.number(node.second.dropped);
  }
  to.number(hosts_.size());
  for (const auto& node : hosts_) {
    numbers.emplace(&node, numbers.size() - workloads_.size());
    to.text(node.first.ns);
    to.text(node.first.name);
  }
  to.number(rows_.size());
  for (const Row& row : rows_) {
    to.number(numbers.at(&*row.workload));
    to.number(numbers.at(&*row.host));
    to.number(static_cast<std::uint64_t>(row.result));
    to.number(row.types);
    to.number(row.questions);
    to.number(row.first);
    to.number(row.last - row.first);
  }
  return std::string(kDependenciesMagic) + checksum_line(body) + body;
}

struct Dependencies::Saved {
  struct SavedWorkload {
    NamesView names;
    std::int64_t since;
    std::uint64_t dropped;
  };
  struct SavedRow {
    std::uint64_t workload;
    std::uint64_t host;
    AskedResult result;
    Counted counted;
  };
  std::uint64_t dropped = 0;
  std::vector<SavedWorkload> workloads;
  std::vector<NamesView> hosts;
  std::vector<SavedRow> rows;
};

Result<Dependencies::Saved> Dependencies::decode(std::string_view octets) {
  if (!octets.starts_with(kDependenciesMagic))
    return fail(octets.starts_with(kDependenciesMagicOfAnyVersion)
                    ? "its format is of another version of the program"
                    : "it is not a record of dependencies");
  octets.remove_prefix(kDependenciesMagic.size());
  const std::string_view sum = octets.substr(0, kChecksumLine);
  octets.remove_prefix(sum.size());
  if (sum != checksum_line(octets)) return fail("damaged: the checksum differs");
  constexpr std::uint64_t kLastSecond = std::numeric_limits<std::uint32_t>::max();
  Saved saved;
  registry::Decoder from(octets);
  saved.dropped = from.number();
  for (std::uint64_t left = from.length(); left > 0 && !from.bad(); --left) {
    Saved::SavedWorkload& workload = saved.workloads.emplace_back();
    workload.names.ns = from.text();
    workload.names.name = from.text();
    workload.since = static_cast<std::int64_t>(std::min(from.number(), kLastSecond));
    workload.dropped = from.number();
  }
  for (std::uint64_t left = from.length(); left > 0 && !from.bad(); --left) {
    NamesView& host = saved.hosts.emplace_back();
    host.ns = from.text();
    host.name = from.text();
  }
  for (std::uint64_t left = from.length(); left > 0 && !from.bad(); --left) {
    Saved::SavedRow& row = saved.rows.emplace_back();
    row.workload = from.number();
    row.host = from.number();
    const std::uint64_t result = from.number();
    const std::uint64_t types = from.number();
    row.counted.questions = from.number();
    const std::uint64_t first = std::min(from.number(), kLastSecond);
    const std::uint64_t last = first + std::min(from.number(), kLastSecond - first);
    if (row.workload >= saved.workloads.size() || row.host >= saved.hosts.size() ||
        result >= kAskedResults || types > std::numeric_limits<std::uint16_t>::max())
      return fail("damaged: a row has a value that does not exist");
    row.result = static_cast<AskedResult>(result);
    row.counted.types = static_cast<std::uint16_t>(types);
    row.counted.first = static_cast<std::uint32_t>(first);
    row.counted.last = static_cast<std::uint32_t>(last);
  }
  if (from.bad() || !from.at_end()) return fail("damaged: it is cut short, or has too much");
  return saved;
}

Result<void> Dependencies::load(std::string_view octets, std::int64_t now) {
  const auto saved = decode(octets);
  if (!saved) return std::unexpected(saved.error());
  ++version_;
  if (!is_enabled()) return {};
  const std::uint32_t latest = seconds_from(now);
  const std::uint64_t added = added_;
  for (const Saved::SavedRow& row : saved->rows) {
    Counted counted = row.counted;
    counted.first = std::min(counted.first, latest);
    counted.last = std::min(counted.last, latest);
    count(saved->workloads[row.workload].names, saved->hosts[row.host], row.result, counted);
  }
  added_ = added;
  dropped_ += saved->dropped;
  for (const Saved::SavedWorkload& workload : saved->workloads) {
    const auto known = workloads_.find(workload.names);
    if (known == workloads_.end()) continue;
    known->second.dropped += workload.dropped;
    known->second.since = std::min<std::int64_t>(known->second.since, workload.since);
  }
  return {};
}

}  // namespace meshdns::dnsd
