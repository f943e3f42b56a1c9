// SPDX-License-Identifier: Apache-2.0
#include "dnsd/query/search_walk.hpp"

#include <ranges>

#include "registry/base/host_name.hpp"

namespace meshdns::dnsd {

void SearchWalk::begin(std::string_view rest, const std::vector<std::string>& domains) {
  for (const std::string& domain : domains | std::views::drop(1)) {
    if (domain == domains.front() || rest.size() + 1 + domain.size() > kMaxHostLength) continue;
    names_.push_back(std::string(rest).append(".").append(domain));
  }
  names_.emplace_back(rest);
  active_ = true;
}

std::string_view SearchWalk::next() {
  if (next_ < names_.size()) return names_[next_++];
  active_ = false;
  over_ = true;
  return {};
}

void SearchWalk::stop(wire::Ede why) {
  stopped_by = why;
  active_ = false;
  over_ = true;
}

}  // namespace meshdns::dnsd
