// SPDX-License-Identifier: Apache-2.0
#include "registry/snapshot/snapshot_file.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "registry/base/durable_file.hpp"
#include "registry/snapshot/octets.hpp"

namespace meshdns::registry {
namespace {

// The number goes up with every change of this file's layout, or of what a resource's field means.
constexpr std::string_view kMagic = "meshdns-snapshot 1\n";
constexpr std::string_view kMagicOfAnyVersion = "meshdns-snapshot ";
// Resources are gathered to blocks of about this size; a larger one has a block of its own.
constexpr std::size_t kBlockSize = std::size_t{256} << 10;
constexpr std::size_t kMaxBlockSize = std::size_t{256} << 20;
constexpr std::size_t kBlockHeaderSize = 8;  // size and checksum, both least octet first

std::span<const std::uint8_t> octets_of(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

void put32(std::uint8_t* to, std::size_t value) {
  for (unsigned i = 0; i < 4; ++i) to[i] = static_cast<std::uint8_t>(value >> (8 * i));
}
std::uint32_t get32(const std::uint8_t* from) {
  std::uint32_t value = 0;
  for (unsigned i = 0; i < 4; ++i) value |= static_cast<std::uint32_t>(from[i]) << (8 * i);
  return value;
}

// --- Writing -------------------------------------------------------------------------------------

class BlockWriter {
 public:
  explicit BlockWriter(const OctetSink& sink) : sink_(sink) {}

  Result<void> write(std::string_view block) {
    checksum_ = checksum(block, checksum_);
    std::array<std::uint8_t, kBlockHeaderSize> header{};
    put32(header.data(), block.size());
    put32(header.data() + 4, checksum_);
    if (auto written = sink_(header); !written) return written;
    return block.empty() ? Result<void>() : sink_(octets_of(block));
  }

 private:
  const OctetSink& sink_;
  std::uint32_t checksum_ = 0;
};

std::uint32_t source_of(const SavedSources& sources, OriginId origin) {
  return origin < sources.source_of.size() ? sources.source_of[origin] : SavedSources::kNone;
}

// The first block.  Origins keep the order of their ids; `places` gets each one's place in it.
std::string describe_sources(const Snapshot& snapshot, const SavedSources& sources,
                             std::int64_t now, std::vector<std::uint32_t>& places) {
  std::string block;
  Encoder to(block);
  to.number(encoding_layout());
  to.number(static_cast<std::uint64_t>(now));
  to.number(sources.sources.size());
  for (const auto& source : sources.sources) {
    to.text(source.name);
    to.text(source.cluster);
    to.text(source.network);
    to.number(source.complete ? 1 : 0);
  }
  const OriginNames& names = *snapshot.origins;
  places.assign(names.size(), SavedSources::kNone);
  std::uint32_t count = 0;
  for (OriginId id = 0; id < names.size(); ++id)
    if (source_of(sources, id) != SavedSources::kNone) places[id] = count++;
  to.number(count);
  for (OriginId id = 0; id < names.size(); ++id) {
    if (places[id] == SavedSources::kNone) continue;
    to.number(sources.source_of[id]);
    to.text(names.of(id));
  }
  return block;
}

// Returns the resources to write, by their keys, so that a reader finds together what it derives
// together: a third of the time that the registry takes to read them.
std::vector<const StoredResource*> resources_of(const Snapshot& snapshot,
                                                const std::vector<std::uint32_t>& places) {
  std::vector<const StoredResource*> list;
  snapshot.resources.for_each([&](const StoredResource& resource) {
    if (resource.origin() < places.size() && places[resource.origin()] != SavedSources::kNone &&
        resource.encoded().size() <= kMaxBlockSize / 2)
      list.push_back(&resource);
  });
  std::ranges::sort(list, [](const StoredResource* a, const StoredResource* b) {
    return a->encoded() != b->encoded() ? a->encoded() < b->encoded() : a->origin() < b->origin();
  });
  return list;
}

// --- Reading -------------------------------------------------------------------------------------

using Problem = SnapshotFileError::Kind;

std::unexpected<SnapshotFileError> refuse(Problem kind, std::string message) {
  return std::unexpected(SnapshotFileError{kind, std::move(message)});
}
template <typename T>
using Read = std::expected<T, SnapshotFileError>;

class BlockReader {
 public:
  explicit BlockReader(const OctetReader& reader) : reader_(reader) {}

  Read<void> read_magic() {
    std::array<std::uint8_t, kMagic.size()> octets{};
    const auto got = reader_(octets);
    if (!got) return refuse(Problem::Unreadable, got.error().message);
    const std::string_view text(reinterpret_cast<const char*>(octets.data()), *got);
    if (text == kMagic) return {};
    if (text.starts_with(kMagicOfAnyVersion))
      return refuse(Problem::Foreign, "its format is of another version");
    return refuse(Problem::Corrupt, "it is not a snapshot file");
  }

  // Valid until the next call; empty at the end.
  Read<std::string_view> next() {
    std::array<std::uint8_t, kBlockHeaderSize> header{};
    if (auto filled = fill(header); !filled) return std::unexpected(filled.error());
    const std::size_t size = get32(header.data());
    if (size > kMaxBlockSize) return refuse(Problem::Corrupt, "a block is too large");
    // In steps, so that a false size costs no memory.
    block_.clear();
    while (block_.size() < size) {
      const std::size_t begin = block_.size();
      block_.resize(begin + std::min(size - begin, 4 * kBlockSize));
      auto* place = reinterpret_cast<std::uint8_t*>(block_.data()) + begin;
      if (auto filled = fill({place, block_.size() - begin}); !filled)
        return std::unexpected(filled.error());
    }
    checksum_ = checksum(block_, checksum_);
    if (checksum_ != get32(header.data() + 4))
      return refuse(Problem::Corrupt, "a checksum is wrong");
    return block_;
  }

  Read<void> expect_end() {
    std::array<std::uint8_t, 1> octet{};
    const auto got = reader_(octet);
    if (!got) return refuse(Problem::Unreadable, got.error().message);
    if (*got != 0) return refuse(Problem::Corrupt, "it has data after its end");
    return {};
  }

 private:
  Read<void> fill(std::span<std::uint8_t> octets) {
    const auto got = reader_(octets);
    if (!got) return refuse(Problem::Unreadable, got.error().message);
    if (*got != octets.size()) return refuse(Problem::Corrupt, "it is cut short");
    return {};
  }

  const OctetReader& reader_;
  std::uint32_t checksum_ = 0;
  std::string block_;
};

// The registry's ids of the file's origins, by their place in the file; nullopt = not wanted.
using OriginIds = std::vector<std::optional<OriginId>>;

Read<void> read_sources(std::string_view block, const SnapshotFileWishes& wishes,
                        SavedSnapshot& saved, OriginIds& ids) {
  Decoder from(block);
  if (from.number() != encoding_layout())
    return refuse(Problem::Foreign, "its resources are of another version");
  saved.written_at = static_cast<std::int64_t>(from.number());
  saved.sources.resize(from.length());
  for (auto& source : saved.sources) {
    source.name = from.text();
    source.cluster = from.text();
    source.network = from.text();
    source.complete = from.number() != 0;
    saved.wanted.push_back(!from.bad() && wishes.wants(source));
  }
  const std::uint64_t origins = from.length();
  for (std::uint64_t i = 0; i < origins; ++i) {
    const std::uint64_t source = from.number();
    const std::string_view name = from.text();
    if (from.bad() || source >= saved.sources.size() || name.empty())
      return refuse(Problem::Corrupt, "an origin has no source");
    if (!saved.wanted[source]) {
      ids.emplace_back();
      continue;
    }
    ids.emplace_back(wishes.origin(name));
    saved.origins.push_back({std::string(name), static_cast<std::uint32_t>(source)});
  }
  if (from.bad() || !from.at_end())
    return refuse(Problem::Corrupt, "its list of sources is invalid");
  return {};
}

Read<void> read_resources(std::string_view block, const OriginIds& ids, SavedSnapshot& saved) {
  Decoder from(block);
  while (!from.at_end()) {
    const std::uint64_t place = from.number();
    const auto line = static_cast<std::uint32_t>(from.number());
    const std::string_view encoded = from.text();
    if (from.bad() || place >= ids.size())
      return refuse(Problem::Corrupt, "a resource has no origin");
    if (!ids[place]) continue;
    auto resource = StoredResource::from_encoded(encoded, *ids[place], line);
    if (!resource) return refuse(Problem::Corrupt, "it has an invalid resource");
    saved.resources.push_back(std::move(*resource));
  }
  return {};
}

}  // namespace

Result<void> write_snapshot_file(const Snapshot& snapshot, const SavedSources& sources,
                                 std::int64_t now, const OctetSink& sink) {
  if (auto written = sink(octets_of(kMagic)); !written) return written;
  BlockWriter blocks(sink);
  std::vector<std::uint32_t> places;
  if (auto written = blocks.write(describe_sources(snapshot, sources, now, places)); !written)
    return written;
  std::string block;
  Encoder to(block);
  for (const StoredResource* resource : resources_of(snapshot, places)) {
    to.number(places[resource->origin()]);
    to.number(resource->line());
    to.text(resource->encoded());
    if (block.size() < kBlockSize) continue;
    if (auto written = blocks.write(block); !written) return written;
    block.clear();
  }
  if (!block.empty())
    if (auto written = blocks.write(block); !written) return written;
  return blocks.write({});
}

std::expected<SavedSnapshot, SnapshotFileError> read_snapshot_file(
    const OctetReader& reader, const SnapshotFileWishes& wishes) {
  BlockReader blocks(reader);
  if (auto magic = blocks.read_magic(); !magic) return std::unexpected(magic.error());
  SavedSnapshot saved;
  OriginIds ids;
  for (bool is_first = true;; is_first = false) {
    const auto block = blocks.next();
    if (!block) return std::unexpected(block.error());
    if (block->empty()) {
      if (is_first) return refuse(Problem::Corrupt, "it has no sources");
      break;
    }
    auto read =
        is_first ? read_sources(*block, wishes, saved, ids) : read_resources(*block, ids, saved);
    if (!read) return std::unexpected(read.error());
  }
  if (auto end = blocks.expect_end(); !end) return std::unexpected(end.error());
  return saved;
}

}  // namespace meshdns::registry
