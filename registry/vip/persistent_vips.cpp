#include "registry/vip/persistent_vips.hpp"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

namespace meshdns::registry {
namespace {

constexpr std::string_view kHeader = "meshdns-vips 1";
// More slots than any mesh has hosts; keeps a /8 from costing memory.
constexpr std::uint32_t kMaxCapacity = 1U << 24;

// Not the process's seeded hash: two nodes must agree.
std::uint64_t place_hash(std::string_view key) {
  std::uint64_t hash = 14695981039346656037ULL;
  for (const char c : key) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  hash ^= hash >> 32;
  hash *= 0xd6e8feb86659fd93ULL;
  return hash ^ (hash >> 32);
}

// Addresses between the network's own and its last.
std::uint32_t capacity_of(const IpPrefix& v4) {
  const unsigned host_bits = v4.length >= 32 ? 0U : 32U - v4.length;
  const std::uint64_t all = std::uint64_t{1} << host_bits;
  return all <= 2 ? 0 : static_cast<std::uint32_t>(std::min<std::uint64_t>(all - 2, kMaxCapacity));
}

std::uint32_t crc(std::string_view text) {
  return static_cast<std::uint32_t>(
      crc32(0, reinterpret_cast<const Bytef*>(text.data()), static_cast<uInt>(text.size())));
}

std::string system_error(const std::string& what) { return what + ": " + std::strerror(errno); }

}  // namespace

PersistentVips::PersistentVips(PersistentVipOptions options)
    : options_(std::move(options)), capacity_(capacity_of(options_.v4)) {
  if (!options_.file.empty()) read_file();
}

void PersistentVips::read_file() {
  std::error_code error;
  const auto type = std::filesystem::status(options_.file, error).type();
  if (type == std::filesystem::file_type::not_found) return;  // the first start
  std::ostringstream text;
  // What is no file could block, or have no end.
  if (type == std::filesystem::file_type::regular) {
    std::ifstream in(options_.file, std::ios::binary);
    if (!in) return;
    text << in.rdbuf();
  }
  if (parse(text.str())) return;
  places_.clear();
  by_slot_.clear();
  const std::string aside = options_.file + ".bad-" + std::to_string(options_.clock());
  const bool moved = std::rename(options_.file.c_str(), aside.c_str()) == 0;
  options_.report(options_.file + " is damaged or not ours; " +
                  (moved ? "set aside as " + aside : "it could not be set aside") +
                  ", VIPs are placed anew");
}

bool PersistentVips::parse(const std::string& text) {
  std::istringstream lines(text);
  std::string line;
  if (!std::getline(lines, line) || line != kHeader) return false;
  bool complete = false;
  std::size_t body = line.size() + 1;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string first;
    words >> first;
    if (first == "end") {
      std::uint32_t sum = 0;
      complete =
          static_cast<bool>(words >> sum) && sum == crc(std::string_view(text).substr(0, body));
      break;
    }
    Place place;
    if (!(words >> place.slot >> place.released) || place.slot >= capacity_) return false;
    if (!places_.emplace(first, place).second) return false;
    by_slot_[place.slot] = first;
    body += line.size() + 1;
  }
  return complete;
}

std::string PersistentVips::print() const {
  std::string text(kHeader);
  text += '\n';
  for (const auto& [key, place] : places_)
    text += key + ' ' + std::to_string(place.slot) + ' ' + std::to_string(place.released) + '\n';
  return text + "end " + std::to_string(crc(text)) + '\n';
}

Result<void> PersistentVips::write_file() const {
  const std::string temporary = options_.file + ".new";
  const std::string text = print();
  const int fd =
      ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK, 0600);
  if (fd < 0) return fail(system_error("cannot write " + temporary));
  std::string_view rest = text;
  while (!rest.empty()) {
    const ssize_t n = ::write(fd, rest.data(), rest.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    rest.remove_prefix(static_cast<std::size_t>(n));
  }
  const bool good = rest.empty() && ::fsync(fd) == 0;
  const int saved = errno;
  ::close(fd);
  errno = saved;
  if (!good) return fail(system_error("cannot write " + temporary));
  if (std::rename(temporary.c_str(), options_.file.c_str()) != 0)
    return fail(system_error("cannot rename " + temporary));
  // The rename itself must survive a power cut.
  const std::string directory = options_.file.substr(0, options_.file.find_last_of('/') + 1);
  if (const int dir = ::open(directory.empty() ? "." : directory.c_str(), O_RDONLY | O_CLOEXEC);
      dir >= 0) {
    ::fsync(dir);
    ::close(dir);
  }
  return {};
}

