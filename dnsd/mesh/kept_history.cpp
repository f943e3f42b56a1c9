// SPDX-License-Identifier: Apache-2.0
#include "dnsd/mesh/kept_history.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <tuple>
#include <utility>

#include "dnsd/mesh/past_registry.hpp"

namespace meshdns::dnsd {
namespace {

using registry::StoredResource;
using registry::VipAssignment;

auto key_of_vip(const VipAssignment& vip) { return std::tie(vip.ns, vip.host, vip.v4, vip.v6); }

bool is_less(const VipAssignment& a, const VipAssignment& b) {
  return key_of_vip(a) < key_of_vip(b);
}

// Makes room for one file.  Nobody else writes in the directory, so sizes are counted.
class HistoryRoom {
 public:
  HistoryRoom(const std::string& state_dir, std::uint64_t size)
      : older_(history_files(state_dir)), size_(size) {
    for (const HistoryFile& file : older_) all_ += file.bytes;
  }

  // Removes the files that end before `oldest`: where the next one begins.
  Result<void> remove_outdated(std::int64_t oldest) {
    while (older_.size() > 1 && older_[1].begins < oldest)
      if (auto removed = remove_first(); !removed) return removed;
    return {};
  }
  // Removes the oldest files until `octets` more fit into the size.
  Result<void> make(std::uint64_t octets) {
    all_ += octets;
    while (all_ > size_ && !older_.empty())
      if (auto removed = remove_first(); !removed) return removed;
    return all_ <= size_ ? Result<void>() : fail("history.size is too small for the changes");
  }

 private:
  Result<void> remove_first() {
    const HistoryFile& file = older_.front();
    if (::unlink(file.path.c_str()) != 0 && errno != ENOENT)
      return fail("cannot remove " + file.path + ": " + std::strerror(errno));
    all_ -= file.bytes;
    older_.erase(older_.begin());
    return {};
  }

