// SPDX-License-Identifier: Apache-2.0
#include "dnsd/mesh/past_registry.hpp"

#include <unistd.h>

#include <functional>

#include "dnsd/mesh/kept_history.hpp"

namespace meshdns::dnsd {

// Gives each host the address that it had.
class HistoryReplay::RecordedVips final : public registry::VipAllocator {
 public:
  explicit RecordedVips(std::shared_ptr<const Vips> vips) : vips_(std::move(vips)) {}
  std::vector<registry::VipAssignment> assign(const std::vector<registry::VipRequest>& requests,
                                              const std::vector<IpAddress>&) override {
    std::vector<registry::VipAssignment> assigned;
    for (const auto& request : requests)
      if (const auto vip = vips_->find({request.ns, request.host}); vip != vips_->end())
        assigned.push_back(vip->second);
    return assigned;
  }

 private:
  const std::shared_ptr<const Vips> vips_;
};

HistoryReplay::HistoryReplay(const registry::MeshSettings& settings,
                             registry::ClientSettings clients)
    : registry_(settings) {
  registry_.set_clients(std::move(clients));
}

void HistoryReplay::apply(HistoryRecord&& record) {
  for (const auto& key : record.removed_vips) vips_->erase(key);
  for (auto& vip : record.vips) (*vips_)[{vip.ns, vip.host}] = std::move(vip);
  // A change of the settings has brought an allocator of its own.
  const bool is_new = settings_ != registry_.current()->settings;
  settings_ = registry_.current()->settings;
  if (is_new || !record.vips.empty() || !record.removed_vips.empty())
    registry_.set_vip_allocator(std::make_unique<RecordedVips>(vips_));
  if (record.facts) {
    facts_ = *record.facts;
    if (facts_.serial != registry_.current()->serial) registry_.set_serial(facts_.serial);
    registry_.set_sources(facts_.sources);
  }
  registry::Transaction objects{.restored = std::move(record.objects)};
  for (const auto& [origin, key] : record.removed) objects.remove(key, origin);
  if (!objects.empty()) registry_.commit(std::move(objects));
  // Only names that are in use have results.
  registry::Transaction results;
  for (auto& [ns, name] : record.results) results.set_resolved(ns, std::move(name));
  if (!results.empty()) registry_.commit(std::move(results));
  if (!facts_.tells_networks_apart && registry_.current()->gateways) registry_.settle_networks();
}

namespace {

std::unexpected<Error> not_kept(std::int64_t time, const std::string& why) {
  return fail("the answers of " + time_text(time) + " are not kept: " + why);
}

// Applies the records of a file up to `time`; returns the time of the first one behind.
Result<std::optional<std::int64_t>> replay_file(const std::string& path, std::int64_t time,
                                                Past& past) {
  HistoryReplay& replay = *past.replay;
  auto reader = HistoryReader::open(path, [&](std::string_view n) { return replay.origin(n); });
  if (!reader) return std::unexpected(reader.error());
  while (auto record = (*reader)->next()) {
    if (record->time > time) return record->time;
    past.since = record->time;
    replay.apply(std::move(*record));
  }
  if (!(*reader)->damage().empty()) past.trouble = path + ": " + (*reader)->damage();
  return std::nullopt;
}

}  // namespace

Result<Past> read_past(const std::string& state_dir, std::int64_t time,
                       const registry::MeshSettings& settings,
                       const registry::ClientSettings& clients) {
  std::string error;
  const std::vector<HistoryFile> files = history_files(state_dir, &error);
  if (!error.empty()) return fail(error);
  if (files.empty()) return not_kept(time, state_dir + " has no history");
  std::size_t behind = 0;
  while (behind < files.size() && files[behind].begins <= time) ++behind;
  if (behind == 0)
    return not_kept(time, "the oldest that is kept is " + time_text(files.front().begins));
  Past past;
  past.oldest = files.front().begins;
  past.replay = std::make_unique<HistoryReplay>(settings, clients);
  const auto next = replay_file(files[behind - 1].path, time, past);
  if (!next) return not_kept(time, next.error().message);
  if (past.since == 0)
    return not_kept(time, past.trouble.empty() ? files[behind - 1].path + " has no whole record"
                                               : past.trouble);
  // A running daemon writes from time to time, even if nothing changes.
  if (!*next && time > past.since + 2 * KeptHistory::kLongestSilence.count())
    return not_kept(time,
                    "the daemon kept none after " + time_text(past.since) +
                        (behind < files.size() ? " and before " + time_text(files[behind].begins)
                                               : std::string()));
  return past;
}

namespace {

// Returns why the file has no more changes than these, in words; empty: it is whole, or `stop`.
std::string for_each_change(const std::string& path, const std::stop_token& stop,
                            const std::function<void(AnswerEvent&&)>& visit) {
  auto reader = HistoryReader::open(path, {});
  if (!reader) return reader.error().message;
  while (!stop.stop_requested()) {
    auto record = (*reader)->next();
    if (!record) break;
    for (auto& event : record->events) visit(std::move(event));
  }
  const std::string& damage = (*reader)->damage();
  return damage.empty() ? std::string() : path + ": " + damage;
}

}  // namespace

std::optional<AnswerEvent> last_change_before(const std::string& state_dir, std::int64_t time,
                                              std::string_view host) {
  std::optional<AnswerEvent> last;
  const std::vector<HistoryFile> files = history_files(state_dir);
  for (auto file = files.rbegin(); file != files.rend() && !last; ++file) {
    if (file->begins > time) continue;
    for_each_change(file->path, {}, [&](AnswerEvent&& event) {
      if (event.unix_seconds <= time && event.name == host) last = std::move(event);
    });
  }
  return last;
}

std::vector<std::string> read_changes(std::span<const HistoryFile> files, std::uint64_t most_octets,
                                      const std::stop_token& stop, AnswerHistory& changes) {
  auto first = files.size();
  for (std::uint64_t octets = 0; first > 0 && octets + files[first - 1].bytes <= most_octets;)
    octets += files[--first].bytes;
  std::vector<std::string> troubles;
  for (const HistoryFile& file : files.subspan(first)) {
    std::string trouble = for_each_change(
        file.path, stop, [&](AnswerEvent&& event) { changes.keep(std::move(event)); });
    // The history of now removes files that are too old.
    if (!trouble.empty() && ::access(file.path.c_str(), F_OK) == 0)
      troubles.push_back(std::move(trouble));
  }
  return troubles;
}

}  // namespace meshdns::dnsd
