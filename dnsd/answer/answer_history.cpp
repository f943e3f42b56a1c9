// SPDX-License-Identifier: Apache-2.0
#include "dnsd/answer/answer_history.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <vector>

#include "registry/base/enum_text.hpp"

namespace meshdns::dnsd {
namespace {

using registry::AnswerKind;
using registry::ServiceRecord;
using registry::StoredRef;
using Kind = AnswerEvent::Kind;

// A text has the first of many addresses, names or namespaces.
constexpr std::size_t kMaxListed = 4;
constexpr std::size_t kHeapOverhead = 16;  // of one allocation

// --- texts ---------------------------------------------------------------------------------------

std::string first_of(std::vector<std::string> words) {
  const std::size_t count = words.size();
  std::ranges::sort(words);
  words.resize(std::min(count, kMaxListed));
  std::string text;
  for (const auto& word : words) text += (text.empty() ? "" : ", ") + word;
  return count > kMaxListed ? text + fmt::format(" and {} more", count - kMaxListed) : text;
}

std::vector<std::string> words_of(const registry::AddressView& addresses) {
  std::vector<std::string> words;
  for (const auto& octets : addresses.v4) words.push_back(IpAddress::v4(octets).to_string());
  for (const auto& octets : addresses.v6) words.push_back(IpAddress::v6(octets).to_string());
  return words;
}

std::vector<std::string> namespaces_of(const registry::ExportSet& exports) {
  std::vector<std::string> names;
  for (const auto& ns : exports.namespaces) names.emplace_back(ns->text());
  std::ranges::sort(names);
  return names;
}

std::string answer_of(const ServiceRecord& service) {
  switch (service.answer) {
    case AnswerKind::Vips:
    case AnswerKind::Endpoints:
      return first_of(words_of(service.addresses(nullptr, nullptr)));
    case AnswerKind::Alias:
      return "CNAME " + std::string(service.alias());
    case AnswerKind::NoAddress:
      return "no address";
    case AnswerKind::NoReadyEndpoints:
      return "no ready endpoints";
    case AnswerKind::Forward:
      return "forwarded";
    case AnswerKind::Pending:
      return "waits for the addresses of " + first_of(service.resolved_names());
    case AnswerKind::Unresolvable:
      return "SERVFAIL: no address of " + first_of(service.resolved_names());
  }
  return {};
}

std::string described(const ServiceRecord& service) {
  std::string text = answer_of(service);
  if (!service.exports) return text;
  const auto names = namespaces_of(*service.exports);
  if (names.empty()) return text + " for nobody";
  return text + (names.size() == 1 ? " for namespace " : " for namespaces ") + first_of(names);
}

// --- comparison ----------------------------------------------------------------------------------

// By text: after a change of the settings, all symbols are others.
std::string_view text_of(const registry::SymbolRef& symbol) {
  return symbol ? symbol->text() : std::string_view();
}

bool same_scopes(std::span<const registry::ScopedAddresses> a,
                 std::span<const registry::ScopedAddresses> b) {
  return std::ranges::equal(a, b, [](const auto& x, const auto& y) {
    return text_of(x.network) == text_of(y.network) && text_of(x.cluster) == text_of(y.cluster) &&
           x.addresses.v4 == y.addresses.v4 && x.addresses.v6 == y.addresses.v6;
  });
}

bool same_exports(const ServiceRecord& a, const ServiceRecord& b) {
  if (!a.exports || !b.exports) return !a.exports == !b.exports;
  return a.exports == b.exports || namespaces_of(*a.exports) == namespaces_of(*b.exports);
}

// The endpoints of headless Services have names.
bool same_members(const ServiceRecord& a, const ServiceRecord& b) {
  if (!a.headless || a.endpoints() == b.endpoints()) return true;
  if (a.endpoints() == nullptr || b.endpoints() == nullptr) return false;
  return std::ranges::equal(a.endpoints()->entries, b.endpoints()->entries,
                            [](const auto& x, const auto& y) {
                              return x.address == y.address && x.ready == y.ready &&
                                     x.hostname == y.hostname && x.pod_name == y.pod_name;
                            });
}

// Returns whether nothing but the result of look-ups differs.
bool is_looked_up_again(const ServiceRecord& a, const ServiceRecord& b) {
  if (a.resolved_names().empty() || a.resolved_names() != b.resolved_names() || !same_sources(a, b))
    return false;
  return a.answer == AnswerKind::Pending || a.answer == b.answer;
}

bool same_answers(const ServiceRecord& a, const ServiceRecord& b) {
  if (is_looked_up_again(a, b)) return true;
  if (a.answer != b.answer || a.headless != b.headless || a.alias() != b.alias()) return false;
  if (!same_addresses(a, b)) return false;
  return same_scopes(a.addresses_by_network(), b.addresses_by_network()) &&
         same_scopes(a.addresses_by_cluster(), b.addresses_by_cluster()) && same_exports(a, b) &&
         same_ports(a, b) && same_members(a, b) &&
         (a.answer != AnswerKind::Pending && a.answer != AnswerKind::Unresolvable
              ? true
              : a.resolved_names() == b.resolved_names());
}

// Returns whether clients cannot see the change; placeholders are no services.
bool is_unseen(const registry::RecordChange& change) {
  const ServiceRecord* const before = change.service_before();
  const ServiceRecord* const after = change.service_after();
  if (before == nullptr || after == nullptr) return before == after;
  return before == after || same_answers(*before, *after);
}

// The object that is new in `after`, or was in `before` and is no more, or the first of the
// service.
StoredRef changed_object(const ServiceRecord* before, const ServiceRecord* after) {
  const auto has = [](const ServiceRecord* service, const StoredRef& object) {
    bool found = false;
    if (service != nullptr)
      service->for_each_source([&](const StoredRef& source) { found |= source == object; });
    return found;
  };
  StoredRef changed;
  const auto look_for = [&](const ServiceRecord* in, const ServiceRecord* not_in) {
    if (in == nullptr || changed) return;
    in->for_each_source([&](const StoredRef& source) {
      if (!changed && !has(not_in, source)) changed = source;
    });
  };
  look_for(after, before);
  look_for(before, after);
  return changed ? changed : (after != nullptr ? after : before)->source;
}

std::size_t size_of(const AnswerEvent& event) {
  std::size_t size = sizeof event;
  for (const std::string* text :
       {&event.name, &event.ns, &event.before, &event.after, &event.object, &event.source})
    if (text->capacity() > std::string().capacity()) size += text->capacity() + kHeapOverhead;
  return size;
}

}  // namespace

std::string_view to_string(AnswerEvent::Kind kind) {
  return enum_text<AnswerEvent::Kind::Different>(kind, {"appeared", "vanished", "different"});
}

std::string time_text(std::int64_t unix_seconds) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(static_cast<std::time_t>(unix_seconds)));
}

