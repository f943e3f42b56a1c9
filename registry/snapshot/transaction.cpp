// SPDX-License-Identifier: Apache-2.0
#include "registry/snapshot/transaction.hpp"

#include <algorithm>
#include <utility>

namespace meshdns::registry {

void EncodedResources::push_back(const Resource& resource, std::uint32_t line) {
  encode_resource(resource, octets_);
  items_.push_back({octets_.size(), line});
}

OriginChange& Transaction::change_of(std::string_view origin) {
  if (changes.empty() || changes.back().origin != origin) {
    OriginChange& change = changes.emplace_back();
    change.origin = origin;
    change.effect = OriginChange::Effect::Update;
  }
  return changes.back();
}

void Transaction::replace_origin(std::string_view origin) {
  change_of(origin).effect = OriginChange::Effect::Replace;
}

void Transaction::upsert(const Resource& resource, std::string_view origin, std::uint32_t line) {
  change_of(origin).resources.push_back(resource, line);
}

void Transaction::remove(const ResourceKey& key, std::string_view origin) {
  change_of(origin).removed.push_back(hash_of(key));
}

void Transaction::remove_origin(std::string_view origin) {
  OriginChange& change = changes.emplace_back();
  change.origin = origin;
  change.effect = OriginChange::Effect::Remove;
}

void Transaction::set_resolved(std::string_view ns, ResolvedName name) {
  resolved.emplace_back(ns, std::move(name));
}

bool Transaction::empty() const {
  using Effect = OriginChange::Effect;
  return restored.empty() && resolved.empty() &&
         std::ranges::all_of(changes, [](const OriginChange& change) {
           return change.effect == Effect::Keep ||
                  (change.effect == Effect::Update && change.resources.empty() &&
                   change.removed.empty());
         });
}

}  // namespace meshdns::registry
