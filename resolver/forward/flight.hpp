// SPDX-License-Identifier: Apache-2.0
// One question on its way: which upstreams are asked, when the next one is, and what is made of it
// all.  Late replies to earlier tries still count: the first that can be used ends the flight.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "resolver/cache/answer_builder.hpp"
#include "resolver/forward/reactor.hpp"
#include "resolver/forward/upstream.hpp"

namespace meshdns::dnsd {

class Flight;

// The forwarder, as a flight sees it.
class FlightListener {
 public:
  // The flight is over; lets go of it.  Never called from inside Flight::start.  `message` answers
  // the question or is a failure; `upstream`: who gave it, empty for nobody.
  virtual void on_flight_over(Flight& flight, MessageRef message, const std::string& upstream) = 0;
  // The upstream did not answer: perhaps it is to be probed.
  virtual void on_upstream_doubted(const std::shared_ptr<Upstream>& upstream) = 0;
  virtual void on_upstream_recovered() = 0;
  // An upstream was not asked for want of a socket, a port, memory or a place on a connection.
  virtual void on_shortage() = 0;

 protected:
  ~FlightListener() = default;
};

struct FlightPlan {
  std::vector<std::shared_ptr<Upstream>> upstreams;  // in the order in which they are asked
  bool all_at_once = false;                          // policy parallel
  Millis deadline = 0;
  std::uint32_t max_packets = 0;
  const char* why_empty = "";  // said when there is nobody to ask
};

// The reactor's thread.
class Flight final : public Recycled<Flight>,
                     public Retirable,
                     private ExchangeListener,
                     private TimerListener {
 public:
  // Limit of packets that one question of a client may cause: all servers, retries, TCP and the
  // aliases that are followed included.
  static constexpr std::uint32_t kMaxPackets = 16;

  // REQUIRES: the reactor outlives it.
  Flight(Reactor& reactor, Weak<FlightListener> listener, UpstreamQuestion question,
         FlightPlan plan, const AnswerRules& rules);

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
  void on_recovery() override;
  bool may_send() const override { return packets() < plan_.max_packets; }
  void on_timer(Timer& timer) override;

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
  void doubt(const std::shared_ptr<Upstream>& upstream);
  void finish_with_failure();
  void note_fault(Upstream& upstream, ExchangeFault fault, const std::string& what);
  void note_shortage(const std::string& what);
  CacheKey key() const;

  Reactor& reactor_;
  Weak<FlightListener> listener_;
  UpstreamQuestion question_;
  FlightPlan plan_;
  const AnswerRules rules_;

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
