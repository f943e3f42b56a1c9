// SPDX-License-Identifier: Apache-2.0
// A failure that happens a thousand times a second is one line and a count.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace meshdns::dnsd {

// Decides which occurrence of a message is written.  Any thread.
class RepeatedFold {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // One line per key and `window`.  Beyond `max_keys` distinct keys at a time all further ones
  // share one.
  explicit RepeatedFold(std::chrono::milliseconds window = std::chrono::seconds(10),
                        std::size_t max_keys = 256);

  // `key` is the message's template, without the parts that vary.  nullopt: leave this one out; it
  // is counted.  A number: write it, and say that so many were left out since the last line.
  std::optional<std::uint64_t> admit(std::string_view key, Time now);

  struct Folded {
    std::string key;
    std::uint64_t count;
  };
  // Returns the counts of folded messages whose window is over at `now`, and forgets them.  Call it
  // every few seconds, so that the count is written even if the message never comes again.
  std::vector<Folded> take_expired(Time now);

 private:
  struct Entry {
    Time written;
    std::uint64_t folded = 0;
  };

  const std::chrono::milliseconds window_;
  const std::size_t max_keys_;
  std::mutex mutex_;
  std::map<std::string, Entry, std::less<>> entries_;  // guarded by mutex_
};

}  // namespace meshdns::dnsd
