// SPDX-License-Identifier: Apache-2.0
#include "registry/source/istiod/held.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "registry/base/hash.hpp"
#include "registry/base/host_name.hpp"
#include "registry/base/printable.hpp"
#include "registry/manifest/name_entry.hpp"
#include "registry/snapshot/stored_resource.hpp"

namespace meshdns::registry::istiod {
namespace {

// One name of a push, read by the rules for all tables.
class NameCheck {
 public:
  static constexpr std::size_t kPartsOfAltHost = HeldNames::kPartsOfAltHost;

  NameCheck(const std::string& origin, std::string_view host) : origin_(origin), host_(host) {}

  void read(const NameInfo* info) {
    note(Severity::Error, {}, entry_.set_host(host_));
    if (info == nullptr)
      return note(Severity::Error, {}, "the NameInfo of the host is not a valid protobuf message");
    for (std::size_t i = 0; i < info->ips.size(); ++i)
      note(Severity::Warning, list_element("ips", i), entry_.add_ip(info->ips[i]));
    note(Severity::Error, "ips", entry_.check_ips());
    for (std::size_t i = 0; i < info->alt_hosts.size(); ++i)
      note(Severity::Error, list_element("altHosts", i), entry_.add_alt_host(info->alt_hosts[i]));
    entry_.set_registry(info->registry);
    entry_.set_short_name(info->short_name);
    entry_.set_namespace(info->ns);
  }

  void refuse(std::string why) { note(Severity::Error, {}, std::move(why)); }

  bool is_refused() const { return is_refused_; }
  std::size_t parts() const {
    return entry_.entry().ips.size() + entry_.entry().alt_hosts.size() * kPartsOfAltHost;
  }
  NameEntryBuilder& entry() { return entry_; }
  std::vector<Finding> take_findings() { return std::move(findings_); }

 private:
  // One name cannot fill the list of findings.
  static constexpr std::size_t kMaxFindings = 20;

  void note(Severity severity, std::string field, NameEntryBuilder::Complaint complaint) {
    if (!complaint) return;
    is_refused_ |= severity == Severity::Error;
    if (findings_.size() < kMaxFindings)
      findings_.push_back({severity, origin_, 0, std::string(to_string(Kind::NameTableEntry)),
                           printable(host_), std::move(field), *std::move(complaint)});
  }

  const std::string& origin_;
  const std::string_view host_;
  NameEntryBuilder entry_;
  bool is_refused_ = false;
  std::vector<Finding> findings_;
};

}  // namespace

// Takes over one push, name by name.
class HeldNames::Update {
 public:
  Update(HeldNames& held, MessageReader& reader)
      : held_(held), reader_(reader), change_(held.begin_change()) {}

  void arrive(const Arrival& arrival) {
    const auto [at, is_new] = held_.items_.try_emplace(arrival.id);
    HeldName& name = at->second;
    name.push = held_.push_;
    if (is_new || name.table != arrival.table) {
      if (!is_new) held_.unlist(name);
      name.table = arrival.table;
      held_.list(arrival.id, name);
    }
    if (!is_new && name.content == arrival.content) return;
    name.content = arrival.content;
    read(arrival.id, name, *arrival.text);
  }

  // Takes away the names of a table that have not arrived.
  void sweep(std::uint64_t table) {
    const auto listed = held_.tables_.find(table);
    if (listed == held_.tables_.end()) return;
    std::vector<std::uint64_t> gone;
    for (const std::uint64_t id : listed->second)
      if (held_.items_.at(id).push != held_.push_) gone.push_back(id);
    for (const std::uint64_t id : gone) take_away(id);
  }

  Difference finish() { return held_.end_change(std::move(change_), changed_); }

 private:
  void take_away(std::uint64_t id) {
    const auto at = held_.items_.find(id);
    ++changed_;
    change_.removed.push_back(at->second.key);
    held_.unlist(at->second);
    held_.forget(at);
  }

  void read(std::uint64_t id, HeldName& name, const PushedName& text) {
    ++changed_;
    NameCheck check(held_.origin_, text.host);
    if (text.info.size() > kMaxInfoOctets)
      check.refuse("the NameInfo of the host has more than 4 MiB");
    else
      check.read(reader_.read_name(text.info));
    count_parts(name, check);
    held_.set_findings(id, check.take_findings());
    held_.set_refused(name, check.is_refused());
    const std::uint64_t key = hash_of(check.entry().key());
    if (check.is_refused()) {
      // An earlier run may have left a good one.
      if (name.key == 0) name.key = key;
      if (held_.is_first_) change_.kept.push_back(key);
      return;
    }
    // The name may be in another namespace now.
    if (name.key != 0 && name.key != key) change_.removed.push_back(name.key);
    name.key = key;
    change_.resources.push_back(check.entry().take(), 0);
  }

