// SPDX-License-Identifier: Apache-2.0
#include "registry/tables/persistent_vips.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <sstream>

#include "registry/base/counted.hpp"
#include "registry/base/durable_file.hpp"

namespace meshdns::registry {
namespace {

// More slots than any mesh has hosts; keeps a /8 from costing memory.
constexpr std::uint32_t kMaxCapacity = 1U << 24;

// Addresses between the network's own and its last.
std::uint32_t capacity_of(const IpPrefix& prefix) {
  const unsigned bits = prefix.address.is_v4() ? 32 : 128;
  const unsigned host_bits = bits - std::min<unsigned>(prefix.length, bits);
  if (host_bits < 2) return 0;
  if (host_bits > 24) return kMaxCapacity;
  return (1U << host_bits) - 2;
}

}  // namespace

VipRange::VipRange(const IpPrefix& v4, const IpPrefix& v6)
    : v4_(v4.network()), v6_(v6.network()), capacity_(std::min(capacity_of(v4), capacity_of(v6))) {}

IpAddress VipRange::address_of(const IpPrefix& network, std::uint32_t slot) {
  // The capacity keeps slot + 1 within the host bits, which are zero.
  std::array<std::uint8_t, 16> octets = network.address.octets();
  const std::uint32_t value = slot + 1;
  for (std::size_t i = 0; i < 4; ++i) octets[15 - i] |= static_cast<std::uint8_t>(value >> (8 * i));
  return IpAddress::v6(octets);
}

std::optional<std::uint32_t> VipRange::slot_of(const IpAddress& address) const {
  const IpPrefix& network = address.is_v4() ? v4_ : v6_;
  if (!network.contains(address)) return std::nullopt;
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < 16; ++i) {
    const auto host = static_cast<std::uint8_t>(address.octets()[i] ^ network.address.octets()[i]);
    if (value >> 32 != 0) return std::nullopt;
    value = value << 8 | host;
  }
  if (value == 0 || value > capacity_) return std::nullopt;
  return static_cast<std::uint32_t>(value - 1);
}

namespace {

constexpr std::uint32_t kBits = 64;

std::uint64_t bit_of(std::uint32_t index) { return std::uint64_t{1} << (index % kBits); }

}  // namespace

SlotSet::SlotSet(std::uint32_t bound) {
  std::size_t words = bound;
  do {
    words = (words + kBits - 1) / kBits;
    levels_.emplace_back(words, 0);
  } while (words > 1);
}

void SlotSet::insert(std::uint32_t slot) {
  for (Words& level : levels_) {
    level[slot / kBits] |= bit_of(slot);
    slot /= kBits;
  }
}

void SlotSet::erase(std::uint32_t slot) {
  for (Words& level : levels_) {
    std::uint64_t& word = level[slot / kBits];
    word &= ~bit_of(slot);
    if (word != 0) return;
    slot /= kBits;
  }
}

// The least member of a level that is not below `from`.
std::optional<std::uint32_t> SlotSet::next(std::size_t level, std::uint32_t from) const {
  const Words& words = levels_[level];
  const std::uint32_t index = from / kBits;
  if (index >= words.size()) return std::nullopt;
  if (const std::uint64_t rest = words[index] & (~std::uint64_t{0} << (from % kBits)); rest != 0)
    return index * kBits + static_cast<std::uint32_t>(std::countr_zero(rest));
  if (level + 1 == levels_.size()) return std::nullopt;
  const auto word = next(level + 1, index + 1);
  if (!word) return std::nullopt;
  assert(words[*word] != 0);
  return *word * kBits + static_cast<std::uint32_t>(std::countr_zero(words[*word]));
}

std::optional<std::uint32_t> SlotSet::next_cyclic(std::uint32_t slot) const {
  if (const auto found = next(0, slot)) return found;
  return next(0, 0);
}

