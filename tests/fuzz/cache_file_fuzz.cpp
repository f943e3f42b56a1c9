// SPDX-License-Identifier: Apache-2.0
// Any octets as the cache that a former run has left: no crash, and what is taken of it is answered
// and written again.
//
// The checksum would keep a fuzzer out, so the first octet chooses: 'f' makes the rest a file as it
// is; anything else makes it what follows the checksum of a file whose checksum is right.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "registry/base/durable_file.hpp"
#include "resolver/cache/cache.hpp"
#include "tests/fuzz/require.hpp"

namespace {

using namespace meshdns;
using namespace meshdns::dnsd;
using meshdns::fuzz::require;

constexpr std::int64_t kNow = 1'800'000'000;  // of the wall clock
constexpr Millis kUptime = 1'000'000;
constexpr std::size_t kChecksum = 4;
constexpr std::size_t kTime = 8;

CacheConfig settings() {
  CacheConfig config;
  config.size_bytes = 1 << 20;
  return config;
}

// As a cache writes it: its magic, the checksum, and `rest`.
std::vector<std::uint8_t> with_checksum(std::span<const std::uint8_t> rest) {
  static const std::vector<std::uint8_t> empty = Cache(settings()).save(kNow, kUptime);
  std::vector<std::uint8_t> file(empty.begin(), empty.end() - kChecksum - kTime);
  const std::uint32_t sum = checksum(rest);
  for (int shift = 24; shift >= 0; shift -= 8)
    file.push_back(static_cast<std::uint8_t>(sum >> shift));
  file.insert(file.end(), rest.begin(), rest.end());
  return file;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::span<const std::uint8_t> rest(data + 1, size - 1);
  const std::vector<std::uint8_t> file =
      data[0] == 'f' ? std::vector(rest.begin(), rest.end()) : with_checksum(rest);

  Cache cache(settings());
  const auto loaded = cache.load(file, kNow, kUptime);
  require(loaded || !loaded.error().message.empty());
  const std::size_t kept = cache.statistics().positive.entries;
  require(!loaded || kept <= *loaded);

  Cache again(settings());
  const auto reread = again.load(cache.save(kNow, kUptime), kNow, kUptime);
  // An entry with a lifetime of one second may have expired when it is read.
  require(reread && *reread <= kept);
  return 0;
}
