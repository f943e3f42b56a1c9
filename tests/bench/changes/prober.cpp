// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/changes/prober.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace meshdns::bench {
namespace {

constexpr std::size_t kHeaderSize = 12;
constexpr std::size_t kLately = 4096;
constexpr std::uint64_t kLateNs = 10'000'000;

// A question for the name's A records.
std::string encode(std::uint16_t id, const std::string& name) {
  std::string message{
      static_cast<char>(id >> 8), static_cast<char>(id), 1, 0, 0, 1, 0, 0, 0, 0, 0, 0};
  for (std::size_t begin = 0; begin < name.size();) {
    const std::size_t end = std::min(name.find('.', begin), name.size());
    message += static_cast<char>(end - begin);
    message.append(name, begin, end - begin);
    begin = end + 1;
  }
  return message.append({0, 0, 1, 0, 1});
}

std::uint16_t read_u16(const std::uint8_t* octets) {
  return static_cast<std::uint16_t>(octets[0] << 8 | octets[1]);
}

// The addresses of a reply's A records; nothing where it is not what a server of ours sends.
std::optional<std::vector<std::uint32_t>> addresses_of(const std::uint8_t* message,
                                                       std::size_t size) {
  if ((message[3] & 15) != 0 || (message[2] & 0x02) != 0) return {};
  std::size_t at = kHeaderSize;
  while (at < size && message[at] != 0) at += message[at] + std::size_t{1};
  at += 5;
  std::vector<std::uint32_t> found;
  for (unsigned left = read_u16(message + 6); left > 0; --left) {
    if (at + 16 > size || message[at] < 0xc0 || read_u16(message + at + 2) != 1) return {};
    const std::uint8_t* const data = message + at + 12;
    found.push_back(static_cast<std::uint32_t>(read_u16(data)) << 16 | read_u16(data + 2));
    at += 16;
  }
  return found;
}

}  // namespace

Prober::Prober(const Cluster& cluster, const sockaddr_in& server)
    : cluster_(cluster),
      socket_(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)),
      confirmed_(cluster.services()),
      lately_(kLately) {
  if (::connect(socket_, reinterpret_cast<const sockaddr*>(&server), sizeof server) != 0) {
    std::perror("changes: no socket");
    std::exit(1);
  }
}

Prober::~Prober() { ::close(socket_); }

void Prober::note(const Change& change) {
  const std::lock_guard lock(mutex_);
  changes_.push_back(change);
}

void Prober::take_changes() {
  std::vector<Change> fresh;
  {
    const std::lock_guard lock(mutex_);
    fresh.swap(changes_);
  }
  for (const Change& change : fresh) {
    lately_[next_lately_++ % kLately] = change.service;
    awaited_.emplace(change.number, Awaited{change, change.written_at});
  }
}

void Prober::run(double rate, const std::atomic<bool>& is_over) {
  const auto began = Clock::now();
  std::optional<Clock::time_point> over_at;
  std::uint64_t asked = 0;
  pollfd socket{socket_, POLLIN, 0};
  for (;;) {
    take_changes();
    const auto now = Clock::now();
    if (!over_at && is_over) over_at = now;
    if (over_at && (is_idle() || now > *over_at + std::chrono::seconds(2))) break;
    const double seconds = std::chrono::duration<double>(now - began).count();
    for (; !over_at && static_cast<double>(asked) < seconds * rate; ++asked) ask(some_service(), 0);
    ask_awaited();
    const bool has_received = receive();
    give_up_old(now);
    const timespec pause{0, 50'000};
    if (!has_received) ::ppoll(&socket, 1, &pause, nullptr);
  }
  report_.unseen = awaited_.size();
}

std::uint32_t Prober::some_service() {
  const std::size_t known = std::min(next_lately_, kLately);
  const auto number = static_cast<std::uint32_t>(random_());
  if (known > 0 && number % 2 == 0) return lately_[number / 2 % known];
  return number % cluster_.services();
}

void Prober::ask_awaited() {
  const auto now = Clock::now();
  for (auto& [number, awaited] : awaited_) {
    if (awaited.is_asked || awaited.ask_at > now) continue;
    awaited.is_asked = true;
    ask(awaited.change.service, number);
  }
}

void Prober::ask(std::uint32_t service, std::uint32_t change) {
  const std::uint16_t id = ++last_id_;
  const std::string message = encode(id, cluster_.name_of(service));
  const auto now = Clock::now();
  questions_[id] = {service, change, confirmed_[service], now, true};
  sent_.emplace_back(id, now);
  ++report_.asked;
  (void)::send(socket_, message.data(), message.size(), MSG_DONTWAIT);
}

bool Prober::receive() {
  bool has_received = false;
  for (;;) {
    std::array<std::uint8_t, 2048> message;
    const ssize_t size = ::recv(socket_, message.data(), message.size(), MSG_DONTWAIT);
    if (size < static_cast<ssize_t>(kHeaderSize)) return has_received;
    has_received = true;
    judge(message.data(), static_cast<std::size_t>(size), Clock::now());
  }
}

void Prober::judge(const std::uint8_t* message, std::size_t size, Clock::time_point now) {
  Question& question = questions_[read_u16(message)];
  if (!std::exchange(question.is_open, false)) return;
  const auto found = addresses_of(message, size);
  bool is_wrong = !found || found->size() != cluster_.endpoints();
  bool is_stale = false;
  bool shows_change = false;
  const auto awaited = awaited_.find(question.change);
  for (const std::uint32_t ip : found.value_or(std::vector<std::uint32_t>())) {
    const std::uint32_t address = ip - Cluster::kFirstAddress;
    if (cluster_.owner_of(address) != question.service) {
      is_wrong = true;
      continue;
    }
    const std::uint32_t removed_by = cluster_.removed_by(address);
    is_stale |= removed_by != 0 && removed_by <= question.confirmed;
    shows_change |= awaited != awaited_.end() && address == awaited->second.change.added;
  }
  report_.wrong += is_wrong ? 1 : 0;
  report_.stale += is_stale ? 1 : 0;
  if (awaited == awaited_.end()) return;
  awaited->second.shown = shows_change ? awaited->second.shown + 1 : 0;
  if (awaited->second.shown < kAnswersOfAll) {
    awaited->second.is_asked = false;
    awaited->second.ask_at = shows_change ? now : now + kAskAgainAfter;
    return;
  }
  const Change& change = awaited->second.change;
  const auto delay = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(now - change.written_at).count());
  report_.delay.add(delay);
  report_.longest_ns = std::max(report_.longest_ns, delay);
  report_.late += delay > kLateNs ? 1 : 0;
  std::uint32_t& confirmed = confirmed_[change.service];
  confirmed = std::max(confirmed, change.number);
  awaited_.erase(awaited);
}

void Prober::give_up_old(Clock::time_point now) {
  while (!sent_.empty()) {
    const auto [id, sent_at] = sent_.front();
    Question& question = questions_[id];
    const bool is_open = question.is_open && question.sent_at == sent_at;
    if (is_open && now - sent_at < kLostAfter) return;
    sent_.pop_front();
    if (!is_open) continue;
    question.is_open = false;
    ++report_.lost;
    if (const auto awaited = awaited_.find(question.change); awaited != awaited_.end())
      awaited->second.is_asked = false;
  }
}

bool Prober::is_idle() const { return awaited_.empty() && sent_.empty(); }

}  // namespace meshdns::bench
