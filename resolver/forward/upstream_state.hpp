// SPDX-License-Identifier: Apache-2.0
// The state of each upstream, shared by the workers: round-trip time, health, missing features, and
// counters.  All workers benefit from the experience of one.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "resolver/cache/cached_message.hpp"
#include "resolver/settings.hpp"

namespace meshdns::dnsd {

// Its counters order nothing.
inline constexpr auto kRelaxed = std::memory_order_relaxed;

enum class Health : std::uint8_t {
  Up,
  Doubtful,  // queries stay unanswered: others are preferred, a probe is under way
  Down,      // the probe stayed unanswered, too
};

// Upper bounds of the latency buckets: 0.25 ms doubled, as CoreDNS has them.
inline constexpr std::size_t kLatencyBuckets = 16;

// Names with an error as rcode, and no other answer between, after which an upstream is failing.
inline constexpr std::size_t kFailuresToFail = 5;

// A copy for the admin page and metrics.
struct UpstreamStatus {
  std::string name;
  Health health = Health::Up;
  bool looped = false;
  // The rcode, "SERVFAIL" say, while it answers nothing but errors; empty = it does not fail.
  std::string_view failing_with;
  std::uint32_t rtt_us = 0;  // smoothed; 0 = never measured
  std::uint64_t in_flight = 0;
  std::uint64_t queries = 0;  // messages sent, tries and probes included
  std::uint64_t answers = 0;  // NOERROR, NXDOMAIN
  std::uint64_t servfail = 0;
  std::uint64_t refused = 0;
  std::uint64_t other_rcodes = 0;
  std::uint64_t timeouts = 0;
  std::uint64_t unreachable = 0;  // ICMP, refused connections
  std::uint64_t malformed = 0;
  std::uint64_t mismatched = 0;  // datagrams that were no reply to what was asked: ignored
  std::uint64_t truncated = 0;   // asked again over TCP
  std::uint64_t tcp_queries = 0;
  std::uint64_t connections = 0;  // TCP and TLS connections opened
  std::uint64_t resumed = 0;      // of these, TLS sessions resumed
  std::uint64_t probes = 0;
  std::uint64_t probe_failures = 0;
  bool keeps_case = true;
  bool speaks_edns = true;
  bool takes_options = true;  // of EDNS: cookies
  std::string last_error;     // empty = none yet
  std::chrono::milliseconds last_error_age{0};
  std::array<std::uint64_t, kLatencyBuckets + 1>
      latency{};  // answers up to each bound, not summed up
  std::uint64_t latency_sum_us = 0;
};

// "up", "doubtful", "down", "failing", or "loop": it sends our own queries back.
std::string_view health_name(const UpstreamStatus& status);

// Receives events of the forwarder, for the log, and ignores those that nobody overrides.  Called
// on any worker's thread, several at once; must not block.  `upstream` is written as in the
// configuration: "10.0.0.53:53", "tls://9.9.9.9:853#dns.quad9.net".
class ForwardListener {
 public:
  virtual ~ForwardListener() = default;
  virtual void on_upstream_down(std::string_view /*upstream*/, std::string_view /*reason*/) {}
  virtual void on_upstream_up(std::string_view /*upstream*/) {}
  // It answers, but nothing else than `rcode` any more; and it answers other things again.
  virtual void on_upstream_failing(std::string_view /*upstream*/, std::string_view /*rcode*/) {}
  virtual void on_upstream_working(std::string_view /*upstream*/) {}
  // Our own queries come back to us through this upstream; it is asked no more until they do not.
  virtual void on_loop_found(std::string_view /*upstream*/) {}
  virtual void on_loop_gone(std::string_view /*upstream*/) {}
  // A peculiarity was learned: "does not keep the case of names", "does not understand EDNS".
  virtual void on_upstream_learned(std::string_view /*upstream*/, std::string_view /*what*/) {}
};

// A feature that most servers support and some do not.  It is left out for a while after questions
// for several names in a row were answered without it only, unless it has worked shortly before:
// one name that a server cannot answer says nothing about the server.  Any thread.
class ServerFeature {
 public:
  static constexpr Millis kTime = 900'000;  // 15 min: of leaving it out, and of trust in it
  static constexpr std::uint32_t kStrikes = 2;

