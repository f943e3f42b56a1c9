// SPDX-License-Identifier: Apache-2.0
// Limits the TCP connections of clients, all workers together, and selects the connection that
// makes room for a new one.  Any thread.  The lock is taken when a connection opens or closes,
// never per query.
//
// A client that is at its limit pays with its own oldest idle connection.  When all connections are
// in use, the client that has most of them pays.  A connection that owes an answer is kept.  The
// connection may be another worker's: that worker is asked to close it, and the new one is served
// meanwhile.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_map>
#include <utility>

#include "registry/base/ip_address.hpp"

namespace meshdns::dnsd {

struct TcpLimits {
  std::uint32_t max_connections = 4096;
  std::uint32_t max_connections_per_client = 128;  // see limit_key_of()
  std::chrono::milliseconds idle_timeout{10'000};
  std::chrono::milliseconds busy_idle_timeout{1'000};  // above 80 % of max_connections
  std::chrono::milliseconds message_timeout{5'000};    // from first to last octet of a query
  std::chrono::milliseconds write_timeout{5'000};      // without progress while replies wait
  std::uint32_t max_in_flight = 100;                   // queries of one connection
  std::size_t max_unsent = 65'536;                     // octets of replies, then no more is read
  std::size_t max_held = 8 << 20;                      // octets of all of a worker's connections
  std::uint32_t reserved_files = 64;                   // descriptors kept for other uses
};

class TcpBudget {
  struct Held;

 public:
  // The name of a connection: its worker, and its place there.
  struct ConnectionId {
    unsigned worker = 0;
    std::uint32_t slot = 0;
    std::uint32_t generation = 0;
  };

  // One connection's share of the budget, given back by the destructor.  The thread of the
  // connection's worker.  REQUIRES: the budget outlives it.
  class Place {
   public:
    Place();
    Place(TcpBudget& budget, std::unique_ptr<Held> held);
    Place(Place&& other) noexcept;
    Place& operator=(Place&& other) noexcept;
    ~Place();

    // Loop time of the last activity of a connection that may be closed to make room.
    void set_idle_since(std::uint64_t ms);
    // The connection owes an answer.
    void set_busy();
    // The connection that was to be closed has become busy and stays.
    void keep(std::uint64_t now_ms);

   private:
    TcpBudget* budget_ = nullptr;
    std::unique_ptr<Held> held_;
  };

  enum class Verdict : std::uint8_t { Granted, AllInUse, ClientShareInUse };
  struct Admission {
    Verdict verdict = Verdict::Granted;
    Place place;
  };

  explicit TcpBudget(const TcpLimits& limits);
  ~TcpBudget();
  TcpBudget(const TcpBudget&) = delete;
  TcpBudget& operator=(const TcpBudget&) = delete;

  // Counts the connection in if it may be, after asking others to close where that is needed.
  Admission admit(const IpAddress& client, const ConnectionId& id, std::uint64_t now_ms);

  // `ask` has the worker close one of its connections soon, or call Place::keep().  It is called
  // under the budget's lock, by any thread, until leave().
  using AskToClose = std::function<void(const ConnectionId&)>;
  void join(unsigned worker, AskToClose ask);
  void leave(unsigned worker);

  // Takes effect for new connections and, as far as time limits go, for established ones.
  void set_limits(const TcpLimits& limits);
  TcpLimits limits() const;

  std::uint32_t open() const { return open_.load(std::memory_order_relaxed); }
  // Returns the current idle timeout of a connection.  The second is for callers that have
  // `limits`.
  std::chrono::milliseconds idle_timeout() const;
  std::chrono::milliseconds idle_timeout_at(const TcpLimits& limits) const;

 private:
  // The connections of one client by a time that is never later than their last activity: it is
  // brought up to date only when a connection is looked at.
  struct ClientShare {
    std::map<std::pair<std::uint64_t, std::uint64_t>, Held*> by_activity;  // and by age
    std::pair<std::size_t, std::uint64_t> rank;  // as it stands in by_rank_
  };
  struct ByRank {  // most connections first, then the longest idle
    bool operator()(const ClientShare* a, const ClientShare* b) const;
  };
  struct Asked {
    AskToClose ask;
    unsigned pending = 0;  // connections that it was asked to close and has not closed or kept yet
  };

  void insert(Held& held);
  void erase(Held& held);
  void rank(ClientShare& share);
  bool make_room(ClientShare& share, std::uint64_t now_ms, int& looks);
  bool make_room_in_all(std::uint64_t now_ms, int& looks);
  bool ask_to_close(Held& held);
  void note_asked(unsigned worker);
  void release(Held& held);

  mutable std::mutex mutex_;
  TcpLimits limits_;                                      // guarded by mutex_
  std::unordered_map<IpAddress, ClientShare> by_client_;  // guarded by mutex_
  std::set<ClientShare*, ByRank> by_rank_;                // guarded by mutex_
  std::unordered_map<unsigned, Asked> workers_;           // guarded by mutex_
  std::uint64_t admitted_ = 0;                            // guarded by mutex_
  std::atomic<std::uint32_t> open_{0};                    // written under mutex_
};

}  // namespace meshdns::dnsd
