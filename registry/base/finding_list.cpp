// SPDX-License-Identifier: Apache-2.0
#include "registry/base/finding_list.hpp"

#include <utility>

namespace meshdns::registry {

void FindingList::add(Finding finding) {
  if (kept_.size() < max_) return kept_.push_back(std::move(finding));
  ++left_out_;
  left_out_errors_ |= finding.severity == Severity::Error;
}

std::vector<Finding> FindingList::take() && {
  if (left_out_ > 0) {
    Finding more;
    more.severity = left_out_errors_ ? Severity::Error : Severity::Warning;
    more.path = kept_.empty() ? std::string() : kept_.front().path;
    more.message = "and " + std::to_string(left_out_) + " more findings";
    kept_.push_back(std::move(more));
  }
  return std::move(kept_);
}

}  // namespace meshdns::registry
