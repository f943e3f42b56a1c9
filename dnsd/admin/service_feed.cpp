// SPDX-License-Identifier: Apache-2.0
#include "dnsd/admin/service_feed.hpp"

#include <algorithm>
#include <utility>

namespace meshdns::dnsd {
namespace {

using registry::HostEntry;
using registry::ServiceId;
using registry::ServiceRecord;

template <typename Fill>
std::string json_text(Fill fill) {
  rapidjson::StringBuffer buffer;
  Json json(buffer);
  fill(json);
  return {buffer.GetString(), buffer.GetSize()};
}

template <typename PutObject>
void add_line(std::string& text, std::string_view type, PutObject put_object) {
  text += json_text([&](Json& json) {
    json.StartObject();
    put(json, "type", type);
    json.Key("object");
    put_object(json);
    json.EndObject();
  });
  text += '\n';
}

template <typename Visit>
void visit_services(const HostEntry& entry, const ServiceFilter& filter, Visit visit) {
  for (const ServiceRecord* record : entry.records())
    if (filter.has(entry.host(), record->ns->text()))
      for (const ServiceRecord* service : services_of(*record)) visit(*service);
}

const HostEntry* find_entry(const registry::Snapshot& snapshot, std::string_view host) {
  return host.starts_with("*.") ? snapshot.find_wildcard(host.substr(2)) : snapshot.find_host(host);
}

}  // namespace

ServiceList::ServiceList(const registry::Registry& registry, const ServicePage& page,
                         ServiceFilter filter)
    : registry_(registry),
      page_(page),
      filter_(std::move(filter)),
      walk_(registry.current(), filter_.host) {}

void ServiceList::step(std::string& text) {
  if (walk_.is_done()) {
    text += separator_ == '[' ? "[]\n" : "]\n";
    is_done_ = true;
    return;
  }
  const HostEntry* entry = walk_.step();
  if (entry == nullptr) return;
  visit_services(*entry, filter_, [&](const ServiceRecord& service) {
    const std::string object =
        json_text([&](Json& json) { page_.put(json, registry_, entry->host(), service); });
    if (object.empty()) return;
    text += std::exchange(separator_, ',');
    text += object;
  });
}

ServiceWatch::ServiceWatch(const registry::Registry& registry, const ServicePage& page,
                           ServiceFilter filter)
    : registry_(registry),
      page_(page),
      filter_(std::move(filter)),
      walk_(registry.current(), filter_.host) {}

void ServiceWatch::step(std::string& text) {
  if (!is_listed_) return list_host(text);
  const std::shared_ptr<const PendingChange> change = std::move(pending_.front());
  pending_.pop_front();
  pending_keys_.erase(change->ns + "/" + change->host);
  add_changes(*change, text);
}

void ServiceWatch::list_host(std::string& text) {
  if (walk_.is_done()) {
    is_listed_ = true;
    return add_bookmark(text);
  }
  const HostEntry* entry = walk_.step();
  if (entry == nullptr) return;
  visit_services(*entry, filter_, [&](const ServiceRecord& service) {
    add_line(text, "ADDED",
             [&](Json& json) { page_.put(json, registry_, entry->host(), service); });
  });
}

void ServiceWatch::add_changes(const PendingChange& change, std::string& text) const {
  std::vector<std::pair<ServiceId, const ServiceRecord*>> present;
  if (const HostEntry* entry = find_entry(*registry_.current(), change.host))
    visit_services(*entry, {change.host, change.ns}, [&](const ServiceRecord& service) {
      present.emplace_back(id_of(change.host, service), &service);
    });
  for (const ServiceId& id : change.known)
    if (std::ranges::find(present, id, &decltype(present)::value_type::first) == present.end())
      add_line(text, "DELETED", [&](Json& json) { page_.put_id(json, id); });
  for (const auto& [id, service] : present) {
    const bool is_known = std::ranges::find(change.known, id) != change.known.end();
    add_line(text, is_known ? "MODIFIED" : "ADDED",
             [&](Json& json) { page_.put(json, registry_, change.host, *service); });
  }
}

bool ServiceWatch::note(const std::shared_ptr<const PendingChange>& change) {
  if (!filter_.has(change->host, change->ns)) return true;
  if (!pending_keys_.insert(change->ns + "/" + change->host).second) return true;
  pending_.push_back(change);
  return pending_.size() <= kMaxPending;
}

void ServiceWatch::add_bookmark(std::string& text) const {
  add_line(text, "BOOKMARK", [&](Json& json) {
    json.StartObject();
    put(json, "generation", registry_.current()->generation);
    json.EndObject();
  });
}

std::string watch_error(std::string_view reason, std::string_view message) {
  std::string text;
  add_line(text, "ERROR", [&](Json& json) {
    json.StartObject();
    put(json, "reason", reason);
    put(json, "message", message);
    json.EndObject();
  });
  return text;
}

}  // namespace meshdns::dnsd