namespace {

// Version 1 has no line with the range: its slots are those of the configured range.
constexpr std::string_view kHeader = "meshdns-vips 2";
constexpr std::string_view kHeader1 = "meshdns-vips 1";
// 16 million places of a name of 253 octets; only a damaged file is larger.
constexpr std::size_t kMaxFileSize = std::size_t{4} << 30;

// A stable hash, because two nodes must agree on the places.
std::uint64_t place_hash(std::string_view key) {
  std::uint64_t hash = stable_hash(key);
  hash ^= hash >> 32;
  hash *= 0xd6e8feb86659fd93ULL;
  return hash ^ (hash >> 32);
}

std::string_view namespace_of(std::string_view key) { return key.substr(0, key.find('/')); }

// Returns whether PersistentVips::abandon() made the key: no host name begins with "!".
bool is_abandoned(std::string_view key) { return key.find("/!") != std::string_view::npos; }

// "range 240.240.0.0/16 2001:2::/48"
std::optional<VipRange> parse_range(const std::string& line) {
  std::istringstream words(line);
  std::string word;
  std::string v4;
  std::string v6;
  if (!(words >> word >> v4 >> v6) || word != "range") return std::nullopt;
  const auto first = IpPrefix::parse(v4);
  const auto second = IpPrefix::parse(v6);
  if (!first || !second || !first->address.is_v4() || second->address.is_v4()) return std::nullopt;
  return VipRange(*first, *second);
}

}  // namespace

PersistentVips::PersistentVips(PersistentVipOptions options)
    : options_(std::move(options)),
      range_(options_.v4, options_.v6),
      unused_(range_.capacity()),
      remembered_(range_.capacity()) {
  forget_all();
  if (options_.file.empty()) return;
  if (const auto read = read_file(); !read) {
    forget_all();
    trouble_ = read.error().message +
               "; no VIPs until it is restored, or removed to give all hosts new ones, and the "
               "configuration reloaded";
    options_.report(trouble_);
  }
}

Result<void> PersistentVips::read_file() {
  const auto octets = read_octets(options_.file, kMaxFileSize);
  if (!octets) return std::unexpected(octets.error());
  if (!*octets) return {};  // the first start
  if (!parse({(*octets)->begin(), (*octets)->end()}))
    return fail(options_.file + " is damaged or not a file of virtual addresses");
  return {};
}

bool PersistentVips::parse(const std::string& text) {
  std::istringstream lines(text);
  std::string line;
  if (!std::getline(lines, line) || (line != kHeader && line != kHeader1)) return false;
  std::size_t body = line.size() + 1;
  std::optional<VipRange> range;
  if (line == kHeader) {
    if (!std::getline(lines, line)) return false;
    range = parse_range(line);
    if (!range) return false;
    body += line.size() + 1;
  }
  TextSet known;
  bool complete = false;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string key;
    words >> key;
    std::uint32_t slot = 0;
    if (key == "end") {
      complete = static_cast<bool>(words >> slot) &&
                 slot == checksum(std::string_view(text).substr(0, body));
      break;
    }
    std::int64_t released = 0;
    if (!(words >> slot >> released) || !known.insert(key).second) return false;
    body += line.size() + 1;
    // An address that is in the old range and in the new one stays with its host.
    const bool is_moved = range && *range != range_;
    if (is_moved && slot >= range->capacity()) return false;
    const auto now_at = is_moved ? range_.slot_of(range->v4_of(slot)) : std::optional(slot);
    is_changed_ |= is_moved;
    if (now_at && *now_at < range_.capacity()) restore(key, *now_at, released);
  }
  return complete;
}

// Restores one place of the file.
void PersistentVips::restore(const Key& key, std::uint32_t slot, std::int64_t released) {
  // Only in a damaged file do two places share a slot.
  if (by_slot_.contains(slot)) return;
  // A time in the future, from a wrong clock, would keep the address for ever.
  if (released != 0)
    released = std::clamp<std::int64_t>(released, 1, std::max<std::int64_t>(options_.clock(), 1));
  places_[key] = {.slot = slot, .released = released};
  by_slot_[slot] = key;
  withdraw(slot);
  count(key, 1);
  if (released != 0) quarantine_.emplace(released, key);
}

std::string PersistentVips::print() const {
  std::vector<const Places::value_type*> sorted;
  sorted.reserve(places_.size());
  for (const auto& item : places_) sorted.push_back(&item);
  std::ranges::sort(sorted, {}, [](const auto* item) -> const Key& { return item->first; });
  std::string text(kHeader);
  text += "\nrange " + range_.to_string() + '\n';
  for (const auto* item : sorted)
    text += item->first + ' ' + std::to_string(item->second.slot) + ' ' +
            std::to_string(item->second.released) + '\n';
  return text + "end " + std::to_string(checksum(text)) + '\n';
}

