// SPDX-License-Identifier: Apache-2.0
// Answers the pages that list services, and their watches.  A short list is a plain response.  The
// others are written between the other work of the control thread, for at most kTurn at a time, and
// only as fast as their clients read.
#pragma once

#include <uv.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <vector>

#include "dnsd/admin/http_message.hpp"
#include "dnsd/admin/http_stream.hpp"
#include "dnsd/admin/service_feed.hpp"
#include "registry/base/timer.hpp"
#include "registry/registry.hpp"

namespace meshdns::dnsd {

// Control thread.
class RegistryStreams {
 public:
  static constexpr std::size_t kMaxWatches = 16;
  static constexpr std::size_t kMaxLists = 16;
  // For all streams together in one turn of the loop.
  static constexpr std::chrono::microseconds kTurn{2'000};
  // A watch without changes has a bookmark this often, so that both sides see that the other lives.
  static constexpr std::chrono::seconds kHeartbeat{5};

  // REQUIRES: both outlive it.
  RegistryStreams(uv_loop_t* loop, registry::Registry& registry)
      : loop_(loop), registry_(registry) {}
  ~RegistryStreams() { close(); }
  RegistryStreams(const RegistryStreams&) = delete;
  RegistryStreams& operator=(const RegistryStreams&) = delete;

  // The arguments host= and namespace= restrict the page; watch= makes it a watch, if it can be.
  HttpResponse answer(const ServicePage& page, const HttpRequest& request);
  // The daemon ends: so do the watches, with a last line; new requests are refused.
  void close();

  std::size_t watches() const { return watches_.size(); }

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct List {
    std::shared_ptr<HttpStream> stream;
    std::unique_ptr<ServiceList> feed;
  };
  struct Watch {
    std::shared_ptr<HttpStream> stream;
    std::unique_ptr<ServiceWatch> feed;
    Time written;  // the last line
  };

  HttpResponse list(const ServicePage& page, ServiceFilter filter);
  HttpResponse watch(const ServicePage& page, ServiceFilter filter);
  void note(const std::vector<registry::HostChange>& changes);
  void note(const std::shared_ptr<const PendingChange>& change);
  void run_later(std::chrono::milliseconds delay);
  void turn();
  void advance();
  bool advance(ServiceFeed& feed, HttpStream& stream, Time until) const;
  void send_heartbeats();
  void forget_closed();
  void plan_next_turn();

  uv_loop_t* loop_;
  registry::Registry& registry_;
  loop::Timer timer_;
  std::vector<List> lists_;
  std::vector<Watch> watches_;
  bool is_closed_ = false;
};

}  // namespace meshdns::dnsd
