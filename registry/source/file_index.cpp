// SPDX-License-Identifier: Apache-2.0
#include "registry/source/file_index.hpp"

#include <sys/inotify.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "registry/base/durable_file.hpp"
#include "registry/base/finding.hpp"
#include "registry/base/hash.hpp"

namespace meshdns::registry {
namespace {

// Until the first look at everything is done, resources are handed over in portions, so that a
// large tree is never held twice.  Later changes are one transaction, whatever their size.
constexpr std::size_t kFirstPortion = 20'000;
// A tree that has just been made anew is still being filled.
constexpr Milliseconds kNewRootGrace{800};
constexpr Milliseconds kUnsteadyRetry{100};
constexpr int kMaxUnsteadyReads = 10;
// Limits for a single file.
constexpr std::size_t kMaxFindings = 1'000;

struct FileText {
  std::string text;
  FileIdentity identity;  // before it was read
  bool steady = true;     // it was the same afterwards
};

Result<FileText> read_text(const std::string& path, std::size_t max_bytes) {
  const FileDescriptor fd = open_for_reading(path);
  struct stat status{};
  if (!fd || fstat(fd.get(), &status) != 0)
    return fail(std::string("cannot be read: ") + std::strerror(errno) +
                "; its last good state, if any, stays in use");
  if (!S_ISREG(status.st_mode)) return fail("is not a regular file and is not read");
  if (std::cmp_greater(status.st_size, max_bytes))
    return fail("is larger than " + std::to_string(max_bytes >> 20) +
                " MiB and is not read; split it; its last good state, if any, stays in use");
  FileText file{std::string(static_cast<std::size_t>(status.st_size), '\0'),
                FileIdentity::of(status), true};
  const auto filled =
      read_fully(fd.get(), {reinterpret_cast<std::uint8_t*>(file.text.data()), file.text.size()});
  if (!filled)
    return fail(std::string("cannot be read: ") + std::strerror(errno) +
                "; its last good state, if any, stays in use");
  file.text.resize(*filled);
  file.steady = fstat(fd.get(), &status) == 0 && FileIdentity::of(status) == file.identity;
  return file;
}

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

bool is_at_or_below_path(std::string_view path, std::string_view directory) {
  if (!path.starts_with(directory)) return false;
  return path.size() == directory.size() || path[directory.size()] == '/' ||
         directory.ends_with('/');
}

}  // namespace

// Gathers what one text says.
class FileIndex::Collector final : public ManifestSink {
 public:
  explicit Collector(OriginChange& change) : change_(change) {}
  void on_resource(Resource&& resource, std::uint32_t line) override {
    change_.resources.push_back(resource, line);
  }
  void on_refused(const ResourceKey& key, std::uint32_t) override {
    if (!key.name.empty()) change_.kept.push_back(hash_of(key));
  }
  void on_finding(Finding&& finding) override { findings_.add(std::move(finding)); }
  std::vector<Finding> take_findings() { return std::move(findings_).take(); }

