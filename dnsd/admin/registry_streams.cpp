// SPDX-License-Identifier: Apache-2.0
#include "dnsd/admin/registry_streams.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "dnsd/admin/json.hpp"
#include "registry/base/host_name.hpp"

namespace meshdns::dnsd {

using registry::HostEntry;

const HostEntry* find_entry(const registry::Snapshot& snapshot, std::string_view host) {
  return host.starts_with("*.") ? snapshot.find_wildcard(host.substr(2)) : snapshot.find_host(host);
}

HostWalk::HostWalk(std::shared_ptr<const registry::Snapshot> snapshot, std::string_view host)
    : snapshot_(std::move(snapshot)) {
  if (host.empty()) {
    const auto add = [&](const HostEntry& entry) { hosts_.push_back(&entry); };
    hosts_.reserve(snapshot_->hosts.size() + snapshot_->wildcards.size());
    snapshot_->hosts.for_each(add);
    snapshot_->wildcards.for_each(add);
    return;
  }
  if (const HostEntry* entry = find_entry(*snapshot_, host)) hosts_.push_back(entry);
}

const HostEntry* HostWalk::step() {
  if (!is_sorted()) {
    sort_run();
    return nullptr;
  }
  if (runs_.empty()) return nullptr;
  const auto later = [this](const Run& a, const Run& b) { return comes_later(a, b); };
  std::ranges::pop_heap(runs_, later);
  Run& run = runs_.back();
  const HostEntry* entry = hosts_[run.next++];
  if (run.next == run.end)
    runs_.pop_back();
  else
    std::ranges::push_heap(runs_, later);
  return entry;
}

void HostWalk::sort_run() {
  const std::size_t end = std::min(sorted_ + kRun, hosts_.size());
  std::sort(hosts_.begin() + static_cast<std::ptrdiff_t>(sorted_),
            hosts_.begin() + static_cast<std::ptrdiff_t>(end),
            [](const HostEntry* a, const HostEntry* b) { return a->host() < b->host(); });
  runs_.push_back({sorted_, end});
  sorted_ = end;
  std::ranges::push_heap(runs_, [this](const Run& a, const Run& b) { return comes_later(a, b); });
}

bool HostWalk::comes_later(const Run& a, const Run& b) const {
  return hosts_[a.next]->host() > hosts_[b.next]->host();
}

namespace {

using registry::HostEntry;
using registry::ServiceId;
using registry::ServiceRecord;

template <typename PutValue>
void add_line(std::string& text, std::string_view type, PutValue put_value) {
  text += json_text([&](Json& json) {
    json.StartObject();
    put(json, "type", type);
    json.Key("object");
    put_value(json);
    json.EndObject();
  });
  text += '\n';
}

template <typename Visit>
void visit_services(const HostEntry& entry, const ServiceFilter& filter, Visit visit) {
  for (const ServiceRecord* record : entry.records())
    if (filter.has(entry.host(), record->ns->text()))
      for (const ServiceRecord* service : services_of(*record)) visit(*service);
}

}  // namespace

ServiceList::ServiceList(const registry::Registry& registry, const ServicePage& page,
                         ServiceFilter filter)
    : registry_(registry),
      page_(page),
      filter_(std::move(filter)),
      walk_(registry.current(), filter_.host) {}

void ServiceList::step(std::string& text) {
  if (walk_.is_done()) {
    text += separator_ == '[' ? "[]\n" : "]\n";
    is_done_ = true;
    return;
  }
  const HostEntry* entry = walk_.step();
  if (entry == nullptr) return;
  visit_services(*entry, filter_, [&](const ServiceRecord& service) {
    const std::string object =
        json_text([&](Json& json) { page_.put(json, registry_, entry->host(), service); });
    if (object.empty()) return;
    text += std::exchange(separator_, ',');
    text += object;
  });
}

ServiceWatch::ServiceWatch(const registry::Registry& registry, const ServicePage& page,
                           ServiceFilter filter)
    : registry_(registry),
      page_(page),
      filter_(std::move(filter)),
      walk_(registry.current(), filter_.host) {}

void ServiceWatch::step(std::string& text) {
  if (!is_listed_) return list_host(text);
  const std::shared_ptr<const PendingChange> change = std::move(pending_.front());
  pending_.pop_front();
  pending_keys_.erase(change->ns + "/" + change->host);
  add_changes(*change, text);
}

void ServiceWatch::list_host(std::string& text) {
  if (walk_.is_done()) {
    is_listed_ = true;
    return add_bookmark(text);
  }
  const HostEntry* entry = walk_.step();
  if (entry == nullptr) return;
  visit_services(*entry, filter_, [&](const ServiceRecord& service) {
    add_line(text, "ADDED",
             [&](Json& json) { page_.put(json, registry_, entry->host(), service); });
  });
}

void ServiceWatch::add_changes(const PendingChange& change, std::string& text) const {
  std::vector<ServiceId> present;
  std::string lines;  // of the services that are there, after those of the deleted ones
  if (const HostEntry* entry = find_entry(*registry_.current(), change.host))
    visit_services(*entry, {change.host, change.ns}, [&](const ServiceRecord& service) {
      present.push_back(id_of(change.host, service));
      const bool is_known = std::ranges::find(change.known, present.back()) != change.known.end();
      add_line(lines, is_known ? "MODIFIED" : "ADDED",
               [&](Json& json) { page_.put(json, registry_, change.host, service); });
    });
  for (const ServiceId& id : change.known)
    if (std::ranges::find(present, id) == present.end())
      add_line(text, "DELETED", [&](Json& json) { page_.put_id(json, id); });
  text += lines;
}

bool ServiceWatch::note(const std::shared_ptr<const PendingChange>& change) {
  if (!filter_.has(change->host, change->ns)) return true;
  if (!pending_keys_.insert(change->ns + "/" + change->host).second) return true;
  pending_.push_back(change);
  return pending_.size() <= kMaxPending;
}

void ServiceWatch::add_bookmark(std::string& text) const {
  add_line(text, "BOOKMARK", [&](Json& json) {
    json.StartObject();
    put(json, "generation", registry_.current()->generation);
    json.EndObject();
  });
}

std::string watch_error(std::string_view reason, std::string_view message) {
  std::string text;
  add_line(text, "ERROR", [&](Json& json) {
    json.StartObject();
    put(json, "reason", reason);
    put(json, "message", message);
    json.EndObject();
  });
  return text;
}

namespace {

using Clock = std::chrono::steady_clock;

// Between two turns.  Not 0: libuv calls a timer that its callback starts with 0 again before it
// looks at anything else.
constexpr std::chrono::milliseconds kStreamPause{1};
// The interval of the checks whether a client has read.
constexpr std::chrono::milliseconds kReadPause{10};
// Text that is handed over at a time: each takes a lock.
constexpr std::size_t kPiece = std::size_t{32} << 10;

std::string slow_reader() {
  return watch_error("SlowReader", "the client reads too slowly; list again");
}

}  // namespace

HttpResponse RegistryStreams::answer(const ServicePage& page, const HttpRequest& request) {
  ServiceFilter filter;
  filter.ns = request.argument("namespace");
  if (const auto host = request.argument("host"); !host.empty()) filter.host = canonical_host(host);
  if (!request.arguments.contains("watch"))
    return list(std::make_unique<ServiceList>(registry_, page, std::move(filter)));
  if (is_closed_) return json_error("the daemon stops", 503);
  if (page.put_id == nullptr) return json_error("watch=: this page cannot be watched", 400);
  return watch(page, std::move(filter));
}

HttpResponse RegistryStreams::list(std::unique_ptr<TextFeed> feed) {
  if (is_closed_) return json_error("the daemon stops", 503);
  std::string text;
  const Time until = Clock::now() + kTurn;
  while (!feed->is_done() && Clock::now() < until) feed->step(text);
  HttpResponse response{200, "application/json", {}};
  if (feed->is_done()) {
    response.body = std::move(text);
    return response;
  }
  if (lists_.size() >= kMaxLists)
    return json_error("too many lists are being read; try again in a few seconds", 503);
  response.stream = std::make_shared<HttpStream>();
  response.stream->write(text);
  lists_.push_back({response.stream, std::move(feed)});
  run_later(kStreamPause);
  return response;
}

HttpResponse RegistryStreams::watch(const ServicePage& page, ServiceFilter filter) {
  if (watches_.size() >= kMaxWatches)
    return json_error(
        "too many watches: at most " + std::to_string(kMaxWatches) + " can be open; close one",
        503);
  if (!handler_)
    handler_ = registry_.controller().attach(
        [this](const registry::Changes& changes, const registry::Snapshot&) { note(changes); });
  HttpResponse response{200, "application/json", {}};
  response.stream = std::make_shared<HttpStream>(slow_reader());
  watches_.push_back({response.stream,
                      std::make_unique<ServiceWatch>(registry_, page, std::move(filter)),
                      Clock::now()});
  run_later(kStreamPause);
  return response;
}

void RegistryStreams::note(const registry::Changes& changes) {
  for (const auto& change : changes.records) {
    const bool is_watched = std::ranges::any_of(watches_, [&](const Watch& watch) {
      return watch.feed->filter().has(change.host, change.ns());
    });
    if (!is_watched) continue;
    auto pending = std::make_shared<PendingChange>();
    pending->host = change.host;
    pending->ns = change.ns();
    if (change.before)
      for (const registry::ServiceRecord* service : services_of(*change.before))
        pending->known.push_back(id_of(change.host, *service));
    note(std::shared_ptr<const PendingChange>(std::move(pending)));
  }
  advance();
  run_later(kStreamPause);
}

void RegistryStreams::note(const std::shared_ptr<const PendingChange>& change) {
  for (const Watch& watch : watches_)
    if (!watch.feed->note(change)) watch.stream->give_up();
}

void RegistryStreams::run_later(std::chrono::milliseconds delay) {
  if (!timer_.is_open()) timer_.open(loop_, [this] { turn(); });
  timer_.start(delay);
}

void RegistryStreams::turn() {
  forget_closed();
  advance();
  send_heartbeats();
  plan_next_turn();
}

void RegistryStreams::forget_closed() {
  std::erase_if(lists_, [](const List& list) { return list.stream->is_closed(); });
  std::erase_if(watches_, [](const Watch& watch) { return watch.stream->is_closed(); });
  if (watches_.empty()) handler_.reset();
}

void RegistryStreams::advance() {
  const std::size_t streams = lists_.size() + watches_.size();
  if (streams == 0) return;
  const auto share = kTurn / streams;
  for (List& list : lists_) {
    advance(*list.feed, *list.stream, Clock::now() + share);
    if (list.feed->is_done()) list.stream->finish();
  }
  for (Watch& watch : watches_)
    if (advance(*watch.feed, *watch.stream, Clock::now() + share)) watch.written = Clock::now();
}

// Returns whether it has written anything.
bool RegistryStreams::advance(TextFeed& feed, HttpStream& stream, Time until) const {
  bool has_written = false;
  while (feed.has_work() && Clock::now() < until && stream.has_room() && !stream.is_closed()) {
    std::string text;
    while (feed.has_work() && text.size() < kPiece && Clock::now() < until) feed.step(text);
    has_written |= !text.empty();
    stream.write(text);
  }
  return has_written;
}

void RegistryStreams::send_heartbeats() {
  for (Watch& watch : watches_) {
    if (Clock::now() - watch.written < kHeartbeat || watch.feed->has_work()) continue;
    std::string text;
    watch.feed->add_bookmark(text);
    watch.stream->write(text);
    watch.written = Clock::now();
  }
}

void RegistryStreams::plan_next_turn() {
  bool has_work = false;
  bool can_write = false;
  const auto look_at = [&](const auto& item) {
    if (!item.feed->has_work()) return;
    has_work = true;
    can_write |= item.stream->has_room();
  };
  std::ranges::for_each(lists_, look_at);
  std::ranges::for_each(watches_, look_at);
  if (can_write) return run_later(kStreamPause);
  if (has_work || !lists_.empty()) return run_later(kReadPause);
  if (!watches_.empty()) return run_later(std::chrono::seconds(1));
  timer_.stop();
}

void RegistryStreams::close() {
  if (std::exchange(is_closed_, true)) return;
  handler_.reset();
  for (const Watch& watch : watches_) {
    watch.stream->write(watch_error("Stopping", "the daemon stops"));
    watch.stream->finish();
  }
  for (const List& list : lists_) list.stream->finish();
  watches_.clear();
  lists_.clear();
  timer_.close();
}

}  // namespace meshdns::dnsd
