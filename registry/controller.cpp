// SPDX-License-Identifier: Apache-2.0
#include "registry/controller.hpp"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "registry/base/enum_text.hpp"
#include "registry/tables/host_table.hpp"

namespace meshdns::registry {
namespace {

// The parts of a service come from its sources; equal sources make equal parts.
bool same_parts(const ServiceRecord& a, const ServiceRecord& b) {
  return a.split == b.split && (!a.split || same_sources(a, b));
}

// Returns whether identity, VIPs and ports are the same; other addresses of its endpoints are no
// change of a service.
bool same_service(const ServiceRecord& a, const ServiceRecord& b) {
  return a.answer == b.answer && a.provider == b.provider && a.alias() == b.alias() &&
         same_ports(a, b) && same_parts(a, b) &&
         (b.answer != AnswerKind::Vips || same_addresses(a, b)) && a.source == b.source;
}

// By names, since another registry's symbols are others.
Ref<const ServiceRecord> record_of(const HostTable& hosts, std::string_view host,
                                   std::string_view ns) {
  if (const HostEntry* entry = hosts.find(host))
    for (const ServiceRecord* record : entry->records())
      if (record->ns->text() == ns) return Ref<const ServiceRecord>(record);
  return nullptr;
}

std::set<const HostEntry*> hosts_with(std::span<const IpAddress> addresses,
                                      const Snapshot& snapshot) {
  std::set<const HostEntry*> hosts;
  for (const auto& address : addresses) {
    const std::uint64_t hash = hash_of(address);
    const ReverseEntry* entry = snapshot.reverse.find(
        hash, [&](const ReverseEntry& e) { return e.address_hash() == hash; });
    if (entry == nullptr) continue;
    for (const AddressUse& use : entry->uses(AddressUse::Kind::Service))
      snapshot.hosts.for_each_candidate(use.host_hash(),
                                        [&](const HostEntry& host) { hosts.insert(&host); });
  }
  return hosts;
}

}  // namespace

bool same_sources(const ServiceRecord& a, const ServiceRecord& b) {
  return a.source == b.source && std::ranges::equal(a.more_sources(), b.more_sources());
}

bool same_ports(const ServiceRecord& a, const ServiceRecord& b) {
  static const std::vector<ServicePort> kNone;
  return a.ports == b.ports ||
         (a.ports ? a.ports->ports : kNone) == (b.ports ? b.ports->ports : kNone);
}

bool same_addresses(const ServiceRecord& a, const ServiceRecord& b) {
  const AddressView x = a.addresses(nullptr, nullptr);
  const AddressView y = b.addresses(nullptr, nullptr);
  return std::ranges::equal(x.v4, y.v4) && std::ranges::equal(x.v6, y.v6);
}

std::string_view to_string(Event event) {
  return enum_text<Event::Delete>(event, {"add", "update", "delete"});
}

std::optional<Event> event_of(const RecordChange& change) {
  const ServiceRecord* const before = change.service_before();
  const ServiceRecord* const after = change.service_after();
  if (before == nullptr && after == nullptr) return std::nullopt;
  if (before == nullptr) return Event::Add;
  if (after == nullptr) return Event::Delete;
  if (same_service(*before, *after)) return std::nullopt;
  return Event::Update;
}

std::shared_ptr<const Controller::Handler> Controller::attach(Handler handler) {
  std::erase_if(handlers_, [](const auto& former) { return former.expired(); });
  auto attached = std::make_shared<const Handler>(std::move(handler));
  handlers_.push_back(attached);
  return attached;
}

void Controller::append_service_handler(ServiceHandler handler) {
  appended_.push_back(
      attach([handler = std::move(handler)](const Changes& changes, const Snapshot& snapshot) {
        for (const RecordChange& change : changes.records)
          if (const auto event = event_of(change)) handler(*event, change, snapshot);
      }));
}

bool Controller::has_handlers() const {
  return std::ranges::any_of(handlers_, [](const auto& handler) { return !handler.expired(); });
}

void Controller::notify(const Changes& changes, const Snapshot& snapshot) {
  // A handler may attach others.
  for (std::size_t i = 0; i < handlers_.size(); ++i)
    if (const auto handler = handlers_[i].lock()) (*handler)(changes, snapshot);
}

void add_changes_of_pods(std::span<const IpAddress> addresses, const Snapshot& snapshot,
                         std::vector<RecordChange>& changes) {
  if (addresses.empty()) return;
  std::set<std::pair<std::string_view, std::string_view>> known;
  for (const auto& change : changes) known.insert({change.host, change.ns()});
  std::vector<RecordChange> added;
  for (const HostEntry* entry : hosts_with(addresses, snapshot))
    for (const ServiceRecord* record : entry->records()) {
      if (known.contains({entry->host(), record->ns->text()})) continue;
      const Ref<const ServiceRecord> same(record);
      added.push_back({std::string(entry->host()), same, same});
    }
  std::ranges::move(added, std::back_inserter(changes));
}

void compare_with_former(const HostTable& former, const HostTable& now,
                         std::vector<RecordChange>& changes) {
  for (auto& change : changes) change.before = record_of(former, change.host, change.ns());
  former.for_each([&](const HostEntry& entry) {
    for (const ServiceRecord* record : entry.records())
      if (!record_of(now, entry.host(), record->ns->text()))
        changes.push_back({std::string(entry.host()), Ref<const ServiceRecord>(record), nullptr});
  });
}

}  // namespace meshdns::registry
