// SPDX-License-Identifier: Apache-2.0
// From one object, as a tree, to a resource.  For manifests and for objects of the Kubernetes API.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "registry/base/finding.hpp"
#include "registry/manifest/document.hpp"
#include "registry/manifest/fields.hpp"
#include "registry/manifest/manifest.hpp"
#include "registry/model/resources.hpp"

namespace meshdns::registry {

struct TypeMeta {
  std::string_view api_version;  // "networking.istio.io/v1", "v1"
  std::string_view kind;
};

struct Decoded {
  enum class Outcome : std::uint8_t {
    Accepted,  // `resource` is set
    Refused,   // of a known kind, but invalid: `key` has the readable parts
    Ignored,   // of no bearing, or of a kind that is not known (there was a warning where its
               // group is one of those that are read)
    Faulty,    // no object at all: no kind, no apiVersion, no mapping
  };
  Outcome outcome = Outcome::Ignored;
  std::optional<Resource> resource;
  ResourceKey key;
};

// Reads `object`, whose kind is in itself.  Findings go to `listener` during the call.  `problems`
// are the faults of the document that holds the object (duplicate keys): any refuses it, where its
// kind is one that is read.
Decoded decode_object(const Node& object, std::span<const DocumentProblem> problems,
                      const ManifestOptions& options, const FindingListener& listener);

// The same for an object whose type is known from outside, as the items of an API list.
Decoded decode_object(const Node& object, const TypeMeta& type,
                      std::span<const DocumentProblem> problems, const ManifestOptions& options,
                      const FindingListener& listener);

// The type that the object itself names; empty parts where it does not.
TypeMeta type_of(const Node& object);

}  // namespace meshdns::registry