  bool is_used(Millis now) const { return now >= off_until_.load(kRelaxed); }
  bool has_worked() const { return worked_at_.load(kRelaxed) != 0; }
  // An answer to a query that had it.
  void note_success(Millis now);
  // An answer that came without it only.  True: it is left out from now on, which is news.
  bool note_failure(std::string_view name, Millis now);

 private:
  std::atomic<Millis> off_until_{0};
  std::atomic<Millis> worked_at_{0};  // 0 = never
  std::atomic<std::uint32_t> strikes_{0};
  std::atomic<std::size_t> struck_name_{0};  // hash of the last one
  std::atomic<bool> is_told_{false};
};

// Any thread.
class UpstreamState {
 public:
  UpstreamState(std::string name, ForwardListener& listener);

  const std::string& name() const { return name_; }

  // Returns the time to wait for a reply before the next server is asked: it follows the measured
  // round-trip time, between 100 ms and 1.5 s.
  Millis retry_after() const;
  std::uint32_t rtt_us() const { return srtt_us_.load(std::memory_order_relaxed); }
  Health health() const { return health_.load(std::memory_order_relaxed); }
  bool is_looped() const { return looped_.load(std::memory_order_relaxed); }

  // A reply came, whatever its rcode: it lives.  True when that was in doubt until now.  `rtt_us`:
  // 0 = not measured.
  bool note_reply(Millis now, std::uint32_t rtt_us);
  void note_rcode(wire::Rcode rcode);
  // The rcode for a question of a client, for `name`.  The upstream is failing after errors alone
  // for several names and some time, until it answers NOERROR or NXDOMAIN.  One that fails again
  // and again has more time each time, so that the log is not filled.
  void judge_rcode(wire::Rcode rcode, std::string_view name, Millis now);
  // A query stayed unanswered since `sent_at`, or could not be sent.  Doubtful after two in a row
  // without a reply between: one bad name alone never marks an upstream down.
  void note_timeout(Millis sent_at);
  void note_unreachable(std::string_view reason);
  void note_error(std::string_view what);  // shown at /upstreams

  // Returns whether a probe is due; the caller sends it then (one worker at a time gets true).
  bool claim_probe(Millis now);
  void note_probe_lost(Millis now, std::string_view reason);
  // It could not be sent for a shortage of our own: to be claimed again soon.
  void put_off_probe(Millis now);

  // 0x20: replies that differ in case only, answered when asked in lower case.
  bool keeps_case(Millis now) const {
    return now >= plain_case_until_.load(std::memory_order_relaxed);
  }
  void note_case_kept() { case_strikes_.store(0, std::memory_order_relaxed); }
  void note_case_lost(Millis now);
  // RFC 6891, section 7: the OPT record, and options in it, after errors that went away without.
  ServerFeature& edns() { return edns_; }
  ServerFeature& edns_options() { return edns_options_; }
  void note_no_edns(std::string_view name, Millis now);
  void note_no_options(std::string_view name, Millis now);
  // RFC 7873: replies without a cookie are believed again.
  void note_cookies_lost();

  // A query that names this upstream by a label of ours is sent to it now and then; if it comes
  // back to us as a client's, the upstream leads to ourselves.  Claimed by one worker at a time.
  const std::string& loop_label() const { return loop_label_; }
  bool claim_loop_check(Millis now);
  void note_loop_check_over();
  void note_loop_check_lost(Millis now);
  void put_off_loop_check(Millis now);  // as put_off_probe()
  void note_came_back(Millis now);

  UpstreamStatus status(Millis now) const;

