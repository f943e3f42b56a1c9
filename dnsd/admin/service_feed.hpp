// SPDX-License-Identifier: Apache-2.0
// The texts of /registry/services and the like, made in small steps: lists, and watches.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "dnsd/admin/host_walk.hpp"
#include "dnsd/admin/registry_objects.hpp"
#include "registry/base/hash.hpp"
#include "registry/controller.hpp"

namespace meshdns::dnsd {

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

// Control thread.
class ServiceFeed {
 public:
  virtual ~ServiceFeed() = default;
  // Whether step() has something to do now.
  virtual bool has_work() const = 0;
  // Whether the text has ended.
  virtual bool is_done() const = 0;
  // Appends a small part of the text: at most the objects of one host.
  virtual void step(std::string& text) = 0;
};

// A JSON array of the objects of one generation.
class ServiceList final : public ServiceFeed {
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
class ServiceWatch final : public ServiceFeed {
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

}  // namespace meshdns::dnsd