  std::vector<HistoryFile> older_;  // than the one that is written; the oldest first
  const std::uint64_t size_;
  std::uint64_t all_ = 0;
};

}  // namespace

KeptHistory::KeptHistory(registry::Registry& registry, RegistryFeed& feed, Log& log)
    : registry_(registry), feed_(feed), log_(log) {}

void KeptHistory::follow(const std::string& state_dir, const HistoryConfig& config) {
  const std::string wanted = config.is_on() ? state_dir : std::string();
  if (wanted == state_dir_ && config == config_) return;
  finish();
  give_up_file();
  state_dir_ = wanted;
  config_ = config;
  trouble_.clear();
  not_before_ = Time::min();
  if (!state_dir_.empty() && !earlier_) recall();
}

// Before this run has written there.
void KeptHistory::recall() {
  earlier_ = std::make_unique<Earlier>();
  earlier_->files = history_files(state_dir_);
  recalling_ = std::jthread([earlier = earlier_.get()](const std::stop_token& stop) {
    earlier->troubles = read_changes(earlier->files, kMostRecalled, stop, earlier->changes);
    earlier->done = true;
  });
}

void KeptHistory::conclude_recall() {
  recalling_.join();
  if (earlier_->troubles.empty()) return;
  log_.warn("cannot read all of the history of answers",
            {{"files", earlier_->troubles.size()},
             {"reason", std::string_view(earlier_->troubles.front())}});
}

const std::deque<AnswerEvent>& KeptHistory::earlier_changes() const {
  static const std::deque<AnswerEvent> none;
  return earlier_ && earlier_->done ? earlier_->changes.events() : none;
}

// The file stays as it was written.
void KeptHistory::give_up_file() {
  writer_.reset();
  objects_ = {};
  origins_ = {};
  vips_.clear();
  touched_.clear();
  handler_.reset();
  feed_.set_result_listener({});
}

// A state that is still coming in is not what clients get.
bool KeptHistory::is_time_to_begin(Time now) const {
  const registry::SourceState& sources = registry_.current()->sources;
  return sources.synced || now - waits_since_ >= kLongestWait;
}

void KeptHistory::tick(Time now, std::int64_t unix_seconds, const std::string& state_dir,
                       const HistoryConfig& config, const AnswerHistory& answers) {
  follow(state_dir, config);
  if (recalling_.joinable() && earlier_->done) conclude_recall();
  if (job_ && job_->done) conclude();
  if (job_ || state_dir_.empty()) return;
  waits_since_ = std::min(waits_since_, now);
  if (now < not_before_ || (!writer_ && !is_time_to_begin(now))) return;
  job_ = prepare(now, unix_seconds, answers);
  if (!job_) return;
  work_ = std::jthread([job = job_.get()] {
    write(*job);
    job->done = true;
  });
}

void KeptHistory::finish() {
  if (job_) conclude();
}

void KeptHistory::close(std::int64_t unix_seconds, const AnswerHistory& answers) {
  recalling_ = {};
  finish();
  if (writer_ && !feed_.is_interrupted()) {
    job_ = prepare(std::chrono::steady_clock::now(), unix_seconds, answers);
    if (job_) {
      write(*job_);
      conclude();
    }
  }
  give_up_file();
  state_dir_.clear();
}

// Returns whether all names that endpoints have were looked up once.  A service that waits for one
// of several names is answered with the others if it was answered before, which a file does not
// have.
bool KeptHistory::has_all_results() const {
  for (const auto& ns : registry_.namespaces_with_endpoint_names())
    for (const auto& name : registry_.endpoint_names_of(ns)) {
      const registry::ResolvedName* const result = registry_.resolved(ns, name);
      if (result == nullptr || result->state == registry::ResolvedName::State::Pending)
        return false;
    }
  return true;
}

// Returns whether the next record is the first of a file.
bool KeptHistory::is_time_for_file(std::int64_t unix_seconds) const {
  // The names of files are the order of their records.
  if (!writer_ || unix_seconds < last_record_) return true;
  const std::uint64_t most =
      std::max<std::uint64_t>(config_.size_bytes / kFiles, 2 * writer_->bytes_at_first());
  if (writer_->bytes() > 2 * most) return true;
  const bool is_old = unix_seconds - writer_->begins() > config_.keep.count() / kFiles;
  return (is_old || writer_->bytes() > most) && has_all_results();
}

void KeptHistory::begin_file() {
  give_up_file();
  // A network that has ended is in no object any more.
  if (const auto changes = registry_.settle_networks()) feed_.follow(*changes);
  handler_ = registry_.controller().attach(
      [this](const registry::Changes& changes, const registry::Snapshot&) {
        for (const auto& use : changes.names.added) touched_.emplace(use.ns, use.name);
        for (const auto& use : changes.names.removed) touched_.emplace(use.ns, use.name);
      });
  feed_.set_result_listener(
      [this](std::string_view ns, const std::string& name) { touched_.emplace(ns, name); });
}

// Null: there is nothing new.
std::unique_ptr<KeptHistory::Job> KeptHistory::prepare(Time now, std::int64_t unix_seconds,
                                                       const AnswerHistory& answers) {
  const bool is_first = is_time_for_file(unix_seconds);
  if (is_first) begin_file();
  const auto& snapshot = registry_.current();
  const HistoryFacts facts{configuration_, snapshot->serial, snapshot->sources,
                           snapshot->gateways.get() != nullptr};
  const std::uint64_t new_events = answers.counts().all() - events_;
  if (!is_first && snapshot->generation == generation_ && facts == facts_ && new_events == 0 &&
      unix_seconds - last_record_ < kLongestSilence.count())
    return nullptr;
  auto job = std::make_unique<Job>();
  job->begun = now;
  job->state_dir = state_dir_;
  job->config = config_;
  job->unix_seconds = unix_seconds;
  job->is_first = is_first;
  job->before = objects_;
  job->origins_before = origins_;
  job->snapshot = snapshot;
  if (is_first || facts != facts_) job->facts = facts;
  take_results(*job);
  if (const std::uint64_t changes = registry_.virtual_address_changes();
      is_first || changes != vip_changes_) {
    job->has_vips = true;
    job->vips_before = std::move(vips_);
    job->vips = registry_.virtual_addresses();
    vip_changes_ = changes;
  }
  const std::size_t events = std::min<std::size_t>(new_events, answers.events().size());
  job->events.assign(answers.events().end() - static_cast<std::ptrdiff_t>(events),
                     answers.events().end());
  job->writer = std::move(writer_);
  facts_ = facts;
  generation_ = snapshot->generation;
  last_record_ = unix_seconds;
  events_ = answers.counts().all();
  return job;
}

void KeptHistory::take_results(Job& job) {
  if (job.is_first)
    for (const auto& ns : registry_.namespaces_with_endpoint_names())
      for (auto& name : registry_.endpoint_names_of(ns)) touched_.emplace(ns, std::move(name));
  for (const auto& [ns, name] : std::exchange(touched_, {})) {
    const registry::ResolvedName* const result = registry_.resolved(ns, name);
    if (result == nullptr && job.is_first) continue;
    job.results.emplace_back(ns, result != nullptr ? *result : registry::ResolvedName());
    job.results.back().second.host = name;
  }
}

void KeptHistory::write(Job& job) {
  if (job.is_first) job.outcome = create_file(job);
  if (!job.outcome) return;
  HistoryWriter& writer = *job.writer;
  if (job.facts) writer.put(*job.facts);
  put_objects(job);
  if (job.has_vips) put_vips(job);
  for (const auto& [ns, result] : job.results) writer.put(ns, result);
  for (const auto& event : job.events) writer.put(event);
  job.outcome = writer.end_record(job.unix_seconds);
  if (!job.outcome || !job.is_first) return;
  if (writer.bytes_at_first() <= job.config.size_bytes / kLeastFiles) return;
  job.is_too_large = true;
  job.outcome = fail("history.size is too small: all objects take " +
                     std::to_string(writer.bytes_at_first()) + " octets, more than a quarter");
  ::unlink(writer.path().c_str());
}

Result<void> KeptHistory::create_file(Job& job) {
  HistoryRoom room(job.state_dir, job.config.size_bytes);
  if (auto removed = room.remove_outdated(job.unix_seconds - job.config.keep.count()); !removed)
    return removed;
  auto writer = HistoryWriter::create(
      job.state_dir, job.unix_seconds,
      [room = std::move(room)](std::uint64_t octets) mutable { return room.make(octets); });
  if (!writer) return std::unexpected(writer.error());
  job.writer = *std::move(writer);
  return {};
}

// Puts what has changed, in an order that has alike objects together: they take a third of the
// room.
void KeptHistory::put_objects(Job& job) {
  const registry::OriginNames& names = *job.snapshot->origins;
  // The id of an origin that has gone is another's.
  const auto name_before = [&](const StoredResource& object) {
    return job.origins_before ? job.origins_before->of(object.origin()) : std::string_view();
  };
  std::vector<const StoredResource*> added;
  std::vector<const StoredResource*> gone;
  std::vector<const StoredResource*> came;
  const auto conclude_place = [&] {
    for (const StoredResource* object : gone) {
      const bool is_replaced = std::ranges::any_of(came, [&](const StoredResource* other) {
        return other->has_key_of(*object) && names.of(other->origin()) == name_before(*object);
      });
      if (!is_replaced) job.writer->put_removed(name_before(*object), *object);
    }
    added.insert(added.end(), came.begin(), came.end());
    gone.clear();
    came.clear();
  };
  Objects::compare(
      job.before, job.snapshot->resources, [&](const auto& object) { gone.push_back(&object); },
      [&](const auto& object) { came.push_back(&object); }, conclude_place);
  std::ranges::sort(added, [](const StoredResource* a, const StoredResource* b) {
    return a->origin() != b->origin() ? a->origin() < b->origin() : a->encoded() < b->encoded();
  });
  for (const StoredResource* object : added)
    job.writer->put(names.of(object->origin()), object->line(), object->encoded());
}

void KeptHistory::put_vips(Job& job) {
  std::ranges::sort(job.vips, is_less);
  std::vector<VipAssignment> rest;
  std::ranges::set_difference(job.vips_before, job.vips, std::back_inserter(rest), is_less);
  for (const auto& vip : rest) job.writer->put_removed(vip);
  rest.clear();
  std::ranges::set_difference(job.vips, job.vips_before, std::back_inserter(rest), is_less);
  for (const auto& vip : rest) job.writer->put(vip);
}

void KeptHistory::conclude() {
  if (work_.joinable()) work_.join();
  const std::unique_ptr<Job> job = std::exchange(job_, nullptr);
  if (job->outcome) {
    writer_ = std::move(job->writer);
    objects_ = job->snapshot->resources;
    origins_ = job->snapshot->origins;
    if (job->has_vips) vips_ = std::move(job->vips);
    trouble_.clear();
    return;
  }
  give_up_file();
  not_before_ =
      job->begun + (job->is_too_large ? Time::duration(kPauseIfTooLarge) : kPauseAfterFailure);
  // A reason is said again only after it was gone, or another one came.
  const std::string before = std::exchange(trouble_, job->outcome.error().message);
  if (trouble_ != before)
    log_.warn("cannot write the history of answers", {{"reason", std::string_view(trouble_)}});
}

}  // namespace meshdns::dnsd
