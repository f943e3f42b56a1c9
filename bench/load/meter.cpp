// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <fstream>
#include <string>

#include "bench/load/run.hpp"

namespace meshdns::bench {

void Meter::start() {
  cpu_seconds_ = cpu_now();
  started_ = Clock::now();
}

void Meter::stop() {
  seconds_ = std::chrono::duration<double>(Clock::now() - started_).count();
  cpu_seconds_ = cpu_now() - cpu_seconds_;
}

// The scheduler's own figure, in nanoseconds: that of /proc/PID/stat has ticks of 10 ms.
double Meter::cpu_now() const {
  double total = 0;
  for (const int process : processes_) {
    const std::string tasks = "/proc/" + std::to_string(process) + "/task";
    std::error_code error;
    for (const auto& task : std::filesystem::directory_iterator(tasks, error)) {
      std::ifstream file(task.path() / "schedstat");
      double nanoseconds = 0;
      file >> nanoseconds;
      total += nanoseconds / 1e9;
    }
  }
  return total;
}

}  // namespace meshdns::bench