 private:
  OriginChange& change_;
  FindingList findings_{kMaxFindings};
};

FileIndex::FileIndex(FileSourceOptions options, FileReader reader, int inotify)
    : options_(std::move(options)), reader_(std::move(reader)), inotify_(inotify) {
  for (const std::string& path : options_.restored) {
    File& file = files_[path];
    file.restored = true;
    file.good = true;
    file.resources = 1;
  }
}

FileIndex::Outcome FileIndex::look(const Request& request) {
  Outcome outcome;
  if (next_pending_ == pending_.size()) walk(request, outcome);
  read_pending(request, outcome);
  if (next_pending_ == pending_.size()) {
    tell_complaints(request, outcome);
    if (!complete_) complete(outcome);
    everything_ = false;
  } else {
    want_again(outcome, Milliseconds{0});
  }
  changes_ += outcome.batch.changes.size();
  outcome.batch.source = options_.name;
  outcome.batch.complete = complete_;
  outcome.watched_wholly = watched_wholly_ && !unheard_;
  outcome.status = status();
  return outcome;
}

// Files of an earlier run that are gone may be about to come, so they are waited for.  Files
// that could not be read are reported as present: otherwise they would be removed with the rest.
void FileIndex::complete(Outcome& outcome) {
  const auto is_awaited = [](const auto& entry) {
    return entry.second.restored && entry.second.missing_since;
  };
  complete_ = root_found_ && std::ranges::none_of(files_, is_awaited);
  if (!complete_) return;
  std::set<std::string> told;
  for (const OriginChange& change : outcome.batch.changes) told.insert(change.origin);
  for (auto& [path, file] : files_) {
    if (!std::exchange(file.restored, false) || told.contains(path)) continue;
    OriginChange& change = outcome.batch.changes.emplace_back();
    change.origin = path;
    change.effect = OriginChange::Effect::Keep;
  }
}

void FileIndex::walk(const Request& request, Outcome& outcome) {
  TreeWalk walk = walk_tree(options_, inotify_);
  ++reads_;
  std::set<int> watches;
  for (const auto& [watch, interest] : walk.watches) watches.insert(watch);
  for (const int watch : watches_)
    // Fails for a directory that is gone: the kernel has removed its watch.
    if (!watches.contains(watch)) (void)inotify_rm_watch(inotify_, watch);
  watches_ = std::move(watches);
  watched_wholly_ = walk.watched_wholly;
  outcome.watches = std::move(walk.watches);

  const bool is_same_root = root_found_ && walk.root_found && walk.root.inode == root_.inode &&
                            walk.root.device == root_.device;
  if (!is_same_root && !files_.empty()) root_since_ = request.now;
  root_found_ = walk.root_found;
  root_ = walk.root;
  complaints_ = std::move(walk.complaints);
  everything_ = request.everything;
  pending_ = std::move(walk.files);
  next_pending_ = 0;
  find_missing(request, outcome);
}

// A file is missing when the walk neither found it nor was kept from looking.
void FileIndex::find_missing(const Request& request, Outcome& outcome) {
  std::set<std::string_view> found;
  for (const FoundFile& file : pending_) found.insert(file.path);
  for (auto file = files_.begin(); file != files_.end();) {
    const auto current = file++;
    auto& missing_since = current->second.missing_since;
    if (found.contains(current->first)) {
      missing_since.reset();
      continue;
    }
    if (is_hidden(current->first)) {
      missing_since.reset();
      // Its complaint has taken the place of its findings: it is told anew once it can be read.
      if (complaints_.contains(current->first)) current->second.hash.reset();
      continue;
    }
    if (!missing_since) missing_since = request.now;
    const Milliseconds gone_at =
        std::max(*missing_since + options_.removal_grace,
                 root_since_ + std::max(kNewRootGrace, options_.removal_grace));
    if (request.now >= gone_at)
      remove(current, outcome);
    else
      want_again(outcome, gone_at - request.now);
  }
}

bool FileIndex::is_hidden(const std::string& path) const {
  return std::ranges::any_of(complaints_, [&](const auto& complaint) {
    return complaint.second.hides_files && is_at_or_below_path(path, complaint.first);
  });
}

void FileIndex::remove(std::map<std::string, File>::iterator file, Outcome& outcome) {
  OriginChange change;
  change.origin = file->first;
  change.effect = OriginChange::Effect::Remove;
  outcome.batch.changes.push_back(std::move(change));
  files_.erase(file);
}

void FileIndex::read_pending(const Request& request, Outcome& outcome) {
  std::size_t resources = 0;
  while (next_pending_ < pending_.size()) {
    if (options_.manifest.stop.stop_requested()) return;  // nobody wants what was read
    if (!complete_ && resources >= kFirstPortion) return;
    const std::size_t before = outcome.batch.changes.size();
    consider(pending_[next_pending_++], request, outcome);
    for (std::size_t i = before; i < outcome.batch.changes.size(); ++i)
      resources += outcome.batch.changes[i].resources.size();
  }
  pending_.clear();
  next_pending_ = 0;
}

void FileIndex::consider(const FoundFile& found, const Request& request, Outcome& outcome) {
  const auto known = files_.find(found.path);
  const bool is_known = known != files_.end();
  if (is_known && !everything_ && known->second.hash && !known->second.unverified &&
      known->second.identity == found.identity)
    return;
  const auto writer = request.being_written.find(found.place);
  if (writer != request.being_written.end() && (writer->second || found.links == 1))
    return;  // heard of again when it is closed
  auto text = read_text(found.path, options_.max_file_bytes);
  ++reads_;
  if (!text) {
    if (is_known) known->second.hash.reset();
    return complain(found.path, std::move(text.error().message));
  }
  File& file = is_known ? known->second : files_[found.path];
  if (!text->steady && ++file.unsteady_reads < kMaxUnsteadyReads)
    return want_again(outcome, kUnsteadyRetry);
  file.unsteady_reads = 0;
  if (file.resources > 0 && is_blank(text->text)) {
    file.hash.reset();
    return complain(found.path,
                    "has become empty; its last good state stays in use; to remove its "
                    "objects, delete the file or leave a comment in it");
  }
  const std::uint64_t hash = hash_bytes(text->text);
  const bool is_same = file.hash == hash;
  file.unverified = !is_same;
  file.identity = text->identity;
  file.hash = hash;
  if (is_same && !(everything_ && file.has_findings)) return;
  take_text(found.path, file, text->text, outcome);
  if (!is_known) remove_renamed(hash, outcome);
}

void FileIndex::take_text(const std::string& path, File& file, std::string_view text,
                          Outcome& outcome) {
  OriginChange& change = outcome.batch.changes.emplace_back();
  change.origin = path;
  ManifestOptions manifest = options_.manifest;
  manifest.path = path;
  Collector collector(change);
  const Result<void> result = reader_(text, manifest, collector);
  change.findings = collector.take_findings();
  if (!result && change.findings.empty())
    change.findings.push_back(finding_of(path, {result.error().message}));
  file.broken = !result;
  file.restored = false;
  file.has_findings = !change.findings.empty();
  if (!result && file.good) {
    change.effect = OriginChange::Effect::Keep;
    change.resources.clear();
    change.kept.clear();
    return;
  }
  file.good = result.has_value();
  // Objects that were refused count: they may be served in an earlier version.
  file.resources = change.resources.size() + change.kept.size();
}

// A file that moved to another name leaves its old one in the same transaction.  So its objects are
// never there twice, nor gone in between.
void FileIndex::remove_renamed(std::uint64_t hash, Outcome& outcome) {
  const auto old = std::ranges::find_if(files_, [&](const auto& entry) {
    return entry.second.missing_since && entry.second.hash == hash;
  });
  if (old != files_.end()) remove(old, outcome);
}

void FileIndex::complain(const std::string& path, std::string message) {
  complaints_.try_emplace(path, Complaint{std::move(message)});
}

void FileIndex::set_unheard(const std::string& why, const std::string& remedy) {
  unheard_ = polled_instead(why, remedy);
}

Complaint FileIndex::polled_instead(const std::string& why, const std::string& remedy) const {
  return {"cannot be watched with inotify: " + why + "; it is polled every " +
              std::to_string(options_.poll_without_inotify.count()) + " ms instead",
          remedy, false};
}

// An origin has one change in a batch: a file that is read again says all that is to be said.
void FileIndex::tell_complaints(const Request& request, Outcome& outcome) {
  std::set<std::string> changed;
  for (const OriginChange& change : outcome.batch.changes) changed.insert(change.origin);
  const auto tell = [&](const std::string& path, std::vector<Finding> findings) {
    OriginChange& change = outcome.batch.changes.emplace_back();
    change.origin = path;
    change.effect = OriginChange::Effect::Keep;
    change.findings = std::move(findings);
  };
  if (unheard_) {
    complaints_.try_emplace(options_.path, *unheard_);
  } else if (!watched_wholly_) {
    complaints_.try_emplace(options_.path,
                            polled_instead("there are too many inotify watches",
                                           "raise the sysctl fs.inotify.max_user_watches"));
  }
  for (const auto& [path, complaint] : complaints_) {
    const auto told = told_complaints_.find(path);
    const bool is_news = told == told_complaints_.end() || told->second != complaint;
    if ((is_news || request.everything) && !changed.contains(path))
      tell(path, {finding_of(path, complaint)});
  }
  for (const auto& [path, complaint] : told_complaints_)
    if (!complaints_.contains(path) && !changed.contains(path)) tell(path, {});
  told_complaints_ = complaints_;
}

Finding FileIndex::finding_of(const std::string& path, const Complaint& complaint) {
  Finding finding;
  finding.severity = complaint.hides_files ? Severity::Error : Severity::Warning;
  finding.path = path;
  finding.message = complaint.message();
  return finding;
}

SourceStatus FileIndex::status() const {
  SourceStatus status;
  status.name = options_.name;
  status.complete = complete_;
  status.origins = files_.size();
  status.reads = reads_;
  status.changes = changes_;
  for (const auto& [path, file] : files_) {
    if (!file.broken) continue;
    ++status.broken;
    status.last_error = path + " has errors; its last good state, if any, stays in use";
  }
  for (const auto& [path, complaint] : complaints_) {
    status.broken += complaint.hides_files ? 1 : 0;
    status.last_error = path + " " + complaint.message();
  }
  return status;
}

void FileIndex::want_again(Outcome& outcome, Milliseconds in) {
  outcome.again_in = std::min(outcome.again_in.value_or(in), in);
}

}  // namespace meshdns::registry
