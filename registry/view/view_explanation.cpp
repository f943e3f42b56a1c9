// SPDX-License-Identifier: Apache-2.0
#include "registry/view/view_explanation.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "registry/base/counted.hpp"
#include "registry/model/mesh_settings.hpp"
#include "registry/view/near_order.hpp"

namespace meshdns::registry {
namespace {

constexpr std::size_t kNamespacesShown = 8;

std::string_view why_chosen(const ServiceRecord& record, const Client& client) {
  if (record.provider == Provider::Gateway)
    return record.ns == client.ns ? "chosen: a gateway's name, of the client's own namespace"
                                  : "chosen: a gateway's name, oldest";
  if (record.ns == client.ns) return "chosen: the client's own namespace";
  if (record.provider == Provider::NameTable) return "chosen: a name of istiod";
  if (record.provider != Provider::ServiceEntry) return "chosen: a Kubernetes Service";
  return record.is_public() ? "chosen: public, oldest"
                            : "chosen: exported to the client's namespace, oldest";
}

// An object is read for an explanation up to this size: a query may cost only so much.
constexpr std::size_t kMaxOctetsRead = 1'024;

constexpr std::size_t kMaxLost = 4;
// Entries that are read for the lost addresses of one service.
constexpr std::size_t kMaxEntriesRead = 64;

// Calls `visit(entry, source)` for each ServiceEntry of the service that is small enough to be
// read, until none is left to be read.
template <typename Visit>
void for_each_entry(const ServiceRecord& service, std::size_t& left, const Visit& visit) {
  service.for_each_source([&](const StoredRef& source) {
    if (source->kind() != Kind::ServiceEntry || source->encoded().size() > kMaxOctetsRead) return;
    if (left == 0) return;
    --left;
    const Resource resource = source->decode();
    visit(std::get<ServiceEntry>(resource), source);
  });
}

// Calls `visit(address)` for each that the entry has for the host by its status.
template <typename Visit>
void for_each_status_address(const ServiceEntry& entry, std::string_view host, const Visit& visit) {
  for (const StatusAddress& status : entry.status_addresses)
    if (status.host.empty() || status.host == host) visit(status.value);
}

// Whether a ServiceEntry or Service says nothing about its exports.  Nullopt: it is too large to
// read.
std::optional<bool> lacks_export_to(const StoredResource& source) {
  if (source.kind() != Kind::ServiceEntry && source.kind() != Kind::Service) return false;
  if (source.encoded().size() > kMaxOctetsRead) return std::nullopt;
  const Resource resource = source.decode();
  if (const auto* const entry = std::get_if<ServiceEntry>(&resource))
    return entry->export_to.empty();
  return std::get<KubeService>(resource).export_to.empty();
}

// The setting of the mesh that hides an object, because the object does not say it itself.
std::string hiding_setting(const StoredResource& source, const MeshSettings& settings) {
  std::string text;
  const auto note = [&](std::string_view setting, SettingOrigin origin,
                        std::string_view condition) {
    text += "; " + std::string(setting) + " (" + describe_origin(settings, origin) + ") applies" +
            std::string(condition);
  };
  const auto& exported = settings.default_export_to;
  if (std::ranges::find(exported, "*") == exported.end()) {
    const auto says_nothing = lacks_export_to(source);
    if (!says_nothing)
      note("default_export_to", settings.origins.default_export_to, " if it has no exportTo");
    else if (*says_nothing)
      note("it has no exportTo: default_export_to", settings.origins.default_export_to, "");
  }
  if (source.kind() == Kind::ServiceEntry &&
      settings.service_entry_visibility != ServiceEntryVisibility())
    note("service_entry_visibility", settings.origins.service_entry_visibility, "");
  return text;
}

// Why the Sidecar of another namespace counts for the client.
std::string root_setting(const Client& client, const MeshSettings& settings) {
  if (!client.scope || !client.ns || !client.scope->source()) return {};
  const std::string_view ns = client.scope->source()->ns();
  if (ns == client.ns->text() || ns != settings.root_namespace) return {};
  return "; " + settings.root_namespace + " is the root namespace (" +
         describe_origin(settings, settings.origins.root_namespace) + ")";
}

// Calls `visit(record)` for the record, or for each of its parts.  Of those that differ by cluster
// the one that unites all stands for the others.
template <typename Visit>
void for_each_part(const ServiceRecord& record, const Visit& visit) {
  const ServiceParts* const parts = record.parts();
  if (parts == nullptr) return visit(record);
  const auto all = parts->all();
  for (std::size_t i = 0; i < all.size(); i += i == 0 ? parts->clusters().size() + 1 : 1)
    if (!all[i]->placeholder) visit(*all[i]);
}

// The least of the addresses, as text.  They do not depend on the order of the endpoints, and the
// others, of which there may be thousands, do not become text.
template <typename Octets>
void add_least(std::span<const Octets> addresses, std::size_t max, IpAddress (*address_of)(Octets),
               std::vector<std::string>& words) {
  std::vector<Octets> least(std::min(addresses.size(), max));
  std::ranges::partial_sort_copy(addresses, least);
  for (const Octets& octets : least) words.push_back(address_of(octets).to_string());
}

std::string address_text(std::span<const std::array<std::uint8_t, 4>> v4,
                         std::span<const std::array<std::uint8_t, 16>> v6, std::size_t max) {
  std::vector<std::string> words;
  add_least(v4, max, &IpAddress::v4, words);
  add_least(v6, max - words.size(), &IpAddress::v6, words);
  std::ranges::sort(words);
  return list_of(words, v4.size() + v6.size(), "address");
}

template <typename Octets>
std::vector<Octets> nearest_of(std::span<const Octets> addresses, const AddressPlaces& places,
                               std::span<const std::uint16_t> of_address, const Place& client) {
  std::vector<Octets> nearest;
  if (addresses.empty()) return nearest;
  const NearOrder order(places, of_address, client);
  for (std::size_t i = 0; i < addresses.size(); ++i)
    if (order.nearness_of(i) == order.nearest()) nearest.push_back(addresses[i]);
  return nearest;
}

std::string address_text(const View& view, const ServiceRecord& service, std::size_t max) {
  const AddressView all = view.addresses(service);
  if (all.places == nullptr || view.settings().locality != LocalityChoice::Only)
    return address_text(all.v4, all.v6, max);
  const Place& client = view.client().place;
  return address_text(nearest_of(all.v4, *all.places, all.places->v4, client),
                      nearest_of(all.v6, *all.places, all.places->v6, client), max);
}

// The answer of a service whose endpoints are names.
std::string name_text(const ServiceRecord& service, std::size_t max) {
  if (!service.details) return "addresses of its endpoints' names";
  auto names = service.details->resolved_names;
  std::ranges::sort(names);
  const auto first = std::span(names).first(std::min(names.size(), max));
  return "addresses of " + list_of(first, names.size(), "name");
}

}  // namespace

std::string describe_source(const StoredRef& source, const Snapshot& snapshot) {
  if (!source) return "(unknown source)";
  std::string text = source->label();
  if (const std::string_view origin = snapshot.origins->of(source->origin()); !origin.empty()) {
    text += " (" + std::string(origin);
    if (source->line() != 0) text += ":" + std::to_string(source->line());
    text += ")";
  }
  return text;
}

std::string exported_namespaces(const ServiceRecord& service) {
  if (service.exports->namespaces.empty()) return "nobody";
  std::vector<std::string_view> names;
  for (const auto& ns : service.exports->namespaces) names.push_back(ns->text());
  std::ranges::sort(names);
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kNamespacesShown); ++i)
    text += (i == 0 ? "" : ", ") + std::string(names[i]);
  return names.size() > kNamespacesShown ? text + ", ..." : text;
}

