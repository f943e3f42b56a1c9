// SPDX-License-Identifier: Apache-2.0
#include "registry/source/kubernetes/path_probe.hpp"

#include <algorithm>
#include <utility>

namespace meshdns::registry::kubernetes {

PathProbe::PathProbe(Transport& transport, Scheduler& scheduler, Hooks hooks)
    : transport_(transport), scheduler_(scheduler), hooks_(std::move(hooks)) {}

PathProbe::~PathProbe() = default;

void PathProbe::start() { look_in(kSilence); }

void PathProbe::look_in(Milliseconds delay) {
  timer_ = scheduler_.after(delay, [this] { look(); });
}

void PathProbe::look() {
  const auto heard = hooks_.last_heard();
  if (!heard) return look_in(kSilence);
  const Milliseconds due = std::max(*heard, answered_at_) + kSilence - scheduler_.now();
  if (due > Milliseconds(0)) return look_in(due);
  probe(std::max(*heard, answered_at_));
}

void PathProbe::probe(Milliseconds silent_since) {
  exchange_ = transport_.get(kPath, Content::Objects, *this);
  timer_ = scheduler_.after(kAnswerLimit, [this, silent_since] {
    exchange_.reset();
    look_in(kSilence);
    const auto heard = hooks_.last_heard();
    if (heard && *heard <= silent_since) hooks_.is_dead(silent_since);
  });
}

void PathProbe::on_head(const ResponseHead&) { answered_at_ = scheduler_.now(); }

// A connection that has failed ends its watches, too.
void PathProbe::on_end(const Result<void>&) {
  exchange_.reset();
  look_in(kSilence);
}

}  // namespace meshdns::registry::kubernetes
