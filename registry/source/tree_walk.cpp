// SPDX-License-Identifier: Apache-2.0
#include "registry/source/tree_walk.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "registry/base/hash.hpp"

namespace meshdns::registry {
namespace {

constexpr int kMaxLinks = 40;  // as the kernel's own limit

// Names that come, go, or become readable.
constexpr std::uint32_t kDirectoryEvents =
    IN_CREATE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF;
// A file is written (IN_MODIFY) and done with (IN_CLOSE_WRITE).
constexpr std::uint32_t kContentEvents = IN_MODIFY | IN_CLOSE_WRITE;
constexpr std::uint32_t kHowToWatch = IN_ONLYDIR | IN_EXCL_UNLINK;
// Files outside of the tree's directories that have a watch each.  Of further files, the directory
// reports the writes, so that a tree of links cannot take all of the user's watches.
constexpr std::size_t kMaxWatchedFiles = 256;

constexpr const char* kStays = "the last good state of its files, if any, stays in use";

// Any other error says nothing of what is there.
bool is_gone(int error) { return error == ENOENT || error == ENOTDIR; }

std::string join(std::string_view directory, std::string_view name) {
  std::string path(directory);
  if (!path.ends_with('/')) path += '/';
  return path.append(name);
}

std::optional<std::string> read_link(const std::string& path) {
  std::string target(PATH_MAX, '\0');
  const ssize_t length = readlink(path.c_str(), target.data(), target.size());
  if (length < 0) return std::nullopt;
  target.resize(static_cast<std::size_t>(length));
  return target;
}

// Puts the steps of `path` in front of `steps`.
void prepend_steps(std::deque<std::string>& steps, std::string_view path) {
  std::vector<std::string> parts;
  while (!path.empty()) {
    const std::size_t slash = std::min(path.find('/'), path.size());
    const std::string_view part = path.substr(0, slash);
    if (!part.empty() && part != ".") parts.emplace_back(part);
    path.remove_prefix(std::min(slash + 1, path.size()));
  }
  steps.insert(steps.begin(), parts.begin(), parts.end());
}

class Walker {
 public:
  Walker(const FileSourceOptions& options, int inotify) : options_(options), inotify_(inotify) {
    walk_.watched_wholly = inotify >= 0;
  }

  TreeWalk walk() && {
    const Target root = follow("/", absolute(options_.path));
    struct stat status{};
    const int error = root.error != 0 ? root.error : stat_of(root.path, status);
    if (error != 0) {
      complain(options_.path, error == ENOENT ? "does not exist" : std::strerror(error),
               "its last good state, if any, stays in use until it exists");
      narrow();
      return std::move(walk_);
    }
    walk_.root_found = true;
    walk_.root = FileIdentity::of(status);
    if (S_ISDIR(status.st_mode)) {
      pass_ancestors(root.path);
      enter(options_.path, root.path, status, 0);
    } else {
      take_file(options_.path, root.place, status);
    }
    narrow();
    return std::move(walk_);
  }

 private:
  struct Target {
    std::string path;  // without links
    WatchedName place;
    int error = 0;
  };

  static std::string absolute(const std::string& path) {
    std::error_code ignored;
    const auto result = std::filesystem::absolute(path, ignored);
    return ignored ? path : result.string();
  }
  static int stat_of(const std::string& path, struct stat& status) {
    return stat(path.c_str(), &status) == 0 ? 0 : errno;
  }

  // Resolves `path` from the directory `start` (without links itself) as the kernel would, and
  // watches every name on the way: any of them may be swapped.
  Target follow(const std::string& start, std::string_view path);
  int watch(const std::string& directory, std::uint32_t events);
  bool watch_file(const std::string& path, const WatchedName& place);
  void narrow();
  void pass_ancestors(const std::string& root);
  void enter(const std::string& visible, const std::string& real, const struct stat& status,
             std::size_t depth);
  void visit(const std::string& visible, const std::string& real, const std::string& name,
             int watch, std::size_t depth);
  void take_file(const std::string& visible, const WatchedName& place, const struct stat& status);
  void complain(const std::string& path, std::string reason, std::string outcome = {});