void View::explain_hidden(const HostEntry& entry, const ServiceRecord& record, Trace& trace) const {
  explain_clusters(record, trace);
  for_each_part(record, [&](const ServiceRecord& part) {
    std::string reason;
    if (trace.is_full() || sees(entry.host(), part, &reason)) return;
    part.for_each_source([&](const StoredRef& source) {
      const bool names_service = source == part.source || source->kind() == Kind::ServiceEntry;
      if (!names_service || trace.is_full()) return;
      const bool is_exported = part.is_exported_to(client_.ns.get());
      trace.steps.push_back({describe_source(source, snapshot_),
                             "hidden: " + reason +
                                 (is_exported ? root_setting(client_, settings())
                                              : hiding_setting(*source, settings())),
                             true});
    });
  });
}

void View::explain_shadowed(const HostEntry& entry, const ServiceRecord& record,
                            const ServiceRecord& chosen, const std::string& verdict,
                            Trace& trace) const {
  for_each_part(record, [&](const ServiceRecord& part) {
    const bool is_chosen = part.ns == chosen.ns && part.provider == chosen.provider;
    if (trace.is_full() || is_chosen || !sees(entry.host(), part)) return;
    trace.steps.push_back({describe_source(part.source, snapshot_), verdict, false});
  });
}

