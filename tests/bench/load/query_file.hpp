// SPDX-License-Identifier: Apache-2.0
// The queries of a workload: DNS messages, each behind its length in two octets, as on TCP.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace meshdns::bench {

class QueryFile {
 public:
  // Ends the program with a message if the file cannot be read or holds no query.
  explicit QueryFile(const std::string& path);

  // The next query, with its length in front, in the file's order and then from the beginning.
  std::span<const std::uint8_t> next() {
    const std::size_t begin = starts_[at_];
    const std::size_t end = starts_[at_ + 1];
    if (++at_ + 1 == starts_.size()) at_ = 0;
    return {octets_.data() + begin, end - begin};
  }
  void skip(std::size_t queries) { at_ = (at_ + queries) % size(); }
  std::size_t size() const { return starts_.size() - 1; }

 private:
  std::vector<std::uint8_t> octets_;
  std::vector<std::size_t> starts_;
  std::size_t at_ = 0;
};

}  // namespace meshdns::bench
