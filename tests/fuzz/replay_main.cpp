// SPDX-License-Identifier: Apache-2.0
// Runs a fuzz target over the files of the directories given, where no fuzzer is linked.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

// In memory of exactly its size, so that a sanitizer sees the first octet read beyond.
void replay(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> octets((std::istreambuf_iterator<char>(file)), {});
  const auto exact = std::make_unique<std::uint8_t[]>(octets.size());
  for (std::size_t i = 0; i < octets.size(); ++i) exact[i] = static_cast<std::uint8_t>(octets[i]);
  LLVMFuzzerTestOneInput(exact.get(), octets.size());
}

}  // namespace

int main(int argc, char** argv) {
  int files = 0;
  for (int i = 1; i < argc; ++i) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[i])) {
      if (!entry.is_regular_file()) continue;
      replay(entry.path());
      ++files;
    }
  }
  std::printf("%d inputs\n", files);
  return files > 0 ? 0 : 1;  // no seeds, no test
}
