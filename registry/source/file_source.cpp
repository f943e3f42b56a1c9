// SPDX-License-Identifier: Apache-2.0
#include "registry/source/file_source.hpp"

#include <sys/inotify.h>
#include <unistd.h>
#include <uv.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <map>
#include <optional>
#include <stop_token>
#include <utility>

#include "registry/base/handle.hpp"
#include "registry/manifest/name_table.hpp"
#include "registry/source/file_index.hpp"

namespace meshdns::registry {
namespace {

// A writer that never pauses is not waited for longer than this.
constexpr Milliseconds kLongestWrite{10'000};
// Names written to that are remembered; beyond them, files may be read while they are written,
// which is noticed otherwise (FileIndex).
constexpr std::size_t kMaxWrittenNames = 4'096;

// A storm of events must not keep the loop from its other work.
constexpr int kReadsPerWakeup = 16;

constexpr std::uint32_t kNameEvents =
    IN_CREATE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_DELETE_SELF | IN_MOVE_SELF;

FileSourceOptions stoppable(FileSourceOptions options, std::stop_token stop) {
  options.manifest.stop = std::move(stop);
  return options;
}

}  // namespace

// The control thread's half: hears, waits for calm, sends rounds to the workers and hands over what
// they bring.  Handles and the work in progress keep it alive beyond the source.
class FileSource::Engine : public std::enable_shared_from_this<FileSource::Engine> {
 public:
  Engine(uv_loop_t* loop, FileSourceOptions options, FileReader reader, SourceSink& sink)
      : loop_(loop),
        options_(options),
        inotify_(inotify_init1(IN_NONBLOCK | IN_CLOEXEC)),
        inotify_error_(inotify_ < 0 ? errno : 0),
        index_(stoppable(std::move(options), stopping_.get_token()), std::move(reader), inotify_),
        sink_(&sink) {
    status_.name = options_.name;
  }
  ~Engine() {
    if (inotify_ >= 0) ::close(inotify_);
  }
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  void start();
  void rescan();
  void stop();
  const SourceStatus& status() const { return status_; }

 private:
  struct Round {
    uv_work_t handle{};
    std::shared_ptr<Engine> engine;
    FileIndex::Request request;
    FileIndex::Outcome outcome;
  };
  struct Writer {
    Milliseconds first{0};
    Milliseconds last{0};
    bool has_written = false;  // false: the name is new, which may be a link to a complete file
  };

  Milliseconds now() const { return Milliseconds{uv_now(loop_)}; }

  void hear_events();
  void on_events();
  void on_event(const inotify_event& event);
  bool matters(const inotify_event& event, std::string_view name) const;
  bool begins_a_write(const inotify_event& event, std::string_view name) const;
  WatchedName place_of(const inotify_event& event, std::string_view name) const;
  void note_writer(WatchedName place, bool has_written);
  void place_writers();
  Milliseconds quiet_of(const Writer& writer) const;
  void forget_quiet_writers();

  void look_when_calm();
  void want_round(Milliseconds in);
  void arm();
  void start_round();
  void finish_round(Round& round);

  uv_loop_t* loop_;
  const FileSourceOptions options_;
  const int inotify_;
  const int inotify_error_;
  std::stop_source stopping_;  // ends the round that is running
  FileIndex index_;            // the worker's while running_
  SourceSink* sink_;           // nullptr once stopped
  SourceStatus status_;

