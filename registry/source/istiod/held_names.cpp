// SPDX-License-Identifier: Apache-2.0
#include "registry/source/istiod/held_names.hpp"

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
  NameCheck(const std::string& origin, std::string_view host) : origin_(origin), host_(host) {}

  void read(const NameInfo* info) {
    note(Severity::Error, {}, entry_.set_host(host_));
    if (info == nullptr) return note(Severity::Error, {}, "is no NameInfo message");
    for (std::size_t i = 0; i < info->ips.size(); ++i)
      note(Severity::Warning, element("ips", i), entry_.add_ip(info->ips[i]));
    note(Severity::Error, "ips", entry_.check_ips());
    for (std::size_t i = 0; i < info->alt_hosts.size(); ++i)
      note(Severity::Error, element("altHosts", i), entry_.add_alt_host(info->alt_hosts[i]));
    entry_.set_registry(info->registry);
    entry_.set_short_name(info->short_name);
    entry_.set_namespace(info->ns);
  }

  bool is_refused() const { return is_refused_; }
  NameEntryBuilder& entry() { return entry_; }
  std::vector<Finding> take_findings() { return std::move(findings_); }

 private:
  // One name cannot fill the list of findings.
  static constexpr std::size_t kMaxFindings = 20;

  static std::string element(std::string_view list, std::size_t index) {
    return std::string(list) + "[" + std::to_string(index) + "]";
  }
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

// The held names that a push leaves alone: those of tables that it does not mention.
class HeldNames::Rest {
 public:
  explicit Rest(const Push& push) : is_whole_(push.is_whole) {
    for (const PushedTable& table : push.tables) mentioned_.insert(hash_bytes(table.name));
    for (const std::string& name : push.removed) mentioned_.insert(hash_bytes(name));
  }
  bool has(const Name& name) const { return !is_whole_ && !mentioned_.contains(name.table); }

 private:
  const bool is_whole_;
  std::set<std::uint64_t> mentioned_;
};

// Goes through the names that are held and those that arrive, both sorted.
class HeldNames::Comparison {
 public:
  Comparison(HeldNames& held, const Rest& rest, NameInfoReader& reader)
      : held_(held), rest_(rest), reader_(reader) {
    change_.origin = held.origin_;
    change_.effect = held.is_first_ ? OriginChange::Effect::Replace : OriginChange::Effect::Update;
  }

  Difference run(std::vector<Arrival>&& arrivals) {
    next_.reserve(std::max(arrivals.size(), held_.names_.size()));
    auto old = held_.names_.begin();
    for (Arrival& arrival : arrivals) {
      for (; old != held_.names_.end() && old->id < arrival.name.id; ++old) pass(*old);
      const bool is_held = old != held_.names_.end() && old->id == arrival.name.id;
      compare(arrival, is_held ? &*old++ : nullptr);
    }
    for (; old != held_.names_.end(); ++old) pass(*old);
    return finish();
  }

 private:
  // Of a name that does not arrive.
  void pass(const Name& name) {
    if (rest_.has(name)) {
      next_.push_back(name);
      return;
    }
    ++changed_;
    takes_away_ = true;
    held_.faults_.erase(name.id);
  }

  void compare(Arrival& arrival, const Name* old) {
    Name& name = arrival.name;
    if (old != nullptr) {
      name.key = old->key;
      name.is_refused = old->is_refused;
    }
    if (old == nullptr || old->content != name.content) read(name, *arrival.text);
    next_.push_back(name);
  }

  void read(Name& name, const PushedName& text) {
    ++changed_;
    NameCheck check(held_.origin_, text.host);
    check.read(reader_.read(text.info));
    note_findings(name.id, check.take_findings());
    name.is_refused = check.is_refused();
    const std::uint64_t key = hash_of(check.entry().key());
    if (check.is_refused()) {
      // An earlier run may have left a good one.
      if (name.key == 0) name.key = key;
      if (held_.is_first_) change_.keep.push_back(check.entry().key());
      return;
    }
    takes_away_ |= name.key != 0 && name.key != key;  // in another namespace now
    name.key = key;
    change_.resources.push_back({check.entry().take(), 0});
  }

