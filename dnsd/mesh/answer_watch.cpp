// SPDX-License-Identifier: Apache-2.0
#include "dnsd/mesh/answer_watch.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "dnsd/mesh/state_file.hpp"

namespace meshdns::dnsd {
namespace {

constexpr std::size_t kNamesShown = 5;

std::string names_of(const std::deque<AnswerEvent>& events, std::size_t newest) {
  std::string names;
  const std::size_t first = events.size() - std::min(newest, events.size());
  for (std::size_t i = first; i < std::min(first + kNamesShown, events.size()); ++i)
    names += (names.empty() ? "" : ",") + events[i].name;
  return names;
}

}  // namespace

void AnswerWatch::begin() { history_.begin(*registry_.current(), unix_now()); }

const AnswerHistory& AnswerWatch::history() {
  history_.look(*registry_.current(), unix_now());
  return history_;
}

void AnswerWatch::tick() {
  const AnswerHistory::Counts counts = history().counts();
  const AnswerHistory::Counts before = std::exchange(said_, counts);
  const std::uint64_t changes = counts.all() - before.all();
  if (changes == 0 || !log_.enabled(LogLevel::Info)) return;
  const std::string names = names_of(history_.events(), changes);
  const AnswerEvent& last = history_.events().back();
  const std::string answers = changes == 1 ? answers_text(last) : std::string("see /changes");
  log_.info("answers changed", {{"appeared", counts.appeared - before.appeared},
                                {"vanished", counts.vanished - before.vanished},
                                {"different", counts.different - before.different},
                                {"names", names},
                                {"answers", answers},
                                {"object", last.object},
                                {"source", last.source}});
}

}  // namespace meshdns::dnsd
