// SPDX-License-Identifier: Apache-2.0
// Counts the names that are asked most, the clients that ask most, the names whose upstream answers
// clients wait for longest, and the clients that are refused or over a limit: for one worker, in
// about 180 KiB, whatever clients send.
//
// The worker never waits for a reader: an event that meets one is not counted.  Frequent events are
// sampled (EventSampler), so that counting costs about 1 ms of CPU time a second at most.
// Counts are kept in two halves of 30 s.  The older one is discarded when a new one begins.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "registry/base/ip_address.hpp"
#include "resolver/wire/message_writer.hpp"
#include "resolver/wire/types.hpp"

namespace meshdns::dnsd {

// The most frequent names and clients of the last half to whole minute, of all workers together.
struct TopEntry {
  std::uint64_t key = 0;
  // A name as QueryMessage::qname() gives it, a namespace, or the 16 octets of an address.
  std::string text;
  bool is_cut = false;  // the text is the end of a longer name
  // The exact amount is at least `amount` and at most `amount + error`, but for the sampling.
  std::uint64_t amount = 0;
  std::uint64_t error = 0;
  std::uint64_t part = 0;
  std::uint32_t peak = 0;
};

// The largest amount first.
using TopList = std::vector<TopEntry>;

struct TopReport {
  // A daemon that has just begun has no rate yet: a second at least.
  double per_second(std::uint64_t amount) const {
    return static_cast<double>(amount) / std::max(seconds, 1.0);
  }