bool PersistentVips::is_free(std::uint32_t slot, const Key& key, std::int64_t now) const {
  if (claimed_.contains(slot)) return false;
  const auto owner = by_slot_.find(slot);
  if (owner == by_slot_.end() || owner->second == key) return true;
  const auto place = places_.find(owner->second);
  if (place == places_.end() || place->second.slot != slot) return true;
  return place->second.released != 0 && now >= place->second.released + options_.quarantine.count();
}

bool PersistentVips::place(const Key& key, std::int64_t now) {
  if (const auto known = places_.find(key); known != places_.end()) {
    if (is_free(known->second.slot, key, now)) {
      known->second.released = 0;
      by_slot_[known->second.slot] = key;
      return true;
    }
    places_.erase(known);
  }
  if (capacity_ == 0) return false;
  const auto first = static_cast<std::uint32_t>(place_hash(key) % capacity_);
  for (std::uint32_t i = 0; i < capacity_; ++i) {
    const std::uint32_t slot = (first + i) % capacity_;
    if (!is_free(slot, key, now)) continue;
    if (const auto old = by_slot_.find(slot); old != by_slot_.end()) places_.erase(old->second);
    by_slot_[slot] = key;
    places_[key] = {slot, 0};
    return true;
  }
  return false;
}

std::vector<VipAssignment> PersistentVips::assign(const std::vector<VipRequest>& requests,
                                                  const std::vector<IpAddress>& taken) {
  const std::int64_t now = options_.clock();
  const auto before = places_;
  claimed_.clear();
  const std::uint32_t base = [&] {
    const auto& o = options_.v4.address.octets();
    return static_cast<std::uint32_t>(o[12]) << 24 | static_cast<std::uint32_t>(o[13]) << 16 |
           static_cast<std::uint32_t>(o[14]) << 8 | o[15];
  }();
  for (const auto& address : taken) {
    if (!options_.v4.contains(address)) continue;
    const auto& o = address.octets();
    const std::uint32_t value = static_cast<std::uint32_t>(o[12]) << 24 |
                                static_cast<std::uint32_t>(o[13]) << 16 |
                                static_cast<std::uint32_t>(o[14]) << 8 | o[15];
    claimed_[value - base - 1] = true;
  }
  std::set<Key> wanted;
  for (const auto& request : requests) wanted.insert(request.ns + "/" + request.host);
  for (auto& [key, place] : places_)
    if (place.released == 0 && !wanted.contains(key))
      place.released = std::max<std::int64_t>(now, 1);

  // Who has a place keeps it: those go first, so that a newcomer never takes one.
  std::vector<VipAssignment> assigned;
  std::size_t without = 0;
  const auto give = [&](const VipRequest& request) {
    const Key key = request.ns + "/" + request.host;
    if (!place(key, now)) {
      ++without;
      return;
    }
    const std::uint32_t slot = places_[key].slot;
    assigned.push_back({request.ns, request.host, v4_of(slot), v6_of(slot)});
  };
  std::set<Key> given;
  for (const bool known : {true, false})
    for (const auto& request : requests) {
      const Key key = request.ns + "/" + request.host;
      if (given.contains(key) || (known && !before.contains(key))) continue;
      given.insert(key);
      give(request);
    }
  if (without > 0 && !said_full_)
    options_.report("the range " + options_.v4.to_string() + " is full: " +
                    std::to_string(without) + " hosts stay without a VIP; widen mesh.vip_cidr_v4");
  said_full_ = without > 0;
  if (!options_.file.empty() && places_ != before)
    if (const auto written = write_file(); !written) options_.report(written.error().message);
  return assigned;
}

IpAddress PersistentVips::v4_of(std::uint32_t slot) const {
  auto octets = options_.v4.address.octets();
  std::uint32_t value = static_cast<std::uint32_t>(octets[12]) << 24 |
                        static_cast<std::uint32_t>(octets[13]) << 16 |
                        static_cast<std::uint32_t>(octets[14]) << 8 | octets[15];
  value += slot + 1;
  return IpAddress::v4({static_cast<std::uint8_t>(value >> 24),
                        static_cast<std::uint8_t>(value >> 16),
                        static_cast<std::uint8_t>(value >> 8), static_cast<std::uint8_t>(value)});
}

IpAddress PersistentVips::v6_of(std::uint32_t slot) const {
  auto octets = options_.v6.address.octets();
  const std::uint32_t value = slot + 1;
  for (std::size_t i = 0; i < 4; ++i)
    octets[15 - i] = static_cast<std::uint8_t>(octets[15 - i] | (value >> (8 * i)));
  return IpAddress::v6(octets);
}

}  // namespace meshdns::registry
