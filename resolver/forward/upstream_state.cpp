// SPDX-License-Identifier: Apache-2.0
#include "resolver/forward/upstream_state.hpp"

#include <algorithm>
#include <functional>

#include "registry/base/hash.hpp"
#include "resolver/forward/random_pool.hpp"
#include "resolver/wire/types.hpp"

namespace meshdns::dnsd {
namespace {

// Bounds of the time to the next try.
constexpr std::uint32_t kMinRetryUs = 100'000;
constexpr std::uint32_t kMaxRetryUs = 1'500'000;
constexpr Millis kFirstRetry = 300;  // before anything was measured

constexpr std::uint32_t kLossesToDoubt = 2;
// One probe is lost too easily: where a third of all packets is, two upstreams would be taken for
// dead again and again, and questions be given up that the next packet would have answered.
constexpr std::uint32_t kProbesToFall = 2;
// A server that has sent any answer within this time is not dead.
constexpr Millis kSilenceToFall = 1'000;
// While an upstream is down, so often is it asked whether it is back: in time for an answer within
// a second of its return.
constexpr Millis kFirstProbePause = 250;
constexpr Millis kLongestProbePause = 700;

constexpr std::uint32_t kCaseStrikes = 2;
constexpr Millis kPlainCaseTime = 3'600'000;

// The time with no answer but errors after which an upstream is failing.  It doubles
// each time that the upstream works again, and is short again after a calm.
constexpr Millis kTimeToFail = 10'000;
constexpr Millis kLongestTimeToFail = 600'000;
constexpr Millis kCalm = 3'600'000;

constexpr std::uint64_t kFirstBucketUs = 250;

// 32 hexadecimal digits that nobody else can know.
std::string random_label() {
  constexpr std::string_view kDigits = "0123456789abcdef";
  RandomPool random;
  std::string label(32, '0');
  for (char& digit : label) digit = kDigits[random.below(16)];
  return label;
}

// The intervals of the loop checks of an upstream server that loops, and of one that does not.
constexpr Millis kLoopedPause = 10'000;
constexpr Millis kLoopCheckPause = 300'000;
constexpr Millis kFirstLoopRetry = 2'000;

}  // namespace

UpstreamState::UpstreamState(std::string name, ForwardListener& listener)
    : name_(std::move(name)), listener_(listener), loop_label_(random_label()) {}

Millis UpstreamState::retry_after() const {
  const std::uint32_t srtt = srtt_us_.load(kRelaxed);
  if (srtt == 0) return kFirstRetry;
  const std::uint32_t wait = srtt + 4 * rttvar_us_.load(kRelaxed);
  return std::clamp(wait, kMinRetryUs, kMaxRetryUs) / 1000;
}

// RFC 6298, section 2.  Workers may overwrite each other's sample; another follows.
void UpstreamState::measure(std::uint32_t rtt_us) {
  const std::uint32_t rtt = std::clamp<std::uint32_t>(rtt_us, 1, 10'000'000);
  const std::uint32_t srtt = srtt_us_.load(kRelaxed);
  if (srtt == 0) {
    srtt_us_.store(rtt, kRelaxed);
    rttvar_us_.store(rtt / 2, kRelaxed);
  } else {
    const std::uint32_t away = srtt > rtt ? srtt - rtt : rtt - srtt;
    rttvar_us_.store((3 * rttvar_us_.load(kRelaxed) + away) / 4, kRelaxed);
    srtt_us_.store((7 * srtt + rtt) / 8, kRelaxed);
  }
  std::size_t bucket = 0;
  for (std::uint64_t bound = kFirstBucketUs; bucket < kLatencyBuckets && rtt > bound; bound *= 2)
    ++bucket;
  latency_[bucket].fetch_add(1, kRelaxed);
  latency_sum_us_.fetch_add(rtt, kRelaxed);
}

bool UpstreamState::note_reply(Millis now, std::uint32_t rtt_us) {
  if (rtt_us > 0) measure(rtt_us);
  last_reply_.store(now, kRelaxed);
  lost_in_a_row_.store(0, kRelaxed);
  if (health_.load(kRelaxed) == Health::Up) return false;
  const Health before = health_.exchange(Health::Up, kRelaxed);
  probes_lost_.store(0, kRelaxed);
  if (before == Health::Down) listener_.on_upstream_up(name_);
  return before != Health::Up;
}

void UpstreamState::note_rcode(wire::Rcode rcode) {
  switch (rcode) {
    case wire::Rcode::NoError:
    case wire::Rcode::NxDomain:
      counts.answers.fetch_add(1, kRelaxed);
      break;
    case wire::Rcode::ServFail:
      counts.servfail.fetch_add(1, kRelaxed);
      break;
    case wire::Rcode::Refused:
      counts.refused.fetch_add(1, kRelaxed);
      break;
    default:
      counts.other_rcodes.fetch_add(1, kRelaxed);
  }
}

void UpstreamState::judge_rcode(wire::Rcode rcode, std::string_view name, Millis now) {
  if (rcode == wire::Rcode::NoError || rcode == wire::Rcode::NxDomain)
    return note_usable_rcode(now);
  note_failure_rcode(rcode, name, now);
}

void UpstreamState::note_usable_rcode(Millis now) {
  last_usable_.store(now, kRelaxed);
  if (failures_.load(kRelaxed) != 0) failures_.store(0, kRelaxed);
  if (failing_with_.load(kRelaxed) == wire::Rcode::NoError ||
      failing_with_.exchange(wire::Rcode::NoError, kRelaxed) == wire::Rcode::NoError)
    return;
  works_since_.store(now, kRelaxed);
  time_to_fail_.store(std::min(2 * time_to_fail_.load(kRelaxed), kLongestTimeToFail), kRelaxed);
  listener_.on_upstream_working(name_);
}

// True: enough names have failed.  Two threads may lose a name here, or count one twice.
bool UpstreamState::count_failed_name(std::size_t name) {
  const std::uint32_t known = failures_.load(kRelaxed);
  if (known >= kFailuresToFail) return true;
  for (std::uint32_t i = 0; i < known; ++i)
    if (failure_names_[i].load(kRelaxed) == name) return false;
  failure_names_[known].store(name, kRelaxed);
  failures_.store(known + 1, kRelaxed);
  return known + 1 >= kFailuresToFail;
}

void UpstreamState::note_failure_rcode(wire::Rcode rcode, std::string_view name, Millis now) {
  if (failing_with_.load(kRelaxed) != wire::Rcode::NoError) return;
  if (!count_failed_name(hash_bytes(name))) return;
  const Millis works_since = works_since_.load(kRelaxed);
  const Millis time_to_fail =
      works_since == 0 || now > works_since + kCalm ? kTimeToFail : time_to_fail_.load(kRelaxed);
  const Millis last_usable = last_usable_.load(kRelaxed);
  if (last_usable != 0 && now < last_usable + time_to_fail) return;
  wire::Rcode works = wire::Rcode::NoError;
  if (!failing_with_.compare_exchange_strong(works, rcode, kRelaxed)) return;
  time_to_fail_.store(time_to_fail, kRelaxed);
  note_error("answers nothing but " + std::string(wire::to_string(rcode)));
  listener_.on_upstream_failing(name_, wire::to_string(rcode));
}

void UpstreamState::doubt() {
  if (lost_in_a_row_.fetch_add(1, kRelaxed) + 1 < kLossesToDoubt) return;
  Health up = Health::Up;
  if (health_.compare_exchange_strong(up, Health::Doubtful, kRelaxed))
    next_probe_.store(0, kRelaxed);
}

void UpstreamState::note_timeout(Millis sent_at) {
  counts.timeouts.fetch_add(1, kRelaxed);
  note_error("no answer in time");
  // It answered others since: the fault lies with this name or was a lost packet.
  if (last_reply_.load(kRelaxed) > sent_at) return;
  doubt();
}

void UpstreamState::note_unreachable(std::string_view reason) {
  counts.unreachable.fetch_add(1, kRelaxed);
  note_error(reason);
  doubt();
}

void UpstreamState::note_error(std::string_view what) {
  const std::lock_guard lock(error_mutex_);
  last_error_ = what;
  last_error_at_ = std::chrono::steady_clock::now();
}

bool UpstreamState::claim_probe(Millis now) {
  if (health_.load(kRelaxed) == Health::Up) return false;
  Millis due = next_probe_.load(kRelaxed);
  if (now < due) return false;
  return next_probe_.compare_exchange_strong(due, now + kLongestProbePause, kRelaxed);
}

void UpstreamState::note_probe_lost(Millis now, std::string_view reason) {
  counts.probe_failures.fetch_add(1, kRelaxed);
  note_error(reason);
  const std::uint32_t lost = probes_lost_.fetch_add(1, kRelaxed);
  const Millis pause =
      std::min(kFirstProbePause << std::min<std::uint32_t>(lost, 4), kLongestProbePause);
  next_probe_.store(now + pause, kRelaxed);
  if (lost + 1 < kProbesToFall || now < last_reply_.load(kRelaxed) + kSilenceToFall) return;
  Health doubtful = Health::Doubtful;
  if (health_.compare_exchange_strong(doubtful, Health::Down, kRelaxed))
    listener_.on_upstream_down(name_, reason);
}

void UpstreamState::put_off_probe(Millis now) {
  next_probe_.store(now + kFirstProbePause, kRelaxed);
}

void UpstreamState::note_case_lost(Millis now) {
  if (case_strikes_.fetch_add(1, kRelaxed) + 1 < kCaseStrikes) return;
  const bool news = keeps_case(now);
  case_strikes_.store(0, kRelaxed);
  plain_case_until_.store(now + kPlainCaseTime, kRelaxed);
  if (news)
    listener_.on_upstream_learned(name_,
                                  "does not preserve the case of names; queries are in lower case");
}

void ServerFeature::note_success(Millis now) {
  worked_at_.store(std::max<Millis>(now, 1), kRelaxed);
  if (strikes_.load(kRelaxed) != 0) strikes_.store(0, kRelaxed);
  if (is_told_.load(kRelaxed)) is_told_.store(false, kRelaxed);
}

// Two threads may lose a name here, or count one twice.
bool ServerFeature::note_failure(std::string_view name, Millis now) {
  const Millis worked_at = worked_at_.load(kRelaxed);
  if (worked_at != 0 && now < worked_at + kTime) return false;
  const std::size_t hash = hash_bytes(name);
  if (strikes_.load(kRelaxed) != 0 && struck_name_.load(kRelaxed) == hash) return false;
  struck_name_.store(hash, kRelaxed);
  if (strikes_.fetch_add(1, kRelaxed) + 1 < kStrikes) return false;
  strikes_.store(0, kRelaxed);
  off_until_.store(now + kTime, kRelaxed);
  return !is_told_.exchange(true, kRelaxed);
}

void UpstreamState::note_no_edns(std::string_view name, Millis now) {
  if (edns_.note_failure(name, now))
    listener_.on_upstream_learned(name_, "does not support EDNS; queries have no OPT record");
}

void UpstreamState::note_no_options(std::string_view name, Millis now) {
  if (edns_options_.note_failure(name, now))
    listener_.on_upstream_learned(name_,
                                  "refuses options of EDNS; queries have neither DNS cookies nor "
                                  "other options (upstream.cookies: off)");
}

void UpstreamState::note_cookies_lost() {
  listener_.on_upstream_learned(
      name_, "no longer sends DNS cookies; replies without cookies are accepted");
}

bool UpstreamState::claim_loop_check(Millis now) {
  Millis due = next_loop_check_.load(kRelaxed);
  if (now < due) return false;
  const Millis pause = is_looped() ? kLoopedPause : kLoopCheckPause;
  if (!next_loop_check_.compare_exchange_strong(due, now + pause, kRelaxed)) return false;
  came_back_.store(false, kRelaxed);
  return true;
}

void UpstreamState::note_loop_check_lost(Millis now) {
  const std::uint32_t lost = loop_checks_lost_.fetch_add(1, kRelaxed);
  const Millis pause = kFirstLoopRetry << std::min<std::uint32_t>(lost, 16);
  next_loop_check_.store(now + std::min(pause, kLoopCheckPause), kRelaxed);
}

void UpstreamState::put_off_loop_check(Millis now) {
  next_loop_check_.store(now + kFirstLoopRetry, kRelaxed);
}

void UpstreamState::note_loop_check_over() {
  loop_checks_lost_.store(0, kRelaxed);
  if (!came_back_.load(kRelaxed)) set_looped(false);
}

void UpstreamState::note_came_back(Millis now) {
  came_back_.store(true, kRelaxed);
  next_loop_check_.store(now + kLoopedPause, kRelaxed);
  set_looped(true);
}

void UpstreamState::set_looped(bool looped) {
  if (looped_.exchange(looped, kRelaxed) == looped) return;
  if (looped) {
    note_error("sends our queries back to us");
    listener_.on_loop_found(name_);
  } else {
    listener_.on_loop_gone(name_);
  }
}

UpstreamStatus UpstreamState::status(Millis now) const {
  UpstreamStatus status;
  status.name = name_;
  status.health = health();
  status.looped = is_looped();
  status.rtt_us = rtt_us();
  status.in_flight = counts.in_flight.load(kRelaxed);
  status.queries = counts.queries.load(kRelaxed);
  status.answers = counts.answers.load(kRelaxed);
  status.servfail = counts.servfail.load(kRelaxed);
  status.refused = counts.refused.load(kRelaxed);
  status.other_rcodes = counts.other_rcodes.load(kRelaxed);
  status.timeouts = counts.timeouts.load(kRelaxed);
  status.unreachable = counts.unreachable.load(kRelaxed);
  status.malformed = counts.malformed.load(kRelaxed);
  status.mismatched = counts.mismatched.load(kRelaxed);
  status.truncated = counts.truncated.load(kRelaxed);
  status.tcp_queries = counts.tcp_queries.load(kRelaxed);
  status.connections = counts.connections.load(kRelaxed);
  status.resumed = counts.resumed.load(kRelaxed);
  status.probes = counts.probes.load(kRelaxed);
  status.probe_failures = counts.probe_failures.load(kRelaxed);
  if (const auto rcode = failing_with_.load(kRelaxed); rcode != wire::Rcode::NoError)
    status.failing_with = wire::to_string(rcode);
  status.keeps_case = keeps_case(now);
  status.speaks_edns = edns_.is_used(now);
  status.takes_options = edns_options_.is_used(now);
  for (std::size_t i = 0; i < latency_.size(); ++i) status.latency[i] = latency_[i].load(kRelaxed);
  status.latency_sum_us = latency_sum_us_.load(kRelaxed);
  const std::lock_guard lock(error_mutex_);
  status.last_error = last_error_;
  status.last_error_age = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now() - last_error_at_);
  return status;
}

