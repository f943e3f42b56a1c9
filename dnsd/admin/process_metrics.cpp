// SPDX-License-Identifier: Apache-2.0
#include "dnsd/admin/process_metrics.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

namespace meshdns::dnsd {
namespace {

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

void add_memory(MetricCollection& to) {
  std::ifstream statm("/proc/self/statm");
  std::uint64_t virtual_pages = 0;
  std::uint64_t resident_pages = 0;
  if (!(statm >> virtual_pages >> resident_pages)) return;
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  to.gauges("process_virtual_memory_bytes", "Size of the virtual memory.")
      .add(virtual_pages * page);
  to.gauges("process_resident_memory_bytes", "Size of the resident memory.")
      .add(resident_pages * page);
}

void add_descriptors(MetricCollection& to) {
  std::error_code error;
  const std::filesystem::directory_iterator open("/proc/self/fd", error);
  if (error) return;
  // One is that of the directory.
  to.gauges("process_open_fds", "Number of open file descriptors.")
      .add(static_cast<double>(std::distance(begin(open), end(open)) - 1));
}

}  // namespace

void collect_process(MetricCollection& to, double started) {
  to.gauges("process_start_time_seconds", "Unix time of the start of the process.").add(started);
  rusage usage{};
  if (::getrusage(RUSAGE_SELF, &usage) == 0) {
    to.counters("process_cpu_seconds_total", "CPU time of the process in user and kernel mode.")
        .add(seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime));
    to.gauges("process_resident_memory_max_bytes", "Largest size of the resident memory so far.")
        .add(1024.0 * static_cast<double>(usage.ru_maxrss));
  }
  add_memory(to);
  add_descriptors(to);
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0)
    to.gauges("process_max_fds", "Limit of open file descriptors.")
        .add(static_cast<double>(limit.rlim_cur));
}

}  // namespace meshdns::dnsd