void View::explain_choice(const HostEntry& entry, const ServiceRecord* chosen, Trace& trace) const {
  const auto records = entry.records();
  const auto first = records.first(std::min(records.size(), Trace::kMaxSteps));
  for (const ServiceRecord* record : first) {
    if (trace.is_full()) break;
    if (!record->placeholder) {
      explain_hidden(entry, *record, trace);
    } else if (record->details && !record->details->notes.empty()) {
      trace.steps.push_back({describe_source(record->source, snapshot_),
                             record->details->notes.back(), !record->is_public()});
    }
  }
  trace.left_out += records.size() - first.size();
  if (chosen == nullptr) return;
  // The record of which the chosen service is a part.
  const auto whole = std::ranges::find_if(records, [&](const ServiceRecord* record) {
    return !record->placeholder && record->ns == chosen->ns;
  });
  const bool is_service = chosen->provider == Provider::Kubernetes && whole != records.end();
  const StoredRef* const own = is_service ? answering_service(**whole) : nullptr;
  std::string chosen_object = describe_source(own == nullptr ? chosen->source : *own, snapshot_);
  const std::string verdict = "shadowed by " + chosen_object;
  for (const ServiceRecord* record : first)
    if (!record->placeholder) explain_shadowed(entry, *record, *chosen, verdict, trace);
  trace.steps.push_back(
      {std::move(chosen_object),
       std::string(why_chosen(*chosen, client_)) + (is_service ? why_of_cluster(**whole) : ""),
       false});
}

std::vector<LostAddress> lost_addresses(const View& view, const Match& match) {
  std::vector<LostAddress> all;
  std::size_t left = kMaxEntriesRead;
  const ServiceRecord& service = *match.service;
  const auto note_holders = [&](const IpAddress& address, std::int64_t created) {
    const auto claims = view.claims_of(address);
    const bool is_own = std::ranges::any_of(claims, [&](const View::Claimed& claim) {
      return claim.host == match.entry && claim.service->ns == service.ns;
    });
    if (is_own) return;
    for (const View::Claimed& claim : claims)
      for_each_entry(*claim.service, left, [&](const ServiceEntry& entry, const StoredRef& holder) {
        for_each_status_address(entry, claim.host->host(), [&](const IpAddress& other) {
          const bool is_noted =
              !all.empty() && all.back().address == address && all.back().holder == holder;
          const bool is_holder = other == address && entry.meta.creation_time <= created;
          if (is_holder && !is_noted && all.size() < kMaxLost)
            all.push_back({address, holder, created, entry.meta.creation_time, claim.is_seen});
        });
      });
  };
  for_each_entry(service, left, [&](const ServiceEntry& entry, const StoredRef&) {
    for_each_status_address(entry, match.entry->host(), [&](const IpAddress& address) {
      if (all.size() < kMaxLost) note_holders(address, entry.meta.creation_time);
    });
  });
  return all;
}

std::string list_of(std::span<const std::string> words, std::size_t count, std::string_view what) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  if (count > words.size())
    text += " and " + counted(count - words.size(), "more " + std::string(what));
  return text;
}

std::string answer_text(const View& view, const ServiceRecord* service, std::size_t max) {
  if (service == nullptr) return "not a name of the mesh";
  switch (service->answer) {
    case AnswerKind::Vips:
    case AnswerKind::Endpoints:
      return address_text(view, *service, max);
    case AnswerKind::Alias:
      return "CNAME " + std::string(service->alias());
    case AnswerKind::NoAddress:
      return "no address";
    case AnswerKind::NoReadyEndpoints:
      return "no ready endpoints";
    case AnswerKind::Forward:
      return "forwarded";
    case AnswerKind::Pending:
    case AnswerKind::Unresolvable:
      return name_text(*service, max);
  }
  return {};
}

}  // namespace meshdns::registry
