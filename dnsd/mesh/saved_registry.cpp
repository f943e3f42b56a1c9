// SPDX-License-Identifier: Apache-2.0
#include "dnsd/mesh/saved_registry.hpp"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "dnsd/mesh/state_directory.hpp"
#include "registry/base/durable_file.hpp"

namespace meshdns::dnsd {
namespace {

using registry::SavedSource;
using registry::SnapshotFileError;

constexpr std::string_view kSnapshotFile = "snapshot";

bool is_same(const SavedSource& a, const SavedSource& b) {
  return a.name == b.name && a.cluster == b.cluster && a.network == b.network;
}

}  // namespace

SavedRegistry::SavedRegistry(registry::Registry& registry, RegistryFeed& feed, Log& log)
    : registry_(registry), feed_(feed), log_(log) {}

void SavedRegistry::open(const std::string& state_dir, std::vector<SavedSource> sources) {
  file_ = state_file(state_dir, kSnapshotFile);
  sources_ = std::move(sources);
  if (!file_.empty()) restore();
  saved_ = version();
}

void SavedRegistry::restore() {
  const auto begun = std::chrono::steady_clock::now();
  const auto opened = open_regular(file_);
  if (!opened)
    return log_.warn("cannot read the saved state",
                     {{"reason", std::string_view(opened.error().message)}});
  const FileDescriptor& fd = *opened;
  if (!fd) return;
  auto saved = registry::read_snapshot_file(
      [&](std::span<std::uint8_t> octets) { return read_fully(fd.get(), octets); },
      {.wants =
           [&](const SavedSource& saved_source) {
             return std::ranges::any_of(
                 sources_, [&](const SavedSource& s) { return is_same(s, saved_source); });
           },
       .origin = [&](std::string_view name) { return registry_.origin(name); }});
  if (!saved) {
    if (saved.error().kind == SnapshotFileError::Kind::Corrupt)
      return set_aside(saved.error().message);
    return log_.warn(
        "cannot use the saved state",
        {{"file", std::string_view(file_)}, {"reason", std::string_view(saved.error().message)}});
  }
  for (std::size_t i = 0; i < saved->sources.size(); ++i)
    if (!saved->wanted[i])
      log_.warn("ignored a source of the saved state that is not in the configuration",
                {{"source", std::string_view(saved->sources[i].name)}});
  const std::size_t resources = saved->resources.size();
  // A clock that was ahead of now, then or since, makes no state of the future.
  const std::int64_t now = unix_now();
  const std::int64_t age = now - std::clamp<std::int64_t>(saved->written_at, 0, now);
  feed_.restore(std::move(*saved));
  if (!feed_.is_restored()) return;
  const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now() - begun);
  log_.info("serving the saved state until all sources have been read",
            {{"resources", resources}, {"age_s", age}, {"took_ms", took.count()}});
}

void SavedRegistry::set_aside(const std::string& reason) {
  const std::string aside = file_ + ".corrupt";
  const bool moved = std::rename(file_.c_str(), aside.c_str()) == 0;
  log_.warn("the saved state is damaged; renamed its file and started without it",
            {{"file", std::string_view(file_)},
             {"reason", std::string_view(reason)},
             {"aside", moved ? std::string_view(aside) : std::string_view("not moved")}});
}

void SavedRegistry::reconfigure(const std::string& state_dir, std::vector<SavedSource> sources) {
  if (state_file(state_dir, kSnapshotFile) == file_ && sources == sources_) return;
  file_ = state_file(state_dir, kSnapshotFile);
  sources_ = std::move(sources);
  status_.trouble.clear();
  ++configurations_;
}

SavedRegistry::Version SavedRegistry::version() const {
  return {feed_.counters().changed_resources, feed_.complete_sources(), configurations_};
}

void SavedRegistry::tick(Time now) {
  if (job_ && job_->done) conclude(*job_);
  if (!is_time_to_write(now) || job_ || now < next_save_) return;
  job_ = prepare(now);
  if (!job_) return;
  work_ = std::jthread([job = job_.get()] {
    write(*job);
    job->done = true;
  });
}

bool SavedRegistry::is_time_to_write(Time now) {
  const Version current = version();
  const bool stands_still = std::exchange(seen_, current) == current;
  if (current == saved_) return false;
  unsaved_since_ = std::min(unsaved_since_, now);
  return stands_still || now - unsaved_since_ >= kLongestDelay;
}

void SavedRegistry::close() {
  if (job_) conclude(*job_);
  job_ = prepare(std::chrono::steady_clock::now());
  if (!job_) return;
  write(*job_);
  conclude(*job_);
  file_.clear();
}

// Null when the file is up to date, or nothing new is known as a whole.
std::unique_ptr<SavedRegistry::Job> SavedRegistry::prepare(Time now) {
  if (file_.empty() || version() == saved_ || feed_.is_interrupted()) return nullptr;
  auto job = std::make_unique<Job>();
  job->file = file_;
  job->snapshot = registry_.current();
  job->sources = feed_.saved_sources(sources_);
  job->version = version();
  job->begun = now;
  return job;
}

void SavedRegistry::write(Job& job) {
  const auto begun = std::chrono::steady_clock::now();
  auto file = DurableFile::create(job.file);
  if (!file) {
    job.outcome = std::unexpected(file.error());
    return;
  }
  job.outcome = registry::write_snapshot_file(*job.snapshot, job.sources, unix_now(),
                                              [&](std::span<const std::uint8_t> octets) {
                                                job.bytes += octets.size();
                                                return file->write(octets);
                                              });
  if (job.outcome) job.outcome = file->commit();
  job.took = std::chrono::steady_clock::now() - begun;
}

void SavedRegistry::conclude(Job& job) {
  if (work_.joinable()) work_.join();
  if (job.outcome) {
    saved_ = job.version;
    unsaved_since_ = Time::max();
    status_.written_unix = unix_now();
    status_.bytes = job.bytes;
    if (!std::exchange(status_.trouble, {}).empty()) log_.info("the state is saved again");
    next_save_ = job.begun + std::max<Time::duration>(kSavePause, 50 * job.took);
  } else {
    ++status_.failures;
    status_.trouble = job.outcome.error().message;
    next_save_ = job.begun + kPauseAfterFailure;
    log_.write_folded(LogLevel::Warn, "cannot save the state",
                      {{"reason", std::string_view(job.outcome.error().message)}});
  }
  job_.reset();
}

StateStatus SavedRegistry::status() const { return status_; }

}  // namespace meshdns::dnsd
