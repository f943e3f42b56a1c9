// SPDX-License-Identifier: Apache-2.0
// Remembers what lookups learned about upstream servers, for later lookups.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <string_view>

#include "resolver/refresh_schedule.hpp"

namespace meshdns::resolver {

// One thread. Time is an argument.
class ServerHabits {
 public:
  static constexpr std::chrono::hours kRemembered{1};

  // Whether the server answers with the letters of the question in the case in which they were
  // asked, as all but very few do; true for a server that nothing is known of.
  bool keeps_case(std::string_view server, TimePoint now) const {
    const auto known = changes_case_until_.find(server);
    return known == changes_case_until_.end() || known->second <= now;
  }
  // The server changed the case in an answer over TCP, which nobody can forge from afar.
  void note_changed_case(std::string_view server, TimePoint now) {
    if (changes_case_until_.size() >= kMaxServers) changes_case_until_.clear();
    changes_case_until_[std::string(server)] = now + kRemembered;
  }

 private:
  static constexpr std::size_t kMaxServers = 64;
  std::map<std::string, TimePoint, std::less<>> changes_case_until_;
};

}  // namespace meshdns::resolver
