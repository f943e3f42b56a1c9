// SPDX-License-Identifier: Apache-2.0
// The registry as it was at an earlier time, made again from the history in state_dir by the code
// that made it then.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dnsd/answer/answer_history.hpp"
#include "dnsd/mesh/history_file.hpp"
#include "registry/base/result.hpp"
#include "registry/registry.hpp"

namespace meshdns::dnsd {

// Applies the records of one file, in their order.  One thread.
class HistoryReplay {
 public:
  HistoryReplay(const registry::MeshSettings& settings, registry::ClientSettings clients);

  // For HistoryReader.
  registry::OriginId origin(std::string_view name) { return registry_.origin(name); }
  void apply(HistoryRecord&& record);

  registry::Registry& registry() { return registry_; }
  const HistoryFacts& facts() const { return facts_; }

 private:
  // By namespace and host.
  using Vips = std::map<std::pair<std::string, std::string>, registry::VipAssignment>;
  class RecordedVips;

  const std::shared_ptr<Vips> vips_ = std::make_shared<Vips>();
  registry::Registry registry_;
  HistoryFacts facts_;
  std::shared_ptr<const registry::MeshSettings> settings_;  // at the last record
};

// A moment of the history.
struct Past {
  std::unique_ptr<HistoryReplay> replay;
  std::int64_t oldest = 0;  // the first moment that is kept
  std::int64_t since = 0;   // the moment since which it was so
  // The reason why the file has no later records, in words; empty: it has, or is whole.
  std::string trouble;
};

// `time`: Unix seconds.  An Error: that moment is not kept.
Result<Past> read_past(const std::string& state_dir, std::int64_t time,
                       const registry::MeshSettings& settings,
                       const registry::ClientSettings& clients);

// The last change of the answers for `host` up to that time; nullopt: none is kept.
std::optional<AnswerEvent> last_change_before(const std::string& state_dir, std::int64_t time,
                                              std::string_view host);

// Adds the changes in the files to `changes`, those of the newest files that have `most_octets`
// together.  Ends early on `stop`.  Returns the files that cannot be read as a whole, with why:
// their other changes, and those of other files, are there.  Any thread.
std::vector<std::string> read_changes(std::span<const HistoryFile> files, std::uint64_t most_octets,
                                      const std::stop_token& stop, AnswerHistory& changes);

}  // namespace meshdns::dnsd
