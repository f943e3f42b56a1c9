// SPDX-License-Identifier: Apache-2.0
// Asks upstreams for what the registry does not have.  One per worker, on the worker's loop; the
// cache, the questions in flight and what is known of each upstream are shared by all workers.
//
//     resolve -> (a flight for this question exists: wait) | (too many: SERVFAIL) | Flight
//       Flight: pick an upstream, ask, next one on failure -> normalise -> cache -> all who wait
//
// To ask costs five times as much as to answer from the registry, so flights take off in the loop's
// next turns, a few in each.  Meanwhile the sockets are read and what is known here is answered: a
// client that floods the forwarder delays neither that nor the first question of another client.
#pragma once

#include <uv.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "registry/base/handle.hpp"
#include "registry/base/hash.hpp"
#include "registry/base/ip_address.hpp"
#include "registry/base/mailbox.hpp"
#include "resolver/cache/answer_builder.hpp"
#include "resolver/cache/cache.hpp"
#include "resolver/cache/cached_message.hpp"
#include "resolver/cache/denied_answers.hpp"
#include "resolver/forward/flight.hpp"
#include "resolver/forward/flight_table.hpp"
#include "resolver/forward/lifetime.hpp"
#include "resolver/forward/reactor.hpp"
#include "resolver/forward/upstream_groups.hpp"
#include "resolver/forward/upstream_state.hpp"
#include "resolver/settings.hpp"

namespace meshdns::dnsd {

// A queue of work for clients, in which they take turns: one with a thousand items delays another
// one's first item by one.
// One thread only.
template <typename Item>
class FairQueue {
 public:
  // `client`: see limit_key_of().
  void push(const IpAddress& client, Item item) {
    std::deque<Item>& items = items_[client];
    if (items.empty()) turns_.push_back(client);
    items.push_back(std::move(item));
    ++size_;
  }

  // The oldest item of the client whose turn it is.  REQUIRES: size() > 0.
  Item pop() {
    const auto of_client = items_.find(turns_.front());
    Item item = std::move(of_client->second.front());
    of_client->second.pop_front();
    --size_;
    if (of_client->second.empty())
      items_.erase(of_client);
    else
      turns_.push_back(turns_.front());
    turns_.pop_front();
    return item;
  }

  std::size_t size() const { return size_; }

 private:
  std::unordered_map<IpAddress, std::deque<Item>> items_;  // of clients that have some
  std::deque<IpAddress> turns_;                            // these clients, the next one first
  std::size_t size_ = 0;
};

// State that the forwarders of all workers share.  REQUIRES: outlives them (held by shared_ptr).
struct ForwardShared {
  ForwardShared(const CacheConfig& cache_config, ForwardListener& listener)
      : cache(cache_config), upstreams(listener) {}
  // Takes over the rules for what all workers share, before their forwarders get the same
  // configuration.  One thread only: workers take configurations over at different speeds, and a
  // slow one would put the rules of an older one back.
  void reconfigure(const UpstreamConfig& upstream);
  Cache cache;
  FlightTable flights;
  UpstreamStates upstreams;
};

struct ForwardRequest {
  wire::Question question;  // REQUIRES: name in lower-case wire form
  bool dnssec_ok = false;
  bool checking_disabled = false;
  bool recursion_desired = true;  // false: asked so upstream, and not cached
  IpAddress client;               // for the share of one client in what is in flight
  // That may be sent for it, retries included.
  std::uint32_t max_packets = Flight::kMaxPackets;
};

struct Outcome {
  // Never null: a failure is a message, too (SERVFAIL with its extended error, or the rcode that
  // all upstreams gave).
  MessageRef message;
  Freshness freshness = Freshness::Fresh;
  // The server that sent it, for the query log; empty: no server was asked.  Valid during the
  // callback.
  std::string_view upstream;
  std::uint32_t packets = 0;  // that were sent for it
};
using OutcomeCallback = std::move_only_function<void(const Outcome&)>;

// Events since the start; written by this worker alone, readable by any thread.
struct ForwardCounters {
  std::atomic<std::uint64_t> requests{0};       // calls of resolve()
  std::atomic<std::uint64_t> joined{0};         // of these, waited for a flight under way
  std::atomic<std::uint64_t> rejected{0};       // of these, over a limit: SERVFAIL at once
  std::atomic<std::uint64_t> stale_answers{0};  // given by resolve(), not those of the cache
  std::atomic<std::uint64_t> refreshes{0};      // flights that nobody waits for
  std::atomic<std::uint64_t> failures{0};       // flights that brought nothing usable
  std::atomic<std::uint64_t> shortages{0};      // upstreams not asked: no socket, port or memory
  std::atomic<std::uint64_t> waiting{0};        // a gauge: callbacks yet to come
};

// One worker's thread only, unless said otherwise.
class Forwarder final {
 public:
  // RFC 8767, section 5: a client that has waited this long gets a stale answer if there is one.
  static constexpr Millis kStaleAfter = 1'800;
  // Flights that take off in a turn of the loop, and those that may wait for one.  Beyond, one
  // takes off for each that comes.
  static constexpr std::size_t kTakeOffsPerTurn = 8;
  static constexpr std::size_t kMaxGrounded = 1'024;

