// SPDX-License-Identifier: Apache-2.0
// The configuration loader on any text: it ends, stays in bounds, and what it calls valid reads
// back from its own print as the same.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "dnsd/config/load.hpp"
#include "dnsd/config/resolv_conf.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace meshdns::dnsd;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)parse_resolv_conf(text);
  const LoadedConfig loaded = parse_config(text, "fuzz.yaml");
  if (!loaded.valid()) return 0;
  const LoadedConfig again = parse_config(to_json(loaded.config), "fuzz.json");
  if (!again.valid() || !(again.config == loaded.config)) std::abort();
  return 0;
}
