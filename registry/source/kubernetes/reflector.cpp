// SPDX-License-Identifier: Apache-2.0
#include "registry/source/kubernetes/reflector.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "registry/base/counted.hpp"
#include "registry/base/each_once.hpp"
#include "registry/base/enum_text.hpp"
#include "registry/base/printable.hpp"

namespace meshdns::registry::kubernetes {
namespace {

constexpr Milliseconds kGatePoll{1'000};
constexpr std::size_t kMaxRefusal = std::size_t{64} << 10;
constexpr std::string_view kInitialEventsEnd = "k8s.io/initial-events-end";

bool is_change(std::string_view event) {
  return event == "ADDED" || event == "MODIFIED" || event == "DELETED";
}

std::string shortened(std::string_view text) { return printable(text, 300); }

}  // namespace

std::string_view to_string(ReflectorStatus::Trouble trouble) {
  return enum_text<ReflectorStatus::Trouble::Failing>(
      trouble, {"none", "unreachable", "unauthorized", "forbidden", "absent", "failing"});
}

Reflector::Reflector(Collection collection, const ReflectorOptions& options,
                     Environment environment, ReflectorListener& listener)
    : collection_(std::move(collection)),
      options_(options),
      env_(std::move(environment)),
      listener_(listener),
      backoff_(options.first_retry, env_.random) {}

Reflector::~Reflector() = default;

void Reflector::start() { resync(); }

void Reflector::retry_now() {
  if (!retry_) return;
  retry_.reset();
  proceed();
}

void Reflector::leave_path_silent_since(Milliseconds when, std::optional<std::uint64_t> working) {
  if (!status_.watching || status_.connection == working) return;
  const auto heard = env_.server.heard_at.find(status_.connection);
  if (heard != env_.server.heard_at.end() && heard->second > when) return;
  open_watch_again();
}

void Reflector::open_watch_again() {
  status_.watching = false;
  request_watch(Phase::Watch);
}

void Reflector::note_heard() {
  env_.server.heard_at[status_.connection] = status_.heard_at = env_.scheduler.now();
}

// --- requests ------------------------------------------------------------------------------------

void Reflector::resync() {
  retry_.reset();
  can_resume_ = false;
  seen_.clear();
  nameless_in_list_ = 0;
  status_.watching = false;
  if (env_.server.streams_lists && !unpaged_ && collection_.is_watched)
    return request_watch(Phase::StreamedList);
  request_page({});
}

std::string Reflector::selectors() const {
  std::string query;
  if (!collection_.label_selector.empty())
    query += "&labelSelector=" + percent_encoded(collection_.label_selector);
  if (!collection_.field_selector.empty())
    query += "&fieldSelector=" + percent_encoded(collection_.field_selector);
  return query;
}

// The first list of all may come from the server's cache, however old that is: nothing newer has
// been seen that it could contradict.  Later ones are read as of now.
void Reflector::request_page(std::string_view continue_token) {
  std::string query;
  if (!unpaged_) query += "&limit=" + std::to_string(options_.page_size);
  if (!continue_token.empty())
    query += "&continue=" + percent_encoded(continue_token);
  else if (status_.resource_version.empty() && !unpaged_)
    query += "&resourceVersion=0";
  request(Phase::Page, std::move(query));
}

Milliseconds Reflector::watch_length() const {
  const bool is_shared = env_.server.multiplexes;
  const Milliseconds least = is_shared ? options_.watch_timeout : options_.lone_watch_timeout;
  const Milliseconds extra = is_shared ? least : least / 5;
  return least + Milliseconds(static_cast<Milliseconds::rep>(env_.random() *
                                                             static_cast<double>(extra.count())));
}

void Reflector::request_watch(Phase phase) {
  const auto length = std::chrono::duration_cast<std::chrono::seconds>(watch_length());
  std::string query =
      "&watch=1&allowWatchBookmarks=true&timeoutSeconds=" + std::to_string(length.count());
  if (phase == Phase::StreamedList)
    query += "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
  else
    query += "&resourceVersion=" + percent_encoded(status_.resource_version);
  request(phase, std::move(query));
}

void Reflector::request(Phase phase, std::string query) {
  phase_ = phase;
  head_ = {};
  refusal_.clear();
  next_ = Next::GoOn;
  broken_why_.clear();
  error_retry_.reset();
  cutter_.emplace(phase == Phase::Page ? JsonCutter::Shape::List : JsonCutter::Shape::Sequence,
                  options_.cutter);
  list_bytes_ = 0;
  begun_at_ = status_.heard_at = env_.scheduler.now();
  events_before_ = status_.events;
  query += selectors();
  if (!query.empty()) query.front() = '?';
  const bool wants_list = phase == Phase::Page && collection_.content == Content::Metadata;
  exchange_ = env_.transport.get(collection_.path + query,
                                 wants_list ? Content::MetadataList : collection_.content, *this);
  guard();
}

// --- silence -------------------------------------------------------------------------------------

Milliseconds Reflector::allowed_silence() const {
  if (!status_.watching)
    return phase_ == Phase::Watch ? options_.watch_answer_limit : options_.answer_limit;
  return env_.server.multiplexes ? options_.silence_limit : options_.lone_silence_limit;
}

void Reflector::guard() {
  const auto limit = allowed_silence();
  const auto due = status_.heard_at + limit - env_.scheduler.now();
  watchdog_ = env_.scheduler.after(std::max(due, Milliseconds(1)), [this] { look_for_silence(); });
}

void Reflector::look_for_silence() {
  const auto limit = allowed_silence();
  if (env_.scheduler.now() - status_.heard_at < limit) return guard();
  env_.transport.distrust_connections();
  if (status_.watching) return open_watch_again();
  fail(Trouble::Unreachable,
       "silence for " +
           std::to_string(std::chrono::duration_cast<std::chrono::seconds>(limit).count()) + " s");
}

// --- the response --------------------------------------------------------------------------------

void Reflector::on_head(const ResponseHead& head) {
  head_ = head;
  env_.server.multiplexes = head.is_multiplexed;
  status_.connection = head.connection;
  note_heard();
  if (head.status != 200) return;
  set_trouble(Trouble::None, {});
  if (phase_ != Phase::Watch) return;
  ++status_.watches;
  status_.watching = true;
}

void Reflector::on_body(std::string_view part) {
  note_heard();
  if (head_.status == 200) return read_objects(part);
  refusal_ += part.substr(0, kMaxRefusal - refusal_.size());
  if (refusal_.size() < kMaxRefusal) return;
  // There may be no end of it.
  exchange_.reset();
  watchdog_.reset();
  judge_refusal();
}

void Reflector::read_objects(std::string_view part) {
  const bool is_list = phase_ == Phase::Page;
  const bool is_good = cutter_->feed(part, [&](std::string_view text, bool is_whole) {
    if (next_ == Next::GoOn) is_list ? take_item(text, is_whole) : take_event(text, is_whole);
  });
  if (!is_good && next_ == Next::GoOn) break_off(cutter_->why());
  if (is_list) list_bytes_ += part.size();
  if (list_bytes_ > options_.list_bytes && next_ == Next::GoOn)
    break_off("the list is longer than " + std::to_string(options_.list_bytes) + " bytes");
  if (next_ == Next::GoOn) return;
  exchange_.reset();
  watchdog_.reset();
  if (next_ == Next::Wait) return;
  if (next_ == Next::Resync) return judge_gone();
  if (broken_in_a_row_ > 1) can_resume_ = false;
  const auto retry = error_retry_;
  fail(Trouble::Failing, std::move(broken_why_), retry);
}

// The rest of this response is of no use.
void Reflector::break_off(std::string message) {
  next_ = Next::Retry;
  ++broken_in_a_row_;
  broken_why_ = std::move(message);
}

std::expected<const Node*, SyntaxError> Reflector::parse(std::string_view text, bool is_whole,
                                                         std::uint32_t envelope_levels) {
  if (is_whole) return env_.parser.parse(text, envelope_levels);
  return std::unexpected(SyntaxError{
      0,
      "longer than the " + std::to_string(options_.cutter.object_bytes) + " bytes that are read"});
}

void Reflector::take_item(std::string_view text, bool is_whole) {
  const auto object = parse(text, is_whole, 0);
  if (object) return take_initial({.outline = {}, .object = *object, .why = {}});
  take_initial(
      {.outline = outline_of_object(text), .object = nullptr, .why = object.error().message});
}

void Reflector::take_event(std::string_view text, bool is_whole) {
  const auto event = parse(text, is_whole, 1);
  if (!event) return take_unreadable_event(text, event.error().message);
  const Node* const type = (*event)->find("type");
  const Node* const object = (*event)->find("object");
  if (type == nullptr || object == nullptr || !object->is_mapping())
    return break_off("an event of the watch is not JSON");
  if (type->text() == "BOOKMARK") return take_bookmark(*object);
  if (type->text() == "ERROR") return take_error_event(*object);
  take_change({.outline = {type->text(), ref_of(*object), resource_version_of(*object)},
               .object = object,
               .why = {}});
}

// One object that cannot be read must not keep the others out.  An event without the identity or
// the version of its object more likely means that the stream is broken.
void Reflector::take_unreadable_event(std::string_view text, std::string_view why) {
  const ObjectOutline outline = outline_of_event(text);
  const bool is_known = !outline.object.name.empty() && !outline.resource_version.empty();
  if (!is_change(outline.event) || (!is_known && phase_ == Phase::Watch))
    return break_off("an event of the watch is not JSON");
  take_change({outline, nullptr, why});
}

void Reflector::take_change(const Change& change) {
  const std::string_view type = change.outline.event;
  if (!is_change(type)) return;
  ++status_.events;
  if (phase_ == Phase::StreamedList) return take_initial(change);
  const std::string_view version = change.outline.resource_version;
  if (!is_news(version)) return;
  broken_in_a_row_ = 0;
  gone_in_a_row_ = 0;
  const bool is_of_ours = hand_over(change, false).has_value();
  if (is_of_ours && change.is_deleted() && status_.objects > 0) --status_.objects;
  if (is_of_ours && type == "ADDED") ++status_.objects;
  if (version.empty()) return;
  status_.resource_version = version;
  latest_ = version_number(version);
}

void Reflector::take_initial(const Change& change) {
  const auto object = hand_over(change, true);
  if (object && change.is_deleted())
    std::erase(seen_, *object);
  else if (object)
    seen_.push_back(*object);
  else if (change.object == nullptr)
    ++nameless_in_list_;
}

std::optional<std::uint64_t> Reflector::hand_over(const Change& change, bool is_initial) {
  if (change.is_deleted()) return listener_.on_deleted(change.outline.object);
  if (change.object == nullptr) return listener_.on_unreadable(change.outline.object, change.why);
  return listener_.on_object(*change.object, env_.parser.problems(), is_initial);
}

// Events come in the order of their versions.  One that was there already is passed over; what is
// older than that shows that the order is lost, and only a list can mend it.
bool Reflector::is_news(std::string_view version) {
  const auto number = version_number(version);
  if (!number || !latest_ || *number > *latest_) return true;
  if (*number < *latest_) next_ = Next::Resync;
  return false;
}

void Reflector::take_bookmark(const Node& object) {
  std::string version(resource_version_of(object));
  if (phase_ == Phase::StreamedList) {
    if (annotation_of(object, kInitialEventsEnd) != "true") return;
    if (!finish_list(std::move(version))) next_ = Next::Wait;
    return;
  }
  const auto number = version_number(version);
  if (version.empty()) return;
  // The server has gone back: restored from a backup, say.
  if (number && latest_ && *number < *latest_) {
    next_ = Next::Resync;
    return;
  }
  gone_in_a_row_ = 0;
  status_.resource_version = std::move(version);
  latest_ = number;
}

void Reflector::take_error_event(const Node& object) {
  const ApiStatus status = read_status(object);
  if (status.is_gone()) {
    next_ = Next::Resync;
    return;
  }
  break_off("the watch ends with " + std::to_string(status.code) + " " + shortened(status.message));
  if (status.retry_after) error_retry_ = *status.retry_after;
}

void Reflector::on_end(const Result<void>& end) {
  exchange_.reset();
  watchdog_.reset();
  if (end && head_.status != 200) return judge_refusal();
  if (phase_ == Phase::Watch && head_.status == 200) return finish_watch();
  if (!end) return fail(Trouble::Unreachable, shortened(end.error().message));
  if (phase_ == Phase::Page) return finish_page();
  fail(Trouble::Failing, "the streamed list ended early");
}

// --- the end of a list ---------------------------------------------------------------------------

void Reflector::finish_page() {
  const auto list = cutter_->is_complete() ? env_.parser.parse(cutter_->envelope())
                                           : std::expected<const Node*, SyntaxError>(nullptr);
  if (!list || *list == nullptr) return fail(Trouble::Failing, "the list is not complete JSON");
  const ListMeta meta = read_list_meta(**list);
  if (meta.kind != collection_.kind + "List" &&
      !(collection_.content == Content::Metadata && meta.kind.ends_with("List")))
    return fail(Trouble::Failing,
                "got a " + shortened(meta.kind) + " instead of a list of " + collection_.kind);
  if (!meta.continue_token.empty()) return request_page(meta.continue_token);
  phase_ = Phase::Idle;
  if (finish_list(meta.resource_version) && collection_.is_watched) proceed();
}

// false: not believed yet, and waiting for another one.
bool Reflector::finish_list(std::string version) {
  const bool is_suspicious = seen_.empty() && status_.objects >= options_.suspicious_objects;
  if (is_suspicious && !was_empty_) {
    was_empty_ = true;
    set_trouble(Trouble::Failing, "an empty list in place of " +
                                      counted(status_.objects, "object") +
                                      "; they stay until a second list is empty");
    wait(options_.confirmation_delay);
    return false;
  }
  was_empty_ = false;
  unpaged_ = false;
  broken_in_a_row_ = 0;
  listed_at_ = env_.scheduler.now();
  ++status_.lists;
  if (status_.synced) ++status_.relists;
  status_.nameless = nameless_in_list_;
  status_.resource_version = std::move(version);
  latest_ = version_number(status_.resource_version);
  can_resume_ = !status_.resource_version.empty();
  sort_each_once(seen_);
  status_.objects = seen_.size();
  // Any object may be one of those without a name: nothing is known to be gone.
  if (nameless_in_list_ == 0) listener_.on_listed(std::exchange(seen_, {}));
  seen_ = {};
  status_.synced = true;
  if (phase_ == Phase::StreamedList) {
    phase_ = Phase::Watch;
    ++status_.watches;
    status_.watching = true;
  }
  listener_.on_state();
  return true;
}

void Reflector::finish_watch() {
  status_.watching = false;
  const bool was_short =
      env_.scheduler.now() - begun_at_ < options_.short_watch && status_.events == events_before_;
  if (was_short) return wait(backoff_.next(options_.retry_limit));
  gone_in_a_row_ = 0;
  backoff_.reset();
  proceed();
}

// --- what goes wrong -----------------------------------------------------------------------------

void Reflector::judge_refusal() {
  ApiStatus status;
  if (const auto body = env_.parser.parse(refusal_); body && (*body)->is_mapping())
    status = read_status(**body);
  const unsigned code = head_.status;
  std::optional<Milliseconds> at_least = head_.retry_after;
  if (status.retry_after) at_least = *status.retry_after;
  std::string message =
      std::to_string(code) + " " + shortened(status.message.empty() ? refusal_ : status.message);
  if (code == 410 || status.is_gone()) return judge_gone();
  const bool is_not_understood = code == 400 || code == 422;
  if (phase_ == Phase::StreamedList && is_not_understood) {
    env_.server.streams_lists = false;
    return resync();
  }
  if (code == 401) {
    env_.transport.renew_credentials();
    return fail(Trouble::Unauthorized, std::move(message));
  }
  if (code == 403) return fail(Trouble::Forbidden, std::move(message), at_least);
  if (code == 404) {
    can_resume_ = false;
    return fail(Trouble::Absent, std::move(message), at_least);
  }
  fail(Trouble::Failing, std::move(message), at_least);
}

// The version is gone: of a page's token, and the list is asked for in one piece; of a watch.
void Reflector::judge_gone() {
  watchdog_.reset();
  if (phase_ == Phase::Page) unpaged_ = true;
  if (env_.scheduler.now() - listed_at_ >= options_.short_watch) gone_in_a_row_ = 0;
  if (++gone_in_a_row_ <= 1) return resync();
  can_resume_ = false;
  fail(Trouble::Failing, "the requested version is gone again");
}

Milliseconds Reflector::retry_limit_of(Trouble trouble) const {
  if (trouble == Trouble::Forbidden) return options_.forbidden_retry_limit;
  const bool is_refused = trouble == Trouble::Unauthorized || trouble == Trouble::Absent;
  return is_refused ? options_.refused_retry_limit : options_.retry_limit;
}

void Reflector::fail(Trouble trouble, std::string message, std::optional<Milliseconds> at_least) {
  exchange_.reset();
  watchdog_.reset();
  // A watch that went well for a while says that the trouble is a new one.
  if (status_.watching && env_.scheduler.now() - begun_at_ >= options_.short_watch)
    backoff_.reset();
  phase_ = Phase::Idle;
  ++status_.errors;
  status_.watching = false;
  Milliseconds delay = backoff_.next(retry_limit_of(trouble));
  if (at_least && *at_least > delay)
    delay = *at_least + Milliseconds(static_cast<Milliseconds::rep>(1'000 * env_.random()));
  wait(delay);
  set_trouble(trouble, std::move(message));
}

void Reflector::wait(Milliseconds delay) {
  retry_ = env_.scheduler.after(delay, [this] {
    if (!listener_.may_retry()) return wait(kGatePoll);
    retry_.reset();
    proceed();
  });
}

void Reflector::proceed() { can_resume_ ? request_watch(Phase::Watch) : resync(); }

void Reflector::set_trouble(Trouble trouble, std::string message) {
  if (status_.trouble == trouble && status_.error == message) return;
  status_.trouble = trouble;
  status_.error = std::move(message);
  listener_.on_state();
}

}  // namespace meshdns::registry::kubernetes
