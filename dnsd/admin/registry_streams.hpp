// SPDX-License-Identifier: Apache-2.0
// Answers the pages with long lists, of services, of the cache and of dependencies, and the watches
// of services.  A short list is a plain response.  The others are written between the other work of
// the control thread, for at most kTurn at a time, and only as fast as their clients read.
#pragma once

#include <uv.h>

#include <chrono>
#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "dnsd/admin/http_message.hpp"
#include "dnsd/admin/http_stream.hpp"
#include "dnsd/admin/registry_objects.hpp"
#include "registry/base/handle.hpp"
#include "registry/base/hash.hpp"
#include "registry/controller.hpp"
#include "registry/registry.hpp"
#include "registry/snapshot/snapshot.hpp"

namespace meshdns::dnsd {

// The entry of "api.example.org", or of the wildcard "*.example.org"; null: there is none.
const registry::HostEntry* find_entry(const registry::Snapshot& snapshot, std::string_view host);

// The texts of /registry/services and the like, made in small steps: lists, and watches.
// Visits the hosts of a snapshot in the order of their names, in small steps: to sort 100,000 names
// at once would hold up the control thread for some 50 ms.
// One thread.
class HostWalk {
 public:
  // `host`: only that one; empty = all.  Keeps the snapshot until the walk is done.
  HostWalk(std::shared_ptr<const registry::Snapshot> snapshot, std::string_view host);

  bool is_done() const { return is_sorted() && runs_.empty(); }
  // Does one step.  Null: it has sorted some of the hosts, or is done.
  const registry::HostEntry* step();

 private:
  static constexpr std::size_t kRun = 1024;  // hosts that one step sorts
  // Sorted hosts that have not been visited.
  struct Run {
    std::size_t next;
    std::size_t end;
  };

  bool is_sorted() const { return sorted_ == hosts_.size(); }
  void sort_run();
  bool comes_later(const Run& a, const Run& b) const;

  std::shared_ptr<const registry::Snapshot> snapshot_;
  std::vector<const registry::HostEntry*> hosts_;
  std::size_t sorted_ = 0;
  std::vector<Run> runs_;  // once all are sorted, a heap: the first has the next host
};

// The page that a client asks for.
struct ServicePage {
  PutService put = nullptr;
  PutId put_id = nullptr;  // null: the page cannot be watched
};

// The services that a client asks for.
struct ServiceFilter {
  std::string host;  // canonical; empty = all
  std::string ns;    // empty = all
  bool has(std::string_view service_host, std::string_view service_ns) const {
    return (host.empty() || host == service_host) && (ns.empty() || ns == service_ns);
  }
};

// A text that is made in small steps.  Control thread.
class TextFeed {
 public:
  virtual ~TextFeed() = default;
  // Returns whether step() has something to do now.
  virtual bool has_work() const = 0;
  // Returns whether the text has ended.
  virtual bool is_done() const = 0;
  // Appends a small part of the text: at most the objects of one host.  Nothing while it looks for
  // what to write.
  virtual void step(std::string& text) = 0;
};

// A JSON array of the objects of one generation.
class ServiceList final : public TextFeed {
 public:
  ServiceList(const registry::Registry& registry, const ServicePage& page, ServiceFilter filter);
  bool has_work() const override { return !is_done_; }
  bool is_done() const override { return is_done_; }
  void step(std::string& text) override;

 private:
  const registry::Registry& registry_;
  const ServicePage page_;
  const ServiceFilter filter_;
  HostWalk walk_;
  char separator_ = '[';
  bool is_done_ = false;
};

// A changed host, for all watches.
struct PendingChange {
  std::string host;
  std::string ns;
  std::vector<registry::ServiceId> known;  // the services that it had before
};

// Lines of JSON: the objects of one generation as ADDED, a BOOKMARK, then the changes in order.  A
// host that changes again before its line is written is one change, so that a watch whose client
// reads slowly takes memory for each host once.
class ServiceWatch final : public TextFeed {
 public:
  // Changed hosts that wait for their line: about 100 bytes each.
  static constexpr std::size_t kMaxPending = 131'072;

  ServiceWatch(const registry::Registry& registry, const ServicePage& page, ServiceFilter filter);
  bool has_work() const override { return !is_listed_ || !pending_.empty(); }
  bool is_done() const override { return false; }
  void step(std::string& text) override;

  // Returns false if too many changes wait.
  bool note(const std::shared_ptr<const PendingChange>& change);
  const ServiceFilter& filter() const { return filter_; }
  // Appends a line that says that the client has all changes up to now.
  void add_bookmark(std::string& text) const;

 private:
  void list_host(std::string& text);
  void add_changes(const PendingChange& change, std::string& text) const;

  const registry::Registry& registry_;
  const ServicePage page_;
  const ServiceFilter filter_;
  HostWalk walk_;
  bool is_listed_ = false;
  std::deque<std::shared_ptr<const PendingChange>> pending_;
  TextSet pending_keys_;  // "ns/host"
};

// The last line of a watch that ends before its client wants it to.
std::string watch_error(std::string_view reason, std::string_view message);

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
  // A page of JSON that is another list.
  HttpResponse list(std::unique_ptr<TextFeed> feed);
  // The daemon ends: so do the watches, with a last line; new requests are refused.
  void close();

  std::size_t watches() const { return watches_.size(); }

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct List {
    std::shared_ptr<HttpStream> stream;
    std::unique_ptr<TextFeed> feed;
  };
  struct Watch {
    std::shared_ptr<HttpStream> stream;
    std::unique_ptr<ServiceWatch> feed;
    Time written;  // the last line
  };

  HttpResponse watch(const ServicePage& page, ServiceFilter filter);
  void note(const registry::Changes& changes);
  void note(const std::shared_ptr<const PendingChange>& change);
  void run_later(std::chrono::milliseconds delay);
  void turn();
  void advance();
  bool advance(TextFeed& feed, HttpStream& stream, Time until) const;
  void send_heartbeats();
  void forget_closed();
  void plan_next_turn();

  uv_loop_t* loop_;
  registry::Registry& registry_;
  loop::Timer timer_;
  std::vector<List> lists_;
  std::vector<Watch> watches_;
  std::shared_ptr<const registry::Controller::Handler> handler_;  // null: there is no watch
  bool is_closed_ = false;
};

}  // namespace meshdns::dnsd
