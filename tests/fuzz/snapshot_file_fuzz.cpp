// SPDX-License-Identifier: Apache-2.0
// Any octets as a state snapshot: no crash, and what is accepted can be served and written again.
//
// Checksums and the layout's number would keep a fuzzer out, so the first octet chooses: 'f' makes
// the rest a file as it is; anything else makes it the blocks of a file whose frame is right.  Each
// block then begins with its size in two octets.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "registry/base/durable_file.hpp"
#include "registry/registry.hpp"
#include "registry/snapshot/octets.hpp"
#include "registry/snapshot/snapshot_file.hpp"
#include "registry/view/view.hpp"
#include "tests/fuzz/require.hpp"

namespace {

using namespace meshdns;
using namespace meshdns::registry;
using meshdns::fuzz::require;

class File {
 public:
  void add_block(std::string_view block) {
    checksum_ = checksum(block, checksum_);
    put(static_cast<std::uint32_t>(block.size()));
    put(checksum_);
    text_ += block;
  }
  std::string take() { return std::move(text_); }

 private:
  void put(std::uint32_t value) {
    for (unsigned i = 0; i < 4; ++i) text_ += static_cast<char>(value >> (8 * i));
  }
  std::string text_ = "meshdns-snapshot 1\n";
  std::uint32_t checksum_ = 0;
};

std::string in_a_right_frame(std::string_view input) {
  File file;
  for (bool is_first = true; input.size() > 2; is_first = false) {
    const std::size_t wanted =
        static_cast<unsigned char>(input[0]) << 8U | static_cast<unsigned char>(input[1]);
    const std::string_view block = input.substr(2, std::min(wanted, input.size() - 2));
    input.remove_prefix(2 + block.size());
    if (block.empty()) continue;
    std::string text;
    if (is_first) Encoder(text).number(encoding_layout());
    file.add_block(text.append(block));
  }
  file.add_block({});
  return file.take();
}

auto read(std::string_view file, Registry& registry) {
  return read_snapshot_file(
      [&](std::span<std::uint8_t> to) -> Result<std::size_t> {
        const std::size_t n = std::min(to.size(), file.size());
        std::copy_n(file.begin(), n, to.begin());
        file.remove_prefix(n);
        return n;
      },
      {.wants = [](const SavedSource&) { return true; },
       .origin = [&](std::string_view name) { return registry.origin(name); }});
}

std::string write(const Snapshot& snapshot) {
  std::string file;
  SavedSources sources;
  sources.sources = {{"fuzz", "", "", true}};
  sources.source_of.assign(snapshot.origins->size(), SavedSources::kNone);
  for (OriginId id = 0; id < sources.source_of.size(); ++id)
    if (!snapshot.origins->of(id).empty()) sources.source_of[id] = 0;
  const auto written =
      write_snapshot_file(snapshot, sources, 1, [&](std::span<const std::uint8_t> piece) {
        file.append(reinterpret_cast<const char*>(piece.data()), piece.size());
        return Result<void>();
      });
  require(written.has_value());
  return file;
}

void ask_for_everything(const Snapshot& snapshot) {
  const View view(snapshot, *snapshot.default_client);
  const auto ask = [&](const HostEntry& entry) {
    if (const Match match = view.lookup(entry.host())) (void)view.addresses(*match.service);
  };
  snapshot.hosts.for_each(ask);
  snapshot.wildcards.for_each(ask);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::string file = data[0] == 'f' ? std::string(input) : in_a_right_frame(input);

  Registry registry{MeshSettings{}};
  auto saved = read(file, registry);
  if (!saved) {
    require(!saved.error().message.empty());
    return 0;
  }
  Transaction transaction;
  transaction.restored = std::move(saved->resources);
  registry.commit(std::move(transaction));
  ask_for_everything(*registry.current());

  Registry again{MeshSettings{}};
  const auto reread = read(write(*registry.current()), again);
  require(reread && reread->resources.size() == registry.current()->resources.size());
  return 0;
}