  double seconds = 0;         // that it covers
  std::uint64_t queries = 0;  // in that time
  std::uint64_t refused = 0;  // of these: refused, or over a limit
  TopList names;              // amount: queries
  TopList clients;            // likewise
  TopList namespaces;         // likewise, of clients
  TopList forwarded;          // names; amount: microseconds of waiting; part: queries;
                              // peak: the longest wait in microseconds
  TopList refused_clients;    // amount: queries; part: those over a limit
};

// Counts the most frequent keys of a stream in constant memory: Filtered Space-Saving (Homem and
// Carvalho, 2010).  Plain Space-Saving gives each new key the place of the rarest one, so that a
// flood of random names takes all places.  Here a key without a place counts in one of CellCount
// cells first, which it shares with others, and gets a place only once its cell has more than the
// rarest key: among names that are equally frequent, none takes another one's place.
//
// Each count is an upper bound with a known error: `amount - error <= exact <= amount`.  A key
// without a place has at most least(), which is at most the total divided by PlaceCount.

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
    if (reached <= least_) {
      cell = static_cast<Cell>(reached);
      return;
    }
    const std::size_t rarest = find_rarest();
    if (reached <= least_) {
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

  // Halves all amounts, so that keys that are not noted any more become rare.
  void halve() {
    for (std::size_t i = 0; i < used_; ++i) {
      amounts_[i] /= 2;
      places_[i].error = (places_[i].error + 1) / 2;
      places_[i].part /= 2;
    }
    for (Cell& cell : cells_) cell /= 2;
    total_ /= 2;
    least_ /= 2;
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
  std::uint64_t least_ = 0;  // of amounts_, or less: they grow, or are halved as it is
  // Apart from the rest, since both are searched from end to end.
  std::array<std::uint32_t, PlaceCount> tags_{};
  std::array<std::uint64_t, PlaceCount> amounts_{};
  std::array<Place, PlaceCount> places_{};
  std::array<Cell, CellCount> cells_{};            // amounts of the keys without a place
  std::array<std::uint16_t, CellCount> placed_{};  // number of keys of each cell that have a place
};

// The names that most often get no answer, or that REGISTRY_ONLY is about, of one worker: a fixed
// number of them, whatever clients ask.
class FailingNames {
 public:
  static constexpr std::size_t kPlaces = 64;

  struct Entry {
    std::string name;  // as QueryMessage::qname() gives it
    wire::Rcode rcode;
    std::uint64_t count;  // recently; see HeavyHitters
  };

  // The worker's thread.  Never allocates.
  void note(std::string_view name, wire::Rcode rcode);

  // Any thread.
  std::vector<Entry> list() const;
  // Halves all counts.  Call it every minute, so that old failures disappear.
  void fade();

 private:
  mutable std::mutex mutex_;
  // The keys are of a name and its rcode, which is the peak.  Names have at most 255 octets (RFC
  // 1035, section 2.3.4).  Denials are not sampled: with as many cells, few of a flood look for the
  // rarest place.
  HeavyHitters<kPlaces, 255, 1024, std::uint32_t> names_;  // guarded by mutex_
};

// Chooses the events that are counted: all while they are rare, and about 250 to 1,000 a second
// while they are frequent, each with the number of events that it stands for.  The gaps between
// them are random, so that clients that repeat a pattern (A and AAAA, a search list) are counted
// fairly.  One thread.  Times are nanoseconds of a monotonic clock.
class EventSampler {
 public:
  static constexpr std::uint32_t kMaxWeight = 4096;

  explicit EventSampler(std::uint64_t seed) : random_(seed | 1U) {}

  // To be called now and then: events that have become rare are counted more often.
  void observe(std::uint64_t now) {
    if (now >= relax_at_) [[unlikely]]
      relax(now);
  }
  // Returns whether this event is counted.  Then take() must follow, or put_off().
  bool is_due() { return --left_ == 0; }
  // Returns the number of events that this one stands for.
  std::uint32_t take(std::uint64_t now) {
    const std::uint32_t weight = weight_;
    if (++taken_ == kStep) {
      if (now < began_ + kShortest) weight_ = std::min(2 * weight_, kMaxWeight);
      begin_step(now);
    }
    draw();
    return weight;
  }
  // The next event is counted in place of this one.
  void put_off() { left_ = 1; }

 private:
  // A step of so many events may take from 64 ms to 256 ms.
  static constexpr std::uint32_t kStep = 64;
  static constexpr std::uint64_t kShortest = 64'000'000;
  static constexpr std::uint64_t kLongest = 256'000'000;

  void begin_step(std::uint64_t now) {
    taken_ = 0;
    began_ = now;
    relax_at_ = now + kLongest;
  }
  void relax(std::uint64_t now) {
    const std::uint64_t halvings = 1 + (now - relax_at_) / kLongest;
    weight_ = std::max<std::uint32_t>(1, weight_ >> std::min<std::uint64_t>(halvings, 31));
    begin_step(now);
    if (left_ >= 2 * weight_) draw();
  }
  // From 1 to 2 * weight - 1, so weight_ in the mean.
  void draw() {
    random_ ^= random_ << 13;  // xorshift64 (Marsaglia, 2003)
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    left_ = 1 + static_cast<std::uint32_t>((random_ >> 32) % (2 * weight_ - 1));
  }

  std::uint64_t random_;
  std::uint32_t left_ = 1;  // until the next event that is counted
  std::uint32_t weight_ = 1;
  std::uint32_t taken_ = 0;  // in this step
  std::uint64_t began_ = 0;  // this step
  std::uint64_t relax_at_ = 0;
};

// The worker's thread, unless said otherwise.  Times are nanoseconds of a monotonic clock.
class TopQueries {
 public:
  static constexpr std::uint64_t kHalf = 30'000'000'000;
  // The longest text of a name.  Of a longer one, the last labels are kept.
  static constexpr std::size_t kNameSize = 90;

  TopQueries(std::uint64_t now, std::uint64_t seed);

  // --- queries: is_due() for each, and note_query() or put_off() when it is true ---
  void begin_batch(std::uint64_t now) { queries_.observe(now); }
  bool is_due() { return queries_.is_due(); }
  void put_off() { queries_.put_off(); }
  // A query for `name` (QueryMessage::qname()).  `ns`: of the client; empty = unknown.
  void note_query(std::string_view name, const IpAddress& client, std::string_view ns,
                  std::uint64_t now);
  // The same for a query that stands for `weight` of them, chosen elsewhere.
  void note_sampled_query(std::string_view name, const IpAddress& client, std::string_view ns,
                          std::uint32_t weight, std::uint64_t now);
  // note_query() for a query without a readable name.
  void note_nameless_query(const IpAddress& client, std::uint64_t now);

  // --- less frequent events, each of which is noted ---
  // The answer to a query for `name` had to wait for upstream servers.
  void note_forwarded(std::string_view name, std::uint64_t waited, std::uint64_t now);
  enum class Refusal : std::uint8_t {
    Refused,  // server.allow, client.unknown, types and classes that are not served
    Limited,  // server.rate_limit, or too many queries that wait
  };
  void note_refused(const IpAddress& client, Refusal refusal, std::uint64_t now);

  // Merges the counts of several workers; each list has at most `limit` entries.  Any thread.
  static TopReport report(std::span<TopQueries* const> workers, std::size_t limit,
                          std::uint64_t now);

 private:
  static constexpr std::size_t kAddressSize = 16;
  static constexpr std::size_t kNamespaceSize = 63;
  using Names = HeavyHitters<256, kNameSize, 1024, std::uint32_t>;
  using Clients = HeavyHitters<256, kAddressSize, 1024, std::uint32_t>;
  using Namespaces = HeavyHitters<64, kNamespaceSize, 256, std::uint32_t>;
  using Forwarded = HeavyHitters<64, kNameSize, 512, std::uint64_t>;
  using Refused = HeavyHitters<64, kAddressSize, 512, std::uint32_t>;
  struct Half {
    std::uint64_t number = 0;  // the time divided by kHalf
    Names names;
    Clients clients;
    Namespaces namespaces;
    Forwarded forwarded;
    Refused refused;
  };
  using Halves = std::array<Half, 2>;

  Half& half_at(std::uint64_t now);
  void note_client(Half& half, const IpAddress& client, std::uint32_t weight);

  const std::uint64_t began_;
  EventSampler queries_;
  EventSampler waits_;
  EventSampler refusals_;
  std::mutex mutex_;
  Halves halves_;  // guarded by mutex_
};

}  // namespace meshdns::dnsd
