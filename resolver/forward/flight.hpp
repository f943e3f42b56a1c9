// SPDX-License-Identifier: Apache-2.0
// One question on its way: which upstreams are asked, when the next one is, and what is made of it
// all.  Late replies to earlier tries still count: the first that can be used ends the flight.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "resolver/cache/answer_builder.hpp"
#include "resolver/forward/reactor.hpp"
#include "resolver/forward/upstream.hpp"
#include "resolver/forward/upstream_groups.hpp"

namespace meshdns::dnsd {

// The reactor's thread.
class Flight final : public Recycled<Flight>, public ExchangeListener {
 public:
  // Limit of packets that one question of a client may cause: all servers, retries, TCP and the
  // aliases that are followed included.
  static constexpr std::uint32_t kMaxPackets = 16;

  // The flight is over, its owner lets go of it.  Never called from inside start().  `message`
  // answers the question or is a failure; `upstream`: who gave it, empty for nobody.
  using OnOver =
      std::move_only_function<void(const MessageRef& message, const std::string& upstream)>;

  // REQUIRES: reactor and groups outlive it.
  Flight(Reactor& reactor, UpstreamGroups& groups, UpstreamQuestion question, FlightPlan plan,
         const AnswerRules& rules, OnOver on_over);

  void start();
  const UpstreamQuestion& question() const { return question_; }
  // Some upstream was not asked, through no fault of its own, and none has said anything, or the
  // client's other questions had used up its packets: a failure says nothing of the name.
  bool is_short() const {
    return (is_short_ && !has_rcode_) ||
           (plan_.max_packets < kMaxPackets && packets() >= plan_.max_packets);
  }
  std::uint32_t packets() const;

 private:
  ~Flight() override;
  void on_retire() override;

  enum class TryState : std::uint8_t { Waiting, TimedOut, Over };
  struct Try {
    std::size_t upstream;  // index in the plan
    Owned<Exchange> exchange;
    TryState state = TryState::Waiting;
    Millis sent_at = 0;
    Millis patience = 0;  // until when the next upstream is not asked
  };

  void on_reply(Exchange& exchange, const wire::ResponseMessage& response) override;
  void on_fault(Exchange& exchange, ExchangeFault fault, const std::string& what) override;
  void on_progress(Exchange& exchange) override;
  void on_recovery() override { groups_.note_recovery(); }
  bool may_send() const override { return packets() < plan_.max_packets; }

  void on_time();
  void go_on();
  bool launch_one();
  std::size_t next_upstream();
  bool launch(std::size_t upstream);
  Millis earliest_retry() const;
  Try& try_of(const Exchange& exchange);
  void settle(Try& finished);
  bool is_asked(std::size_t upstream, const Try& attempt) const;
  void note_late(Try& late);
  bool is_anyone_waiting() const;
  bool is_hopeful(std::size_t upstream) const;
  bool is_worth_waiting() const;
  void arm();
  void finish(MessageRef message, const std::string& upstream);
  void finish_with_failure();
  void note_fault(Upstream& upstream, ExchangeFault fault, const std::string& what);
  void note_shortage(const std::string& what);
  CacheKey key() const;

  Reactor& reactor_;
  UpstreamGroups& groups_;
  UpstreamQuestion question_;
  FlightPlan plan_;
  const AnswerRules rules_;
  OnOver on_over_;

  Timer timer_;
  std::vector<Try> tries_;
  std::vector<bool> settled_;  // has said its last word; by index in the plan
  std::size_t next_ = 0;       // index in the plan
  unsigned pass_ = 0;
  std::uint32_t packets_before_ = 0;  // of exchanges that are gone
  bool starting_ = false;
  bool has_rcode_ = false;  // an upstream refused or failed
  bool is_short_ = false;
  FailureText failure_;
  std::string failure_from_;
  MessageRef outcome_;  // waits for the timer
  std::string outcome_from_;
};

}  // namespace meshdns::dnsd
