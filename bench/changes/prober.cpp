#include "bench/changes/prober.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

namespace meshdns::bench {
namespace {

constexpr std::size_t kHeaderSize = 12;
constexpr std::size_t kLately = 4096;
constexpr unsigned kTriesPerWorker = 64;
constexpr unsigned kQuestionsPerTry = 200;
constexpr std::uint64_t kLateNs = 10'000'000;

std::string first_line(const std::filesystem::path& path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return line;
}

// CPU time in ns of the process's threads that answer queries, by name.
std::map<std::string, std::uint64_t> worker_times(int process) {
  std::map<std::string, std::uint64_t> times;
  const std::string tasks = "/proc/" + std::to_string(process) + "/task";
  for (const auto& task : std::filesystem::directory_iterator(tasks)) {
    const std::string name = first_line(task.path() / "comm");
    if (name.starts_with("worker-"))
      times[name] = std::stoull(first_line(task.path() / "schedstat"));
  }
  return times;
}

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

Prober::Prober(const Cluster& cluster, const sockaddr_in& server, int process)
    : cluster_(cluster), server_(server), lately_(kLately) {
  find_workers(process);
}

Prober::~Prober() {
  for (const Worker& worker : workers_) ::close(worker.socket);
}

// The worker whose CPU time grows while a port is used is the one that the port leads to.
void Prober::find_workers(int process) {
  const auto names = worker_times(process);
  std::map<std::string, int> sockets;
  const std::string question = encode(7, cluster_.name_of(0));
  for (std::size_t i = 0; i < kTriesPerWorker * names.size() && sockets.size() < names.size();
       ++i) {
    const int socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const timeval patience{1, 0};
    ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (::connect(socket, reinterpret_cast<const sockaddr*>(&server_), sizeof server_) != 0) break;
    const auto before = worker_times(process);
    std::array<char, 2048> reply;
    for (unsigned n = 0; n < kQuestionsPerTry; ++n)
      if (::send(socket, question.data(), question.size(), 0) > 0)
        (void)::recv(socket, reply.data(), reply.size(), 0);
    std::string busiest;
    std::uint64_t most = 0;
    for (const auto& [name, time] : worker_times(process)) {
      const std::uint64_t used = time - before.at(name);
      if (used > most) {
        most = used;
        busiest = name;
      }
    }
    if (!sockets.emplace(busiest, socket).second) ::close(socket);
  }
  if (sockets.empty() || sockets.size() < names.size()) {
    std::fprintf(stderr, "changes: %zu of %zu workers found\n", sockets.size(), names.size());
    std::exit(1);
  }
  for (const auto& [name, socket] : sockets) {
    Worker& worker = workers_.emplace_back();
    worker.report.name = name;
    worker.socket = socket;
    worker.confirmed.resize(cluster_.services());
  }
}

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
    for (Worker& worker : workers_)
      worker.awaited.emplace(change.number, Awaited{change, change.written_at});
  }
}