  // Open from start() to stop().  Their callbacks own the engine.
  loop::Poll events_;
  loop::Timer round_timer_;
  loop::Timer poll_timer_;
  WatchInterests watches_;
  std::map<WatchedName, Writer> writers_;
  bool running_ = false;
  bool everything_ = false;  // the next round that walks looks at everything
  std::optional<Milliseconds> wanted_at_;
  // A burst of events that no round has looked at yet: since when, and when it will have settled.
  std::optional<Milliseconds> burst_since_;
  Milliseconds burst_settles_at_{0};
  Milliseconds last_round_at_ = Milliseconds::min() / 2;
};

void FileSource::Engine::start() {
  if (round_timer_.is_open()) return;
  round_timer_.open(loop_, [engine = shared_from_this()] { engine->start_round(); });
  poll_timer_.open(loop_, [engine = shared_from_this()] { engine->want_round(Milliseconds{0}); });
  hear_events();
  want_round(Milliseconds{0});
}

void FileSource::Engine::hear_events() {
  if (inotify_ < 0)
    return index_.set_unheard(
        inotify_error_ == EMFILE ? "there are too many inotify instances or open files"
                                 : std::strerror(inotify_error_),
        "raise the sysctl fs.inotify.max_user_instances, or the limit of open files");
  const auto hear = [engine = shared_from_this()](int, int) { engine->on_events(); };
  if (const int error = events_.open(loop_, inotify_, hear); error != 0)
    return index_.set_unheard(std::string("epoll refuses it: ") + uv_strerror(error),
                              "raise the sysctl fs.epoll.max_user_watches");
  events_.watch(UV_READABLE);
}

void FileSource::Engine::rescan() {
  everything_ = true;
  want_round(Milliseconds{0});
}

void FileSource::Engine::stop() {
  sink_ = nullptr;
  stopping_.request_stop();
  events_.close();
  round_timer_.close();
  poll_timer_.close();
}

void FileSource::Engine::on_events() {
  alignas(inotify_event) std::array<char, 16'384> buffer;
  for (int reads = 0; reads < kReadsPerWakeup; ++reads) {
    const ssize_t length = read(inotify_, buffer.data(), buffer.size());
    if (length <= 0) return;
    for (std::size_t at = 0; at < static_cast<std::size_t>(length);) {
      inotify_event event{};
      std::memcpy(&event, buffer.data() + at, sizeof event);
      // The name follows the fixed part; it is taken from the buffer, not from the copy.
      const char* name = buffer.data() + at + sizeof event;
      at += sizeof event + event.len;
      if ((event.mask & IN_Q_OVERFLOW) != 0) {
        // Events are lost, of any file; so may be the ends of writes.
        writers_.clear();
        rescan();
        continue;
      }
      if (event.len > 0 && !matters(event, name)) continue;
      const WatchedName place = place_of(event, event.len > 0 ? name : "");
      if ((event.mask & IN_MODIFY) != 0) {
        note_writer(place, true);
        continue;
      }
      if (begins_a_write(event, place.name)) note_writer(place, false);
      if ((event.mask & (IN_CREATE | IN_ATTRIB)) == 0) writers_.erase(place);
      if ((event.mask & (IN_MOVED_TO | IN_CLOSE_WRITE)) != 0)
        look_when_calm();
      else if ((event.mask & IN_IGNORED) == 0)
        want_round(options_.debounce);
    }
  }
}

// Returns whether an event about `name` can change what the tree holds.
bool FileSource::Engine::matters(const inotify_event& event, std::string_view name) const {
  const auto watch = watches_.find(event.wd);
  if (watch == watches_.end()) return true;  // added by the round that is running
  if (watch->second.names.contains(std::string(name))) return true;
  if (!watch->second.whole || name.starts_with('.')) return false;
  return (event.mask & (kNameEvents | IN_ISDIR)) != 0 || has_ending(name, options_.endings);
}

// Returns whether a new name in a directory of the tree is of a file whose writer will be heard.
bool FileSource::Engine::begins_a_write(const inotify_event& event, std::string_view name) const {
  if ((event.mask & IN_CREATE) == 0 || (event.mask & IN_ISDIR) != 0) return false;
  const auto watch = watches_.find(event.wd);
  return watch != watches_.end() && watch->second.whole && has_ending(name, options_.endings);
}

// Events of a watched file have no name.
WatchedName FileSource::Engine::place_of(const inotify_event& event, std::string_view name) const {
  const auto watch = watches_.find(event.wd);
  if (watch != watches_.end() && watch->second.file) return *watch->second.file;
  return {event.wd, std::string(name)};
}

void FileSource::Engine::note_writer(WatchedName place, bool has_written) {
  if (writers_.size() >= kMaxWrittenNames) return want_round(options_.debounce);
  auto& writer = writers_.try_emplace(std::move(place), Writer{now(), now()}).first->second;
  writer.last = now();
  writer.has_written = has_written;
  want_round(quiet_of(writer));
}

// The pause after which a file counts as complete though nobody has closed it.
Milliseconds FileSource::Engine::quiet_of(const Writer& writer) const {
  return writer.has_written ? options_.writer_quiet : options_.new_name_quiet;
}

// Writes that were heard while the round added the watch of the file get the file's name.
void FileSource::Engine::place_writers() {
  for (const auto& [watch, interest] : watches_) {
    if (!interest.file) continue;
    auto unplaced = writers_.extract(WatchedName{watch, ""});
    if (unplaced.empty()) continue;
    unplaced.key() = *interest.file;
    writers_.insert(std::move(unplaced));
  }
}

void FileSource::Engine::forget_quiet_writers() {
  std::erase_if(writers_, [this](const auto& entry) {
    const Writer& writer = entry.second;
    return now() - writer.last >= quiet_of(writer) || now() - writer.first >= kLongestWrite;
  });
  for (const auto& [place, writer] : writers_) want_round(writer.last + quiet_of(writer) - now());
}

// Several files that change together are looked at together, so that an object which moves from one
// to another is never missing.
void FileSource::Engine::look_when_calm() {
  if (!burst_since_) burst_since_ = now();
  burst_settles_at_ = std::max(std::min(now() + options_.settle, *burst_since_ + options_.debounce),
                               last_round_at_ + options_.debounce);
  arm();
}

// A round begins at the latest in so long, and never while one runs.  Large trees are looked at for
// half of the time at most.
void FileSource::Engine::want_round(Milliseconds in) {
  const Milliseconds at = now() + std::max(in, Milliseconds{0});
  if (wanted_at_ && *wanted_at_ <= at) return;
  wanted_at_ = at;
  arm();
}

void FileSource::Engine::arm() {
  if (running_ || sink_ == nullptr || !round_timer_.is_open()) return;
  Milliseconds at = wanted_at_.value_or(Milliseconds::max());
  if (burst_since_) at = std::min(at, burst_settles_at_);
  round_timer_.start(std::max(at - now(), Milliseconds{0}));
}

void FileSource::Engine::start_round() {
  if (running_ || sink_ == nullptr) return;
  wanted_at_.reset();
  burst_since_.reset();
  last_round_at_ = now();
  poll_timer_.stop();
  forget_quiet_writers();
  auto* round = new Round;
  round->engine = shared_from_this();
  round->handle.data = round;
  round->request = {now(), everything_, {}};
  for (const auto& [place, writer] : writers_)
    round->request.being_written.emplace(place, writer.has_written);
  running_ = true;
  check_loop(uv_queue_work(
                 loop_, &round->handle,
                 [](uv_work_t* work) {
                   auto* running = static_cast<Round*>(work->data);
                   running->outcome = running->engine->index_.look(running->request);
                 },
                 [](uv_work_t* work, int) {
                   const std::unique_ptr<Round> done(static_cast<Round*>(work->data));
                   done->engine->finish_round(*done);
                 }),
             "hand work to a thread");
}

void FileSource::Engine::finish_round(Round& round) {
  running_ = false;
  if (sink_ == nullptr) return;
  FileIndex::Outcome& outcome = round.outcome;
  if (outcome.watches) {
    watches_ = std::move(*outcome.watches);
    place_writers();
    if (round.request.everything) everything_ = false;
  }
  const bool is_news = !outcome.batch.changes.empty() || outcome.batch.complete != status_.complete;
  status_ = outcome.status;
  const Milliseconds took = now() - round.request.now;
  if (is_news) sink_->apply(std::move(outcome.batch));
  if (sink_ == nullptr) return;  // the sink has stopped us

  const auto wanted_at = std::exchange(wanted_at_, std::nullopt);
  if (wanted_at) want_round(std::max(*wanted_at - now(), took));
  if (burst_since_) {
    burst_settles_at_ = std::max(burst_settles_at_, now() + took);
    arm();
  }
  if (outcome.again_in) want_round(*outcome.again_in);
  const bool hears_all = events_.is_open() && outcome.watched_wholly;
  poll_timer_.start(hears_all ? options_.poll : options_.poll_without_inotify);
}

FileSource::FileSource(uv_loop_s* loop, FileSourceOptions options, FileReader reader,
                       SourceSink& sink)
    : engine_(std::make_shared<Engine>(loop, std::move(options), std::move(reader), sink)) {}
FileSource::~FileSource() { engine_->stop(); }

void FileSource::start() { engine_->start(); }
void FileSource::rescan() { engine_->rescan(); }
SourceStatus FileSource::status() const { return engine_->status(); }

std::unique_ptr<Source> make_manifest_source(uv_loop_s* loop, FileSourceOptions options,
                                             SourceSink& sink) {
  return std::make_unique<FileSource>(loop, std::move(options), read_manifest, sink);
}

std::unique_ptr<Source> make_name_table_source(uv_loop_s* loop, FileSourceOptions options,
                                               SourceSink& sink) {
  options.endings = {".json"};
  return std::make_unique<FileSource>(loop, std::move(options), read_name_table, sink);
}

}  // namespace meshdns::registry
