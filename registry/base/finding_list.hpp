// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "registry/base/finding.hpp"

namespace meshdns::registry {

// The findings of one text: the first `max` of them, and how many more there were.  A text may be
// wrong in every byte; more findings are not useful and use memory.
class FindingList {
 public:
  explicit FindingList(std::size_t max) : max_(max) {}

  void add(Finding finding);
  bool empty() const { return kept_.empty(); }

  // Those that were kept and, where there were more, one that counts them: an Error if one of them
  // is.
  std::vector<Finding> take() &&;

 private:
  std::size_t max_;
  std::vector<Finding> kept_;
  std::size_t left_out_ = 0;
  bool left_out_errors_ = false;
};

}  // namespace meshdns::registry
