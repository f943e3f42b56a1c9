// SPDX-License-Identifier: Apache-2.0
// The names that most often get no answer, of one worker: a fixed number of them, whatever clients
// ask (the Space-Saving algorithm: a new name takes over the place and the count of the rarest).
// The places are in groups, of which a name's hash chooses one: a denial may not cost a walk over
// all.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "resolver/wire/message_writer.hpp"
#include "resolver/wire/types.hpp"

namespace meshdns::dnsd {

class FailingNames {
 public:
  static constexpr std::size_t kGroups = 8;
  static constexpr std::size_t kGroupSize = 8;
  static constexpr std::size_t kPlaces = kGroups * kGroupSize;

  struct Entry {
    std::string name;  // as QueryMessage::qname() gives it
    wire::Rcode rcode;
    std::uint64_t count;  // recently; at most too high by that of the rarest name of its group
  };

  // The worker's thread.  Never allocates.
  void note(std::string_view name, wire::Rcode rcode);

  // Any thread.
  std::vector<Entry> list() const;
  // Halves all counts.  Call it every minute, so that old failures disappear.
  void fade();

 private:
  struct Place {
    std::uint64_t key = 0;  // of name and rcode
    std::uint64_t count = 0;
    wire::Rcode rcode = wire::Rcode::NoError;
    std::uint8_t size = 0;
    std::array<char, 255> name;  // RFC 1035, section 2.3.4
  };

  mutable std::mutex mutex_;
  std::array<Place, kPlaces> places_;  // guarded by mutex_
};

}  // namespace meshdns::dnsd
