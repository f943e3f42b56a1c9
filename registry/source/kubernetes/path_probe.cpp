// SPDX-License-Identifier: Apache-2.0
#include "registry/source/kubernetes/path_probe.hpp"

#include <algorithm>
#include <utility>

namespace meshdns::registry::kubernetes {
namespace {

// Between two probes, whatever became of the first.
constexpr Milliseconds kMaxPause{5'000};

}  // namespace

PathProbe::PathProbe(Transport& transport, Scheduler& scheduler, const Limits& limits, Hooks hooks)
    : transport_(transport), scheduler_(scheduler), limits_(limits), hooks_(std::move(hooks)) {}

PathProbe::~PathProbe() = default;

void PathProbe::start() { look_in(limits_.silence); }

void PathProbe::look_in(Milliseconds delay) {
  timer_ = scheduler_.after(delay, [this] { look(); });
}

void PathProbe::pause() { look_in(std::min(kMaxPause, limits_.answer)); }

void PathProbe::look() {
  const auto heard = hooks_.last_heard();
  if (!heard) return look_in(limits_.silence);
  const Milliseconds due = *heard + limits_.silence - scheduler_.now();
  if (due > Milliseconds(0)) return look_in(due);
  probe(*heard);
}

void PathProbe::suspect() {
  const auto heard = hooks_.last_heard();
  if (heard && scheduler_.now() - *heard >= limits_.answer) probe(*heard);
}

void PathProbe::probe(Milliseconds silent_since) {
  asked_at_ = scheduler_.now();
  exchange_ = transport_.get(kPath, Content::Objects, *this);
  timer_ = scheduler_.after(limits_.answer, [this, silent_since] {
    exchange_.reset();
    pause();
    const auto heard = hooks_.last_heard();
    if (heard && *heard <= silent_since) hooks_.is_dead(asked_at_);
  });
}

void PathProbe::on_head(const ResponseHead& head) {
  hooks_.is_alive({asked_at_ - limits_.answer, head.connection});
}

// A connection that has failed ends its own watches, too.
void PathProbe::on_end(const Result<void>&) {
  exchange_.reset();
  pause();
}

}  // namespace meshdns::registry::kubernetes
