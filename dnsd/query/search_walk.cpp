// SPDX-License-Identifier: Apache-2.0
#include "dnsd/query/search_walk.hpp"

#include <algorithm>

#include "registry/base/host_name.hpp"

namespace meshdns::dnsd {

bool SearchWalk::begin(std::string_view name, const std::vector<std::string>& domains) {
  const auto appended = std::ranges::find_if(
      domains, [&](const std::string& domain) { return is_below(name, domain); });
  if (appended == domains.end()) return false;
  const std::string base(name.substr(0, name.size() - appended->size() - 1));
  for (const std::string& domain : domains) {
    if (domain == *appended || base.size() + 1 + domain.size() > kMaxHostLength) continue;
    names_.push_back(std::string(base).append(".").append(domain));
  }
  const bool outside = base.find('.') != std::string::npos;
  names_.insert(outside ? names_.begin() : names_.end(), base);
  active_ = true;
  return true;
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
