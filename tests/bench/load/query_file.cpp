// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/load/query_file.hpp"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>

namespace meshdns::bench {

QueryFile::QueryFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  octets_.assign(std::istreambuf_iterator<char>(file), {});
  std::size_t at = 0;
  while (octets_.size() - at >= 2) {
    const std::size_t size = octets_[at] * 256U + octets_[at + 1];
    if (size < 12 || octets_.size() - at - 2 < size) break;
    starts_.push_back(at);
    at += size + 2;
  }
  if (starts_.empty() || at != octets_.size()) {
    std::fprintf(stderr, "load: %s: not a file of queries\n", path.c_str());
    std::exit(2);
  }
  starts_.push_back(at);
}

}  // namespace meshdns::bench