  const FileSourceOptions& options_;
  int inotify_;
  TreeWalk walk_;
  TextMap<std::pair<int, std::uint32_t>> watched_;  // directory -> watch
  std::size_t watched_files_ = 0;
  std::set<std::pair<dev_t, ino_t>> seen_directories_;
  std::set<std::pair<dev_t, ino_t>> seen_files_;
};

Walker::Target Walker::follow(const std::string& start, std::string_view path) {
  std::deque<std::string> steps;
  prepend_steps(steps, path);
  Target at{path.starts_with('/') ? "/" : start, {}, 0};
  int links = 0;
  while (!steps.empty()) {
    const std::string step = std::move(steps.front());
    steps.pop_front();
    if (step == "..") {
      at.path = std::filesystem::path(at.path).parent_path().string();
      continue;
    }
    const std::string next = join(at.path, step);
    at.place = {watch(at.path, kDirectoryEvents), step};
    if (at.place.watch >= 0) walk_.watches[at.place.watch].names.insert(step);
    struct stat status{};
    const bool is_there = lstat(next.c_str(), &status) == 0;
    // The directory may be full of files that others write all the time.  It reports writes only
    // while the file is missing: a new file is written before the next walk can watch it.
    const bool is_written_elsewhere =
        is_there && (S_ISDIR(status.st_mode) || S_ISLNK(status.st_mode) ||
                     (steps.empty() && watch_file(next, at.place)));
    if (steps.empty() && !is_written_elsewhere) watch(at.path, kDirectoryEvents | kContentEvents);
    if (!is_there) {
      at.error = errno;
      return at;
    }
    const auto target = S_ISLNK(status.st_mode) ? read_link(next) : std::nullopt;
    if (!target) {
      at.path = next;
      continue;
    }
    if (++links > kMaxLinks) {
      at.error = ELOOP;
      return at;
    }
    if (target->starts_with('/')) at.path = "/";
    prepend_steps(steps, *target);
  }
  return at;
}

// The directory's watch; -1 where there is none to be had.
int Walker::watch(const std::string& directory, std::uint32_t events) {
  if (inotify_ < 0) return -1;
  const auto found = watched_.find(directory);
  if (found != watched_.end() && (found->second.second & events) == events)
    return found->second.first;
  const int watch =
      inotify_add_watch(inotify_, directory.c_str(), events | kHowToWatch | IN_MASK_ADD);
  if (watch < 0 && (errno == ENOSPC || errno == ENOMEM)) walk_.watched_wholly = false;
  if (watch >= 0) walk_.watches[watch];
  auto& entry = watched_[directory];
  entry = {watch, entry.second | events};
  return watch;
}

// Watches the writes to one file, `place` in its directory.  False: its directory has to be
// watched.
bool Walker::watch_file(const std::string& path, const WatchedName& place) {
  if (inotify_ < 0 || watched_files_ == kMaxWatchedFiles) return false;
  const int watch = inotify_add_watch(inotify_, path.c_str(), kContentEvents | IN_DONT_FOLLOW);
  if (watch < 0) return false;
  ++watched_files_;
  auto& file = walk_.watches[watch].file;
  if (!file) file = place;
  return true;
}

// Ends the reports of writes where an earlier walk needed them and this one does not.
void Walker::narrow() {
  for (const auto& [directory, entry] : watched_) {
    if (entry.first < 0 || (entry.second & kContentEvents) != 0) continue;
    const int watch = inotify_add_watch(inotify_, directory.c_str(), entry.second | kHowToWatch);
    // Another directory has taken the name, of which the next walk hears.
    if (watch >= 0 && !walk_.watches.contains(watch)) (void)inotify_rm_watch(inotify_, watch);
  }
}

// Notes the directories that hold `root`: a link to one of them is a circle.
void Walker::pass_ancestors(const std::string& root) {
  for (std::filesystem::path at(root); at.has_relative_path();) {
    at = at.parent_path();
    struct stat status{};
    if (stat_of(at.string(), status) == 0) seen_directories_.insert({status.st_dev, status.st_ino});
  }
}

void Walker::enter(const std::string& visible, const std::string& real, const struct stat& status,
                   std::size_t depth) {
  if (!seen_directories_.insert({status.st_dev, status.st_ino}).second) return;
  if (depth > options_.max_depth)
    return complain(
        visible,
        "lies deeper than " + std::to_string(options_.max_depth) + " directories and is not read",
        "make the tree flatter");
  if (++walk_.directories > options_.max_directories)
    return complain(options_.path,
                    "holds more than " + std::to_string(options_.max_directories) +
                        " directories; those from " + visible + " on are not read",
                    "divide the source");
  const int watch_of_it = watch(real, kDirectoryEvents | kContentEvents);
  if (watch_of_it >= 0) walk_.watches[watch_of_it].whole = true;
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir(real.c_str()), closedir);
  if (!directory)
    return complain(visible, std::string("cannot be read: ") + std::strerror(errno), kStays);
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = readdir(directory.get())) {
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
    errno = 0;
  }
  // Files that were not listed are not gone.
  if (errno != 0)
    complain(visible, std::string("cannot be read to its end: ") + std::strerror(errno), kStays);
  std::ranges::sort(names);
  for (const std::string& name : names) visit(visible, real, name, watch_of_it, depth);
}

