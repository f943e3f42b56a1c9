// SPDX-License-Identifier: Apache-2.0
// A resource as the registry keeps it: one flat run of octets.  100,000 resources as C++ objects
// with strings and vectors would take five times the room; equality is memcmp, so that an unchanged
// object of a relist or of a re-read file costs nothing further; and the same octets make up the
// snapshot on disk.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "registry/base/ref.hpp"
#include "registry/base/result.hpp"
#include "registry/model/resources.hpp"

namespace meshdns::registry {

// The origin of a resource: a file, or a collection of a cluster.  0 is none.
using OriginId = std::uint32_t;

// Appends the octets of one resource; any thread.
void encode_resource(const Resource& resource, std::string& out);

// Immutable but for the line; any thread.
class StoredResource final : public RefCounted {
 public:
  static Ref<const StoredResource> encode(const Resource& resource, OriginId origin,
                                          std::uint32_t line);
  // From octets of encode_resource() of this very process.
  static Ref<const StoredResource> of_encoded(std::string_view encoded, OriginId origin,
                                              std::uint32_t line);
  // From octets of encoded() of this program version, which are checked in every respect.
  static Result<Ref<const StoredResource>> from_encoded(std::string_view encoded, OriginId origin,
                                                        std::uint32_t line);
  static void destroy(const StoredResource* resource);

  Resource decode() const;
  std::string_view encoded() const { return {reinterpret_cast<const char*>(this + 1), size_}; }

  // Read without decoding the rest.
  Kind kind() const { return static_cast<Kind>(encoded()[0]); }
  std::string_view name() const;
  std::string_view ns() const;
  std::string_view cluster() const;
  bool has_key(const ResourceKey& key) const;
  bool has_key_of(const StoredResource& other) const;
  ResourceKey key() const;
  std::uint64_t key_hash() const;
  std::string label() const;  // "ServiceEntry shop/api"

  OriginId origin() const { return origin_; }
  // 1-based line of the object's text; moves when the text above it grows.
  std::uint32_t line() const { return line_.load(std::memory_order_relaxed); }
  void set_line(std::uint32_t line) const { line_.store(line, std::memory_order_relaxed); }
  // The index in the list of its origin in the Registry.  Control thread.
  std::uint32_t slot() const { return slot_; }
  void set_slot(std::uint32_t slot) const { slot_ = slot; }

 private:
  StoredResource(OriginId origin, std::uint32_t line, std::uint32_t size)
      : origin_(origin), line_(line), size_(size) {}
  std::string_view key_part(int index) const;

  const OriginId origin_;
  mutable std::atomic<std::uint32_t> line_;
  const std::uint32_t size_;
  mutable std::uint32_t slot_ = 0;
};
using StoredRef = Ref<const StoredResource>;

std::uint64_t hash_of(const ResourceKey& key);

// Tells encodings apart: another program version that has added, removed or moved a field of any
// kind has another number.  Fields that change their meaning alone do not show.
std::uint32_t encoding_layout();

}  // namespace meshdns::registry
