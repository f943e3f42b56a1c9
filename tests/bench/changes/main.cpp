// SPDX-License-Identifier: Apache-2.0
// A Kubernetes API whose EndpointSlices change, and a client that sees when the changes reach the
// answers.  Driven by tests/bench/changes/run, by lines on the standard input:
//
//   changes SERVICES ENDPOINTS streamed|paged   prints "port N"
//   > measure SERVER PORT PROCESS CHANGES_PER_SECOND SECONDS QUERIES_PER_SECOND
//   > relist                                    the slices' watch ends with 410
#include <arpa/inet.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>
#include <thread>
#include <utility>

#include "tests/bench/changes/api.hpp"
#include "tests/bench/changes/prober.hpp"

namespace meshdns::bench {
namespace {

constexpr unsigned kMaxChanges = 4'000'000;

struct Plan {
  sockaddr_in server{};
  int process = 0;
  double changes_per_second = 0;
  double seconds = 0;
  double queries_per_second = 0;  // besides those for changed names
};

double milliseconds(std::uint64_t ns) { return static_cast<double>(ns) * 1e-6; }

// Evenly spread; what is overdue follows at once.
std::uint32_t feed(const Plan& plan, Cluster& cluster, Api& api, Prober& prober) {
  std::minstd_rand random(2);
  const auto began = Clock::now();
  const auto count = static_cast<std::uint32_t>(plan.changes_per_second * plan.seconds);
  for (std::uint32_t i = 0; i < count; ++i) {
    std::this_thread::sleep_until(began +
                                  std::chrono::duration_cast<Clock::duration>(
                                      std::chrono::duration<double>(i / plan.changes_per_second)));
    Change change = cluster.change(static_cast<unsigned>(random() % cluster.services()));
    const std::string slice = cluster.slice_json(change.service);
    change.written_at = Clock::now();
    prober.note(change);
    api.send_modified(slice);
  }
  return count;
}

// Of the thread that reads the API.
std::uint64_t control_time(int process) {
  const std::string number = std::to_string(process);
  std::ifstream file("/proc/" + number + "/task/" + number + "/schedstat");
  std::uint64_t time = 0;
  file >> time;
  return time;
}

void print(const Report& report) {
  const Histogram& delay = report.delay;
  std::printf(
      ",\"seen\":%llu,\"unseen\":%llu,\"p50_ms\":%.2f,\"p99_ms\":%.2f,"
      "\"p999_ms\":%.2f,\"max_ms\":%.2f,\"late\":%llu,\"asked\":%llu,\"lost\":%llu,\"wrong\":%llu,"
      "\"stale\":%llu",
      static_cast<unsigned long long>(delay.count()),
      static_cast<unsigned long long>(report.unseen), milliseconds(delay.quantile(0.5)),
      milliseconds(delay.quantile(0.99)), milliseconds(delay.quantile(0.999)),
      milliseconds(report.longest_ns), static_cast<unsigned long long>(report.late),
      static_cast<unsigned long long>(report.asked), static_cast<unsigned long long>(report.lost),
      static_cast<unsigned long long>(report.wrong), static_cast<unsigned long long>(report.stale));
}

void measure(const Plan& plan, Cluster& cluster, Api& api) {
  Prober prober(cluster, plan.server);
  std::atomic<bool> is_over = false;
  std::thread prober_thread([&] { prober.run(plan.queries_per_second, is_over); });
  const auto began = Clock::now();
  const std::uint64_t control_before = control_time(plan.process);
  const std::uint32_t changes = feed(plan, cluster, api, prober);
  const double seconds = std::chrono::duration<double>(Clock::now() - began).count();
  const std::uint64_t control = control_time(plan.process) - control_before;
  is_over = true;
  prober_thread.join();
  std::printf("{\"changes\":%u,\"seconds\":%.2f,\"control_us_per_change\":%.1f", changes, seconds,
              static_cast<double>(control) * 1e-3 / changes);
  print(prober.report());
  std::puts("}");
}

void run(Cluster& cluster, Api& api) {
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream words(line);
    std::string what;
    std::string address;
    std::uint16_t port = 0;
    Plan plan;
    words >> what;
    if (what == "measure") {
      words >> address >> port >> plan.process >> plan.changes_per_second >> plan.seconds >>
          plan.queries_per_second;
      plan.server.sin_family = AF_INET;
      plan.server.sin_port = htons(port);
      inet_pton(AF_INET, address.c_str(), &plan.server.sin_addr);
      measure(plan, cluster, api);
    } else if (what == "relist") {
      api.forget_history();
      std::puts("{}");
    }
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace meshdns::bench

int main(int argc, char** argv) {
  using namespace meshdns::bench;
  const auto number = [&](int i) {
    return argc == 4 ? static_cast<unsigned>(std::strtoul(argv[i], nullptr, 10)) : 0;
  };
  if (number(1) == 0 || number(2) == 0) {
    std::fprintf(stderr,
                 "changes: SERVICES ENDPOINTS streamed|paged; see tests/bench/changes/main.cpp\n");
    return 2;
  }
  Cluster cluster(number(1), number(2), kMaxChanges);
  Api api(cluster, std::string_view(argv[3]) == "streamed");
  std::printf("port %u\n", api.port());
  std::fflush(stdout);
  run(cluster, api);
  std::_Exit(0);  // connections' threads wait for ever
}
