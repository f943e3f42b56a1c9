// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/bench/load/run.hpp"

namespace meshdns::bench {

void Meter::start() {
  cpu_seconds_ = cpu_now();
  machine_cpu_seconds_ = machine_cpu_now();
  started_ = Clock::now();
}

void Meter::stop() {
  seconds_ = std::chrono::duration<double>(Clock::now() - started_).count();
  cpu_seconds_ = cpu_now() - cpu_seconds_;
  machine_cpu_seconds_ = machine_cpu_now() - machine_cpu_seconds_;
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

// The kernel counts idle time exactly, and the other times by ticks.
double Meter::machine_cpu_now() {
  std::ifstream file("/proc/stat");
  std::string label;
  double user = 0;
  double nice = 0;
  double system = 0;
  double idle = 0;
  double waiting = 0;
  file >> label >> user >> nice >> system >> idle >> waiting;
  const double wall = std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
  return wall * static_cast<double>(::sysconf(_SC_NPROCESSORS_ONLN)) -
         (idle + waiting) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

}  // namespace meshdns::bench