  struct Counts {
    std::atomic<std::uint64_t> in_flight{0};
    std::atomic<std::uint64_t> queries{0};
    std::atomic<std::uint64_t> answers{0};
    std::atomic<std::uint64_t> servfail{0};
    std::atomic<std::uint64_t> refused{0};
    std::atomic<std::uint64_t> other_rcodes{0};
    std::atomic<std::uint64_t> timeouts{0};
    std::atomic<std::uint64_t> unreachable{0};
    std::atomic<std::uint64_t> malformed{0};
    std::atomic<std::uint64_t> mismatched{0};
    std::atomic<std::uint64_t> truncated{0};
    std::atomic<std::uint64_t> tcp_queries{0};
    std::atomic<std::uint64_t> connections{0};
    std::atomic<std::uint64_t> resumed{0};
    std::atomic<std::uint64_t> probes{0};
    std::atomic<std::uint64_t> probe_failures{0};
  };
  Counts counts;

 private:
  void measure(std::uint32_t rtt_us);
  void note_usable_rcode(Millis now);
  void note_failure_rcode(wire::Rcode rcode, std::string_view name, Millis now);
  bool count_failed_name(std::size_t name);
  void doubt();
  void set_looped(bool looped);

  // Constant after construction.
  std::string name_;
  ForwardListener& listener_;
  std::string loop_label_;

  std::atomic<Health> health_{Health::Up};
  std::atomic<bool> looped_{false};
  std::atomic<bool> came_back_{false};
  std::atomic<Millis> next_loop_check_{0};
  std::atomic<std::uint32_t> loop_checks_lost_{0};
  std::atomic<std::uint32_t> srtt_us_{0};
  std::atomic<std::uint32_t> rttvar_us_{0};
  std::atomic<Millis> last_reply_{0};
  std::atomic<std::uint32_t> lost_in_a_row_{0};
  std::atomic<Millis> next_probe_{0};
  std::atomic<std::uint32_t> probes_lost_{0};
  std::atomic<Millis> plain_case_until_{0};
  ServerFeature edns_;
  ServerFeature edns_options_;
  std::atomic<std::uint32_t> case_strikes_{0};
  std::atomic<wire::Rcode> failing_with_{wire::Rcode::NoError};  // NoError: it does not fail
  std::atomic<Millis> last_usable_{0};                           // rcode; 0 = none yet
  std::atomic<Millis> works_since_{0};   // it last ceased to fail; 0 = it never failed
  std::atomic<Millis> time_to_fail_{0};  // when it last failed, doubled since; 0 = it never failed
  // Hashes of the first names since last_usable_ that got errors, each once.
  std::array<std::atomic<std::size_t>, kFailuresToFail> failure_names_{};
  std::atomic<std::uint32_t> failures_{0};
  std::array<std::atomic<std::uint64_t>, kLatencyBuckets + 1> latency_{};
  std::atomic<std::uint64_t> latency_sum_us_{0};

  mutable std::mutex error_mutex_;
  // Guarded by error_mutex_.
  std::string last_error_;
  std::chrono::steady_clock::time_point last_error_at_;
};

// The states by name.  Any thread.
class UpstreamStates {
 public:
  explicit UpstreamStates(ForwardListener& listener) : listener_(listener) {}

  // The one of this server, made at the first call; it lives as long as somebody holds it, so that
  // a reload that keeps a server keeps what is known of it.
  std::shared_ptr<UpstreamState> state_of(const UpstreamServer& server);
  // A query with the loop label of an upstream came from a client.  False: of none of ours.
  bool note_came_back(std::string_view loop_label, Millis now);
  // The status of all servers in use, by name.
  std::vector<UpstreamStatus> status(Millis now) const;

 private:
  ForwardListener& listener_;
  mutable std::mutex mutex_;
  std::map<std::string, std::weak_ptr<UpstreamState>> states_;  // guarded by mutex_
};

}  // namespace meshdns::dnsd
