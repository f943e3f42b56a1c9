// SPDX-License-Identifier: Apache-2.0
// Counts the most frequent keys of a stream in constant memory: Filtered Space-Saving (Homem and
// Carvalho, 2010).  Plain Space-Saving gives each new key the place of the rarest one, so that a
// flood of random names takes all places.  Here a key without a place counts in one of CellCount
// cells first, which it shares with others, and gets a place only once its cell has as much as the
// rarest key.
//
// Each count is an upper bound with a known error: `amount - error <= exact <= amount`.  A key
// without a place has at most least(), which is at most the total divided by PlaceCount.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace meshdns::dnsd {

// A value of fixed size that can be copied as octets.  Not thread-safe.
template <std::size_t PlaceCount, std::size_t TextSize, std::size_t CellCount, typename Cell>
class HeavyHitters {
  static_assert(TextSize < 256 && (CellCount & (CellCount - 1)) == 0);

 public:
  // One occurrence of a key, or several.
  struct Event {
    std::uint64_t key;      // a hash of the whole text
    std::string_view text;  // cut at TextSize octets
    std::uint64_t amount = 1;
    std::uint64_t part = 0;  // of the amount, or another sum
    std::uint32_t peak = 0;  // the largest is kept
    bool is_cut = false;     // the text is not all of it
  };
  struct Place {
    std::uint64_t key = 0;
    std::uint64_t error = 0;  // the amount is at most this much too high
    std::uint64_t part = 0;   // since the key has this place
    std::uint32_t peak = 0;   // likewise
    bool is_cut = false;
    std::uint8_t size = 0;
    std::array<char, TextSize> text{};
  };

  // Never allocates.
  void note(const Event& event) {
    total_ += event.amount;
    if (const std::size_t i = find(event.key); i != PlaceCount) return add(i, event);
    if (used_ < PlaceCount) return take(used_++, 0, event);
    Cell& cell = cells_[event.key % CellCount];
    const std::uint64_t reached = cell + event.amount;
    if (reached < least_) {
      cell = static_cast<Cell>(reached);
      return;
    }
    const std::size_t rarest = find_rarest();
    if (reached < least_) {
      cell = static_cast<Cell>(reached);
      return;
    }
    const std::uint64_t error = cell;
    // A key that loses its place has at most the amount of its cell afterwards.
    const std::size_t before = places_[rarest].key % CellCount;
    cells_[before] = static_cast<Cell>(least_);
    --placed_[before];
    take(rarest, error, event);
  }

  void clear() {
    used_ = 0;
    total_ = least_ = 0;
    cells_.fill(0);
    placed_.fill(0);
  }

  std::span<const Place> places() const { return std::span(places_).first(used_); }
  std::uint64_t amount(std::size_t place) const { return amounts_[place]; }
  // The largest amount that a key without a place can have.
  std::uint64_t least() const {
    return used_ < PlaceCount ? 0 : *std::ranges::min_element(amounts_);
  }
  std::uint64_t total() const { return total_; }

 private:
  // PlaceCount: the key has none.
  std::size_t find(std::uint64_t key) const {
    if (placed_[key % CellCount] == 0) return PlaceCount;
    const auto tag = static_cast<std::uint32_t>(key >> 32);
    const std::uint32_t* const tags = tags_.data();
    for (std::size_t i = 0; i < used_; ++i)
      if (tags[i] == tag && places_[i].key == key) return i;
    return PlaceCount;
  }
  void add(std::size_t i, const Event& event) {
    amounts_[i] += event.amount;
    places_[i].part += event.part;
    places_[i].peak = std::max(places_[i].peak, event.peak);
  }
  void take(std::size_t i, std::uint64_t error, const Event& event) {
    ++placed_[event.key % CellCount];
    tags_[i] = static_cast<std::uint32_t>(event.key >> 32);
    amounts_[i] = error + event.amount;
    Place& place = places_[i];
    place.key = event.key;
    place.error = error;
    place.part = event.part;
    place.peak = event.peak;
    place.size = static_cast<std::uint8_t>(std::min(event.text.size(), TextSize));
    place.is_cut = event.is_cut || event.text.size() > TextSize;
    if (place.size > 0) std::memcpy(place.text.data(), event.text.data(), place.size);
  }
  std::size_t find_rarest() {
    const std::uint64_t* const amounts = amounts_.data();
    std::size_t rarest = 0;
    for (std::size_t i = 1; i < PlaceCount; ++i)
      if (amounts[i] < amounts[rarest]) rarest = i;
    least_ = amounts[rarest];
    return rarest;
  }

  std::size_t used_ = 0;
  std::uint64_t total_ = 0;
  std::uint64_t least_ = 0;  // of amounts_, or less: they only grow
  // Apart from the rest, since both are searched from end to end.
  std::array<std::uint32_t, PlaceCount> tags_{};
  std::array<std::uint64_t, PlaceCount> amounts_{};
  std::array<Place, PlaceCount> places_{};
  std::array<Cell, CellCount> cells_{};            // amounts of the keys without a place
  std::array<std::uint16_t, CellCount> placed_{};  // number of keys of each cell that have a place
};

}  // namespace meshdns::dnsd