std::string answers_text(const AnswerEvent& event) {
  if (event.kind == Kind::Appeared) return event.after;
  if (event.kind == Kind::Vanished) return event.before;
  if (event.before == event.after) return event.after;
  return "from " + event.before + " to " + event.after;
}

std::string change_text(const AnswerEvent& event) {
  std::string text = std::string(to_string(event.kind)) + ", " + answers_text(event);
  if (!event.object.empty()) text += "; " + event.object;
  if (!event.source.empty()) text += " (" + event.source + ")";
  return text;
}

void AnswerHistory::begin(const registry::Snapshot& snapshot, std::int64_t unix_seconds) {
  origins_ = snapshot.origins;
  const std::lock_guard lock(mutex_);
  known_since_ = unix_seconds;
}

void AnswerHistory::add(const registry::Changes& changes) {
  for (const auto& change : changes.records) {
    std::pair key(change.host, std::string(change.ns()));
    const auto known = pending_.find(key);
    if (known != pending_.end())
      known->second.after = change.after;
    else if (!is_unseen(change))
      pending_.emplace(std::move(key), change);
  }
}

void AnswerHistory::look(const registry::Snapshot& snapshot, std::int64_t unix_seconds) {
  for (const auto& [key, change] : pending_)
    if (!is_unseen(change)) note(change, *snapshot.origins, unix_seconds);
  pending_.clear();
  origins_ = snapshot.origins;
}

void AnswerHistory::note(const registry::RecordChange& change, const registry::OriginNames& origins,
                         std::int64_t unix_seconds) {
  const ServiceRecord* const before = change.service_before();
  const ServiceRecord* const after = change.service_after();
  AnswerEvent event;
  event.unix_seconds = unix_seconds;
  event.name = change.host;
  event.ns = (after != nullptr ? after : before)->ns->text();
  if (before != nullptr) event.before = described(*before);
  if (after != nullptr) event.after = described(*after);
  event.kind = before == nullptr  ? Kind::Appeared
               : after == nullptr ? Kind::Vanished
                                  : Kind::Different;
  ++(event.kind == Kind::Appeared   ? counts_.appeared
     : event.kind == Kind::Vanished ? counts_.vanished
                                    : counts_.different);
  if (const StoredRef object = changed_object(before, after)) {
    event.object = object->label();
    // A file that has gone left its name in the snapshot of the last look.
    const std::string_view origin = (after == nullptr ? *origins_ : origins).of(object->origin());
    event.source = origin;
    if (!origin.empty() && object->line() != 0)
      event.source += ":" + std::to_string(object->line());
  }
  keep(std::move(event));
}

void AnswerHistory::keep(AnswerEvent&& event) {
  bytes_ += size_of(event);
  const std::lock_guard lock(mutex_);
  events_.push_back(std::move(event));
  while (events_.size() > kMaxEvents || bytes_ > kMaxBytes) forget_oldest();
}

void AnswerHistory::forget_oldest() {
  bytes_ -= size_of(events_.front());
  known_since_ = events_.front().unix_seconds;
  has_forgotten_ = true;
  events_.pop_front();
}

const AnswerEvent* AnswerHistory::last_of(std::string_view name) const {
  const auto found = std::find_if(events_.rbegin(), events_.rend(),
                                  [&](const AnswerEvent& event) { return event.name == name; });
  return found == events_.rend() ? nullptr : &*found;
}

std::string AnswerHistory::last_change(std::string_view host, std::string_view ns) const {
  const std::lock_guard lock(mutex_);
  if (!known_since_) return {};
  if (const AnswerEvent* event = last_of(host)) {
    const std::string time = time_text(event->unix_seconds);
    std::string text = ns.empty() || event->ns == ns
                           ? "since " + time
                           : "last change of the name " + time + ", in namespace " + event->ns;
    text += ": " + change_text(*event);
    return text;
  }
  if (ns.empty()) return {};
  const std::string known_since = time_text(*known_since_);
  if (is_whole()) return "since: unchanged since the start, " + known_since;
  return "since: unchanged since " + known_since + "; earlier changes are forgotten";
}

}  // namespace meshdns::dnsd
