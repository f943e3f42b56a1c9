// SPDX-License-Identifier: Apache-2.0
#include "dnsd/mesh/mesh_analysis.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "registry/base/cpu_time.hpp"

namespace meshdns::dnsd {

void MeshAnalysis::tick(Time now) {
  if (job_ && job_->is_done) conclude();
  if (job_ || !is_time(now)) return;
  job_ = std::make_unique<Job>();
  job_->snapshot = registry_.current();
  job_->begun = now;
  work_ = std::jthread([job = job_.get()] { run(*job); });
}

void MeshAnalysis::close() {
  if (job_) job_->is_to_end = true;
  if (work_.joinable()) work_.join();
  job_.reset();
}

bool MeshAnalysis::is_time(Time now) {
  const registry::Snapshot& snapshot = *registry_.current();
  const bool stands_still = std::exchange(seen_, snapshot.generation) == snapshot.generation;
  if (snapshot.generation == analysed_ || !snapshot.sources.synced) return false;
  changed_since_ = std::min(changed_since_, now);
  if (!stands_still && now - changed_since_ < kLongestDelay) return false;
  return now >= not_before_;
}

void MeshAnalysis::run(Job& job) {
  const auto begun = thread_cpu_time();
  job.report = registry::analyse(*job.snapshot, [&] { return job.is_to_end.load(); });
  job.took = thread_cpu_time() - begun;
  job.is_done = true;
}

// The snapshot is released here, because only the control thread may free its parts.
void MeshAnalysis::conclude() {
  work_.join();
  const auto counts = status_.report.counts;
  status_.report = std::move(job_->report);
  status_.seconds = std::chrono::duration<double>(job_->took).count();
  analysed_ = job_->snapshot->generation;
  changed_since_ = Time::max();
  not_before_ = std::chrono::steady_clock::now() +
                std::max<std::chrono::steady_clock::duration>(kMinPause, kPauseFactor * job_->took);
  job_.reset();
  tell(counts);
}

void MeshAnalysis::tell(const registry::FindingCounts& before) const {
  const auto& counts = status_.report.counts;
  if (counts == before) return;
  const std::size_t all = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  log_.info("findings across resources have changed",
            {{"findings", all}, {"see", std::string_view("/registry/findings")}});
}

}  // namespace meshdns::dnsd
