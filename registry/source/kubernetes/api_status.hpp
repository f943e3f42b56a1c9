// SPDX-License-Identifier: Apache-2.0
// The messages of the API beside objects: meta/v1 Status and ListMeta.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "registry/manifest/document.hpp"

namespace meshdns::registry::kubernetes {

struct ApiStatus {
  std::int64_t code = 0;  // as of HTTP
  std::string reason;     // "Expired", "Forbidden"
  std::string message;
  std::optional<std::chrono::seconds> retry_after;

  // The version that was asked for is no longer there (or the continue token): list anew.
  bool is_gone() const { return code == 410 || reason == "Expired" || reason == "Gone"; }
};

// Of a Status object; empty parts where it does not say.
ApiStatus read_status(const Node& object);

struct ListMeta {
  std::string kind;
  std::string resource_version;
  std::string continue_token;
};
ListMeta read_list_meta(const Node& list);

// metadata.resourceVersion
std::string_view resource_version_of(const Node& object);
// metadata.annotations[name]; empty when absent
std::string_view annotation_of(const Node& object, std::string_view name);

// Versions are numbers that grow (KEP-5504); nullopt for one that is not.
std::optional<std::uint64_t> version_number(std::string_view resource_version);

}  // namespace meshdns::registry::kubernetes