void Prober::run(double rate, const std::atomic<bool>& is_over) {
  const auto began = Clock::now();
  std::optional<Clock::time_point> over_at;
  std::uint64_t asked = 0;
  std::vector<pollfd> sockets;
  for (const Worker& worker : workers_) sockets.push_back({worker.socket, POLLIN, 0});
  for (;;) {
    take_changes();
    const auto now = Clock::now();
    if (!over_at && is_over) over_at = now;
    if (over_at && (is_idle() || now > *over_at + std::chrono::seconds(2))) break;
    const double seconds = std::chrono::duration<double>(now - began).count();
    for (; !over_at && static_cast<double>(asked) < seconds * rate; ++asked)
      for (Worker& worker : workers_) ask(worker, some_service(), 0);
    bool has_received = false;
    for (Worker& worker : workers_) {
      ask_awaited(worker);
      has_received |= receive(worker);
      give_up_old(worker, now);
    }
    const timespec pause{0, 50'000};
    if (!has_received) ::ppoll(sockets.data(), sockets.size(), &pause, nullptr);
  }
  for (Worker& worker : workers_) worker.report.unseen = worker.awaited.size();
}

std::uint32_t Prober::some_service() {
  const std::size_t known = std::min(next_lately_, kLately);
  const auto number = static_cast<std::uint32_t>(random_());
  if (known > 0 && number % 2 == 0) return lately_[number / 2 % known];
  return number % cluster_.services();
}

void Prober::ask_awaited(Worker& worker) {
  const auto now = Clock::now();
  for (auto& [number, awaited] : worker.awaited) {
    if (awaited.is_asked || awaited.ask_at > now) continue;
    awaited.is_asked = true;
    ask(worker, awaited.change.service, number);
  }
}

void Prober::ask(Worker& worker, std::uint32_t service, std::uint32_t change) {
  const std::uint16_t id = ++worker.last_id;
  const std::string message = encode(id, cluster_.name_of(service));
  const auto now = Clock::now();
  worker.questions[id] = {service, change, worker.confirmed[service], now, true};
  worker.sent.emplace_back(id, now);
  ++worker.report.asked;
  (void)::send(worker.socket, message.data(), message.size(), MSG_DONTWAIT);
}

bool Prober::receive(Worker& worker) {
  bool has_received = false;
  for (;;) {
    std::array<std::uint8_t, 2048> message;
    const ssize_t size = ::recv(worker.socket, message.data(), message.size(), MSG_DONTWAIT);
    if (size < static_cast<ssize_t>(kHeaderSize)) return has_received;
    has_received = true;
    judge(worker, message.data(), static_cast<std::size_t>(size), Clock::now());
  }
}

void Prober::judge(Worker& worker, const std::uint8_t* message, std::size_t size,
                   Clock::time_point now) {
  Question& question = worker.questions[read_u16(message)];
  if (!std::exchange(question.is_open, false)) return;
  const auto found = addresses_of(message, size);
  bool is_wrong = !found || found->size() != cluster_.endpoints();
  bool is_stale = false;
  bool shows_change = false;
  const auto awaited = worker.awaited.find(question.change);
  for (const std::uint32_t ip : found.value_or(std::vector<std::uint32_t>())) {
    const std::uint32_t address = ip - Cluster::kFirstAddress;
    if (cluster_.owner_of(address) != question.service) {
      is_wrong = true;
      continue;
    }
    const std::uint32_t removed_by = cluster_.removed_by(address);
    is_stale |= removed_by != 0 && removed_by <= question.confirmed;
    shows_change |= awaited != worker.awaited.end() && address == awaited->second.change.added;
  }
  worker.report.wrong += is_wrong ? 1 : 0;
  worker.report.stale += is_stale ? 1 : 0;
  if (awaited == worker.awaited.end()) return;
  if (!shows_change) {
    awaited->second.is_asked = false;
    awaited->second.ask_at = now + kAskAgainAfter;
    return;
  }
  const Change& change = awaited->second.change;
  const auto delay = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(now - change.written_at).count());
  worker.report.delay.add(delay);
  worker.report.longest_ns = std::max(worker.report.longest_ns, delay);
  worker.report.late += delay > kLateNs ? 1 : 0;
  std::uint32_t& confirmed = worker.confirmed[change.service];
  confirmed = std::max(confirmed, change.number);
  worker.awaited.erase(awaited);
}

void Prober::give_up_old(Worker& worker, Clock::time_point now) {
  while (!worker.sent.empty()) {
    const auto [id, sent_at] = worker.sent.front();
    Question& question = worker.questions[id];
    const bool is_open = question.is_open && question.sent_at == sent_at;
    if (is_open && now - sent_at < kLostAfter) return;
    worker.sent.pop_front();
    if (!is_open) continue;
    question.is_open = false;
    ++worker.report.lost;
    if (const auto awaited = worker.awaited.find(question.change); awaited != worker.awaited.end())
      awaited->second.is_asked = false;
  }
}

bool Prober::is_idle() const {
  return std::ranges::all_of(
      workers_, [](const Worker& worker) { return worker.awaited.empty() && worker.sent.empty(); });
}

std::vector<WorkerReport> Prober::reports() const {
  std::vector<WorkerReport> reports;
  for (const Worker& worker : workers_) reports.push_back(worker.report);
  return reports;
}

}  // namespace meshdns::bench