  void note_findings(std::uint64_t id, std::vector<Finding>&& findings) {
    held_.faults_.erase(id);
    if (!findings.empty() && held_.faults_.size() < kMaxFaultyNames)
      held_.faults_.emplace(id, std::move(findings));
  }

  Difference finish() {
    held_.names_ = std::move(next_);
    Difference difference;
    difference.changed = changed_;
    if (changed_ == 0 && !held_.is_first_) return difference;
    change_.findings = held_.findings();
    std::optional<OriginChange> retain;
    if (takes_away_) retain = retain_all();
    difference.changes.push_back(std::move(change_));
    if (retain) difference.changes.push_back(*std::move(retain));
    return difference;
  }

  // Takes away what the origin has besides the names.
  OriginChange retain_all() const {
    OriginChange change;
    change.origin = held_.origin_;
    change.effect = OriginChange::Effect::Retain;
    change.findings = change_.findings;
    for (const Name& name : held_.names_) change.retained.push_back(name.key);
    std::ranges::sort(change.retained);
    return change;
  }

  HeldNames& held_;
  const Rest& rest_;
  NameInfoReader& reader_;
  OriginChange change_;
  std::vector<Name> next_;
  std::size_t changed_ = 0;
  bool takes_away_ = false;
};

// The names of a push, by id.  Of a host that occurs twice, the last one counts, as in protobuf's
// maps.
std::vector<HeldNames::Arrival> HeldNames::arrivals_of(const Push& push) {
  std::vector<Arrival> all;
  for (const PushedTable& table : push.tables)
    for (const PushedName& name : table.names)
      all.push_back({{.id = hash_bytes(canonical_host(name.host)),
                      .content = hash_bytes(name.info),
                      .table = hash_bytes(table.name)},
                     &name});
  std::ranges::stable_sort(all, {}, [](const Arrival& one) { return one.name.id; });
  std::size_t kept = 0;
  for (const Arrival& one : all) {
    if (kept > 0 && all[kept - 1].name.id == one.name.id) --kept;
    all[kept++] = one;
  }
  all.resize(kept);
  return all;
}

void HeldNames::note_versions(const Push& push) {
  if (push.is_whole) versions_.clear();
  for (const std::string& name : push.removed) versions_.erase(name);
  for (const PushedTable& table : push.tables)
    if (!table.version.empty()) versions_[table.name] = table.version;
}

Result<HeldNames::Difference> HeldNames::take(const Push& push, NameInfoReader& reader) {
  // istiod sends no response without a table for a whole.  One that does come must not end all
  // names.
  if (push.tables.empty() && push.removed.empty()) return Difference();
  const Rest rest(push);
  auto arrivals = arrivals_of(push);
  const auto others =
      std::ranges::count_if(names_, [&](const Name& name) { return rest.has(name); });
  if (arrivals.size() + static_cast<std::size_t>(others) > kMaxNames)
    return fail("it makes more than " + std::to_string(kMaxNames) + " names");
  note_versions(push);
  auto difference = Comparison(*this, rest, reader).run(std::move(arrivals));
  is_first_ = false;
  return difference;
}

std::size_t HeldNames::refused() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(names_, [](const Name& name) { return name.is_refused; }));
}

std::vector<HeldResource> HeldNames::versions() const {
  std::vector<HeldResource> all;
  for (const auto& [name, version] : versions_) all.push_back({name, version});
  return all;
}

std::vector<Finding> HeldNames::findings() const {
  std::vector<Finding> all;
  for (const auto& [id, findings] : faults_)
    all.insert(all.end(), findings.begin(), findings.end());
  return all;
}

}  // namespace meshdns::registry::istiod