std::string_view health_name(const UpstreamStatus& status) {
  if (status.looped) return "loop";
  switch (status.health) {
    case Health::Up:
      return status.failing_with.empty() ? "up" : "failing";
    case Health::Doubtful:
      return "doubtful";
    case Health::Down:
      return "down";
  }
  return "";
}

std::shared_ptr<UpstreamState> UpstreamStates::state_of(const UpstreamServer& server) {
  std::string name = server.to_string();
  const std::lock_guard lock(mutex_);
  std::erase_if(states_, [](const auto& entry) { return entry.second.expired(); });
  auto state = states_[name].lock();
  if (!state) {
    state = std::make_shared<UpstreamState>(name, listener_);
    states_[name] = state;
  }
  return state;
}

bool UpstreamStates::note_came_back(std::string_view loop_label, Millis now) {
  std::shared_ptr<UpstreamState> found;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [name, state] : states_)
      if (auto held = state.lock(); held && held->loop_label() == loop_label)
        found = std::move(held);
  }
  if (found) found->note_came_back(now);
  return found != nullptr;
}

std::vector<UpstreamStatus> UpstreamStates::status(Millis now) const {
  std::vector<std::shared_ptr<UpstreamState>> alive;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [name, state] : states_)
      if (auto held = state.lock()) alive.push_back(std::move(held));
  }
  std::vector<UpstreamStatus> all;
  all.reserve(alive.size());
  for (const auto& state : alive) all.push_back(state->status(now));
  return all;
}

}  // namespace meshdns::dnsd