  // REQUIRES: `upstream.servers` is what is to be asked: those of /etc/resolv.conf have been filled
  // in where the configuration has none.  `shared` has the same configuration.
  Forwarder(uv_loop_t* loop, std::shared_ptr<ForwardShared> shared, const UpstreamConfig& upstream,
            const CacheConfig& cache);
  // REQUIRES: not called from inside a callback of this forwarder; close() may be.
  ~Forwarder();
  Forwarder(const Forwarder&) = delete;
  Forwarder& operator=(const Forwarder&) = delete;

  // Calls back exactly once, within upstream.timeout, on this thread, never from inside resolve().
  // The cache is looked at once more for what another worker has just stored.
  void resolve(ForwardRequest request, OutcomeCallback callback);

  // Asks anew for what is in the cache, so that it is there before it runs out; nobody waits.
  void refresh(ForwardRequest request);

  // Takes over servers, zones, policy and limits; flights under way end as they began.  REQUIRES:
  // `shared` has this configuration, or a later one.
  void reconfigure(const UpstreamConfig& upstream, const CacheConfig& cache);

  // Ends every flight with a failure and closes all handles on the loop; their close callbacks may
  // run after the Forwarder is gone.  Nothing may be called afterwards.
  void close();

  // The servers that are asked for a name (lower-case wire form), and the zone of the configuration
  // or of a network link that says so (empty: upstream.servers).
  struct Route {
    std::string zone;
    bool is_of_link = false;
    std::vector<std::string> servers;
  };
  Route route(std::string_view wire_name) const;
  // Returns whether other servers are asked for `target` than for `name`: those of a zone, or with
  // `also_outside` those of upstream.servers, too.
  bool has_other_servers(std::string_view name, std::string_view target, bool also_outside) const;

  // Callbacks yet to come.
  std::size_t pending() const { return waiting_; }
  const ForwardCounters& counters() const { return counters_; }  // any thread

 private:
  class Pending;
  struct Waiter {
    OutcomeCallback callback;
    IpAddress limit_key;  // of the client
    Millis stale_at = 0;
  };
  struct Due {
    Waiter waiter;
    Outcome outcome;
    std::string upstream;
  };
  enum class Purpose : std::uint8_t { Client, Refresh };

  RetireList::Turn turn() { return RetireList::Turn(reactor_.retired()); }

  // The question's entry, new or found; null: none, and `outcome` says why or what.
  Pending* start(const ForwardRequest& request, const CacheKey& key, Purpose purpose,
                 Outcome& outcome);
  bool answer_at_once(const ForwardRequest& request, const CacheKey& key, Outcome& outcome);
  bool deny_below_denied(const ForwardRequest& request, const CacheKey& key, Outcome& outcome);
  void lead(Pending& pending, const ForwardRequest& request);
  void take_off_some();
  void take_off_next();

  bool has_room_for(const IpAddress& client) const;
  Waiter make_waiter(const IpAddress& client, OutcomeCallback callback);
  void answer(std::vector<Waiter> waiters, const Outcome& outcome);
  void answer_later(Waiter waiter, Outcome outcome);
  void answer_all_later();
  void answer_due();
  Outcome refusal(const CacheKey& key, wire::Ede ede, std::string text) const;
  Outcome refusal_or_stale(const CacheKey& key, FlightTable::Admission why);

  void on_delivery(const std::string& flight_key, const FlightResult& result);
  void on_flight_result(Pending& pending, const Flight& flight, const MessageRef& message,
                        const std::string& upstream);
  void end(Pending& pending, const FlightResult& result);

  std::shared_ptr<ForwardShared> shared_;
  ForwardCounters counters_;
  Reactor reactor_;
  UpstreamGroups groups_;
  std::shared_ptr<loop::Mailbox> mailbox_;  // for results of other workers
  FlightDelivery deliver_;                  // to mailbox_

  AskedServers servers_;
  Millis timeout_ = 0;
  std::size_t max_in_flight_ = FlightTable::kDefaultLimit;
  AnswerRules rules_;  // but for the addresses that are denied
  DeniedAnswers denied_;
  bool serve_stale_ = true;
  bool nxdomain_cut_ = false;
  bool closed_ = false;

  TextViewMap<Owned<Pending>> pending_;                             // by their flight keys
  std::unordered_map<IpAddress, std::uint32_t> waiting_by_client_;  // by limit_key_of()
  std::size_t waiting_ = 0;
  std::deque<Due> due_;    // answered before the turn ends
  std::deque<Due> later_;  // becomes due when the timer fires
  Timer later_timer_;
  FairQueue<Weak<Pending>> grounded_;  // flights that have not taken off
  loop::Idle take_offs_;               // started while there are some
};

}  // namespace meshdns::dnsd