Result<void> PersistentVips::write_file() const {
  const std::string text = print();
  return write_durably(options_.file,
                       {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
}

void PersistentVips::forget_all() {
  places_.clear();
  by_slot_.clear();
  quarantine_.clear();
  held_.clear();
  for (std::uint32_t slot = 0; slot < range_.capacity(); ++slot) {
    remembered_.erase(slot);
    unused_.insert(slot);
  }
}

// A free slot may be assigned unless a resource claims its address.
void PersistentVips::offer(std::uint32_t slot) {
  withdraw(slot);
  if (!claimed_.contains(slot)) (by_slot_.contains(slot) ? remembered_ : unused_).insert(slot);
}

void PersistentVips::withdraw(std::uint32_t slot) {
  unused_.erase(slot);
  remembered_.erase(slot);
}

void PersistentVips::count(const Key& key, int difference) {
  const auto it = held_.try_emplace(std::string(namespace_of(key))).first;
  it->second += static_cast<std::uint32_t>(difference);
  if (it->second == 0) held_.erase(it);
}

// Removes the place.  The caller decides whether to offer its slot.
void PersistentVips::drop(Places::iterator place) {
  const auto& [key, where] = *place;
  if (!where.is_remembered) count(key, -1);
  if (where.released != 0) quarantine_.erase({where.released, key});
  by_slot_.erase(where.slot);
  places_.erase(place);
  is_changed_ = true;
}

// Moves the host away from a claimed slot.  Caches still have the address, so the slot stays in
// quarantine under a key that no host has.
void PersistentVips::abandon(Places::iterator place, std::int64_t now) {
  const Place left{.slot = place->second.slot,
                   .released = place->second.released != 0 ? place->second.released
                                                           : std::max<std::int64_t>(now, 1)};
  const Key key = std::string(namespace_of(place->first)) + "/!" + std::to_string(left.slot);
  const bool was_remembered = place->second.is_remembered;
  drop(place);
  if (was_remembered) return offer(left.slot);
  places_[key] = left;
  by_slot_[left.slot] = key;
  quarantine_.emplace(left.released, key);
  count(key, 1);
}

void PersistentVips::end_quarantines(std::int64_t now) {
  while (!quarantine_.empty()) {
    const auto first = quarantine_.begin();
    if (now < first->first + options_.quarantine.count()) return;
    const auto place = places_.find(first->second);
    const std::uint32_t slot = place->second.slot;
    if (is_abandoned(place->first)) {
      drop(place);
    } else {
      place->second.is_remembered = true;
      count(place->first, -1);
      quarantine_.erase(first);
    }
    offer(slot);
  }
}

void PersistentVips::set_claims(const std::vector<IpAddress>& taken, std::int64_t now) {
  std::unordered_set<std::uint32_t> next;
  for (const auto& address : taken)
    if (const auto slot = range_.slot_of(address)) next.insert(*slot);
  const auto before = std::exchange(claimed_, std::move(next));
  for (const std::uint32_t slot : claimed_) {
    if (before.contains(slot)) continue;
    withdraw(slot);
    // The host with this address needs another one.
    const auto owner = by_slot_.find(slot);
    if (owner == by_slot_.end()) continue;
    const auto place = places_.find(owner->second);
    if (place->second.released == 0) abandon(place, now);
  }
  for (const std::uint32_t slot : before) {
    if (claimed_.contains(slot)) continue;
    const auto owner = by_slot_.find(slot);
    if (owner == by_slot_.end() || places_.at(owner->second).is_remembered) offer(slot);
  }
}

void PersistentVips::release_unwanted(std::int64_t now) {
  const std::int64_t released = std::max<std::int64_t>(now, 1);
  for (auto& [key, place] : places_) {
    if (place.released != 0 || place.round == round_) continue;
    place.released = released;
    quarantine_.emplace(released, key);
    is_changed_ = true;
  }
}

bool PersistentVips::is_over_quota(std::string_view ns) const {
  if (options_.namespace_quota == 0) return false;
  const auto held = held_.find(std::string(ns));
  return held != held_.end() && held->second >= options_.namespace_quota;
}

// Gives a host that returns its previous address, unless a resource claims it.
bool PersistentVips::take_back(const Key& key, Place& place) {
  if (place.released == 0) return true;
  if (claimed_.contains(place.slot)) return false;
  if (place.is_remembered) {
    if (is_over_quota(namespace_of(key))) return false;
    withdraw(place.slot);
    count(key, 1);
  } else {
    quarantine_.erase({place.released, key});
  }
  place.released = 0;
  place.is_remembered = false;
  is_changed_ = true;
  return true;
}

std::optional<std::uint32_t> PersistentVips::find_slot(const Key& key) const {
  if (range_.capacity() == 0) return std::nullopt;
  const auto first = static_cast<std::uint32_t>(place_hash(key) % range_.capacity());
  if (const auto slot = unused_.next_cyclic(first)) return slot;
  return remembered_.next_cyclic(first);
}

// Returns null if the host stays without an address.  REQUIRES: the host has no place.
const PersistentVips::Place* PersistentVips::place_newcomer(const Key& key, std::string_view ns,
                                                            Shortage& shortage) {
  if (is_over_quota(ns)) {
    if (shortage.over_quota++ == 0) shortage.ns = ns;
    return nullptr;
  }
  const auto slot = find_slot(key);
  if (!slot) {
    ++shortage.full;
    return nullptr;
  }
  if (const auto owner = by_slot_.find(*slot); owner != by_slot_.end())
    drop(places_.find(owner->second));
  withdraw(*slot);
  by_slot_[*slot] = key;
  count(key, 1);
  is_changed_ = true;
  return &(places_[key] = {.slot = *slot, .round = round_});
}

std::vector<VipAssignment> PersistentVips::assign(const std::vector<VipRequest>& requests,
                                                  const std::vector<IpAddress>& taken) {
  if (!trouble_.empty()) return {};
  const std::int64_t now = options_.clock();
  ++round_;
  end_quarantines(now);
  set_claims(taken, now);

  // A host that has a place keeps it.  Those go first, so that a newcomer never takes one.
  struct Newcomer {
    const VipRequest* request;
    Key key;
  };
  std::vector<VipAssignment> assigned;
  assigned.reserve(requests.size());
  const auto give = [&](const VipRequest& request, const Place& place) {
    assigned.push_back(
        {request.ns, request.host, range_.v4_of(place.slot), range_.v6_of(place.slot)});
  };
  std::vector<Newcomer> newcomers;
  for (const auto& request : requests) {
    Key key = request.ns + "/" + request.host;
    const auto known = places_.find(key);
    if (known == places_.end()) {
      newcomers.push_back({&request, std::move(key)});
      continue;
    }
    Place& place = known->second;
    if (std::exchange(place.round, round_) == round_) continue;  // a second entry of the host
    if (take_back(key, place))
      give(request, place);
    else
      newcomers.push_back({&request, std::move(key)});
  }
  release_unwanted(now);

  Shortage shortage;
  TextViewSet seen;
  for (const auto& [request, key] : newcomers) {
    if (!seen.insert(key).second) continue;
    // A host whose own address is claimed or beyond its quota looks for another one.
    if (const auto lost = places_.find(key); lost != places_.end() && !is_over_quota(request->ns))
      abandon(lost, now);
    if (const Place* place = place_newcomer(key, request->ns, shortage)) give(*request, *place);
  }
  report_shortage(shortage);
  if (!options_.file.empty() && std::exchange(is_changed_, false))
    if (const auto written = write_file(); !written) options_.report(written.error().message);
  return assigned;
}

void PersistentVips::report_shortage(const Shortage& shortage) {
  if (shortage.full > 0 && !said_full_)
    options_.report("the range " + range_.to_string() + " is full: " +
                    counted(shortage.full, "host") + (shortage.full == 1 ? " has" : " have") +
                    " no VIP; widen mesh.vip_cidr_v4 and mesh.vip_cidr_v6");
  said_full_ = shortage.full > 0;
  if (shortage.over_quota > 0 && !said_over_quota_)
    options_.report("namespace " + shortage.ns + " has reached its quota of " +
                    std::to_string(options_.namespace_quota) +
                    " VIPs: " + counted(shortage.over_quota, "host") +
                    (shortage.over_quota == 1 ? " has" : " have") +
                    " no VIP; raise mesh.vip_namespace_quota");
  said_over_quota_ = shortage.over_quota > 0;
}

}  // namespace meshdns::registry