  // Refuses a name for which there is no room.  The next push may have it again.
  void count_parts(HeldName& name, NameCheck& check) {
    if (check.is_refused()) return;
    if (!held_.has_room(name, check.parts())) {
      name.content = 0;
      return check.refuse("there are more than " + std::to_string(held_.limits_.parts) +
                          " addresses and alternative hosts");
    }
    held_.set_parts(name, check.parts());
  }

  HeldNames& held_;
  MessageReader& reader_;
  OriginChange change_;
  std::size_t changed_ = 0;
};

void HeldNames::list(std::uint64_t id, HeldName& name) {
  auto& ids = tables_[name.table];
  name.slot = static_cast<std::uint32_t>(ids.size());
  ids.push_back(id);
}

void HeldNames::unlist(const HeldName& name) {
  const auto table = tables_.find(name.table);
  auto& ids = table->second;
  ids[name.slot] = ids.back();
  items_.at(ids.back()).slot = name.slot;
  ids.pop_back();
  if (ids.empty()) tables_.erase(table);
}

// The names of a push, by id.  Of a key that occurs twice, the last one counts, as in protobuf's
// maps.  Keys of one table that differ in case or in the final dot come in any order: the first of
// them in the order of octets counts.
std::vector<HeldNames::Arrival> HeldNames::arrivals_of(const Push& push) {
  std::vector<Arrival> all;
  for (const PushedTable& table : push.tables)
    for (const PushedName& name : table.names)
      all.push_back({hash_bytes(canonical_host(name.host)), hash_bytes(name.info),
                     hash_bytes(table.name), &name, &table});
  std::ranges::stable_sort(all, {}, &Arrival::id);
  std::size_t kept = 0;
  for (const Arrival& one : all) {
    if (kept > 0 && all[kept - 1].id == one.id) {
      const Arrival& other = all[kept - 1];
      if (other.pushed == one.pushed && other.text->host < one.text->host) continue;
      --kept;
    }
    all[kept++] = one;
  }
  all.resize(kept);
  return all;
}

// The tables whose names a push replaces, each once.
std::vector<std::uint64_t> HeldNames::mentioned_tables(const Push& push, bool is_whole) const {
  std::set<std::uint64_t> mentioned;
  for (const PushedTable& table : push.tables) mentioned.insert(hash_bytes(table.name));
  for (const std::string& name : push.removed) mentioned.insert(hash_bytes(name));
  if (is_whole)
    for (const auto& [table, ids] : tables_) mentioned.insert(table);
  return {mentioned.begin(), mentioned.end()};
}

std::size_t HeldNames::new_tables(const Push& push) const {
  return static_cast<std::size_t>(std::ranges::count_if(
      push.tables, [this](const PushedTable& table) { return !versions_.contains(table.name); }));
}

// The one table without a name that istiod sends today has no version either.
void HeldNames::note_versions(const Push& push, bool is_whole) {
  if (is_whole) versions_.clear();
  for (const std::string& name : push.removed) versions_.erase(name);
  for (const PushedTable& table : push.tables)
    if (!table.name.empty() || !table.version.empty()) versions_[table.name] = table.version;
}

Result<HeldNames::Difference> HeldNames::take(const Push& push, MessageReader& reader) {
  // istiod sends no response without a table for a whole.  One that does come must not end all
  // names.
  if (push.tables.empty() && push.removed.empty()) return Difference();
  const bool is_whole = push.is_whole || wants_whole_;
  const auto arrivals = arrivals_of(push);
  const auto mentioned = mentioned_tables(push, is_whole);
  std::size_t others = items_.size();
  for (const std::uint64_t table : mentioned)
    if (const auto listed = tables_.find(table); listed != tables_.end())
      others -= listed->second.size();
  if (arrivals.size() + others > limits_.names)
    return fail("the push would make more than " + std::to_string(limits_.names) + " names");
  if (!is_whole && versions_.size() + new_tables(push) > limits_.names)
    return fail("the push would make more than " + std::to_string(limits_.names) + " tables");
  wants_whole_ = false;
  note_versions(push, is_whole);
  ++push_;
  Update update(*this, reader);
  for (const Arrival& arrival : arrivals) update.arrive(arrival);
  for (const std::uint64_t table : mentioned) update.sweep(table);
  return update.finish();
}

std::vector<HeldResource> HeldNames::begin_stream() {
  std::vector<HeldResource> all;
  for (const auto& [name, version] : versions_) all.push_back({name, version});
  return for_request(std::move(all));
}

}  // namespace meshdns::registry::istiod