void Walker::visit(const std::string& visible, const std::string& real, const std::string& name,
                   int watch_of_directory, std::size_t depth) {
  const std::string visible_path = join(visible, name);
  Target target{join(real, name), {watch_of_directory, name}, 0};
  struct stat status{};
  if (lstat(target.path.c_str(), &status) != 0) {
    if (!is_gone(errno))
      complain(visible_path, std::string("cannot be looked at: ") + std::strerror(errno), kStays);
    return;
  }
  if (S_ISLNK(status.st_mode)) {
    target = follow(real, name);
    if (target.error == 0) target.error = stat_of(target.path, status);
  }
  const bool is_ours = has_ending(name, options_.endings);
  if (target.error != 0) {
    if (is_ours || !is_gone(target.error))
      complain(visible_path,
               std::string("the symbolic link has no target: ") + std::strerror(target.error),
               "the last good state of this name, if any, stays in use");
    return;
  }
  if (S_ISDIR(status.st_mode)) return enter(visible_path, target.path, status, depth + 1);
  if (is_ours) take_file(visible_path, target.place, status);
}

void Walker::take_file(const std::string& visible, const WatchedName& place,
                       const struct stat& status) {
  if (!S_ISREG(status.st_mode)) return complain(visible, "is not a regular file and is not read");
  if (!seen_files_.insert({status.st_dev, status.st_ino}).second) return;
  if (walk_.files.size() == options_.max_files)
    return complain(options_.path,
                    "holds more than " + std::to_string(options_.max_files) +
                        " files; those from " + visible + " on are not read",
                    "divide the source");
  walk_.files.push_back({visible, FileIdentity::of(status), place, status.st_nlink});
}

void Walker::complain(const std::string& path, std::string reason, std::string outcome) {
  walk_.complaints.try_emplace(path, Complaint{std::move(reason), std::move(outcome)});
}

std::int64_t to_ns(const timespec& time) {
  return static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

}  // namespace

FileIdentity FileIdentity::of(const struct stat& status) {
  return {status.st_dev, status.st_ino, status.st_size, to_ns(status.st_mtim),
          to_ns(status.st_ctim)};
}

bool has_ending(std::string_view name, const std::vector<std::string>& endings) {
  return std::ranges::any_of(endings, [&](const std::string& ending) {
    return name.size() > ending.size() && name.ends_with(ending);
  });
}

TreeWalk walk_tree(const FileSourceOptions& options, int inotify) {
  return Walker(options, inotify).walk();
}

}  // namespace meshdns::registry
