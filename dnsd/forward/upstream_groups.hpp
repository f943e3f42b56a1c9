// The upstreams of one worker: who is asked for which names and in which order, and the probes that
// look after those that are in doubt.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dnsd/config/config.hpp"
#include "dnsd/forward/flight.hpp"
#include "dnsd/forward/probe.hpp"
#include "dnsd/forward/random_pool.hpp"
#include "dnsd/forward/reactor.hpp"
#include "dnsd/forward/upstream.hpp"
#include "dnsd/forward/zone_table.hpp"

namespace meshdns::dnsd {

using UpstreamList = std::vector<std::shared_ptr<Upstream>>;

// Servers that are asked for the same names.
struct UpstreamGroup {
  std::string zone;  // as configured; empty = upstream.servers
  UpstreamList upstreams;
  std::uint32_t turn = 0;  // round robin
};

class UpstreamGroupsListener {
 public:
  virtual void on_upstream_recovered() = 0;

 protected:
  ~UpstreamGroupsListener() = default;
};

// The reactor's thread.
class UpstreamGroups final : private ProbeHost, private TimerHandler {
 public:
  // REQUIRES: all outlive it.
  UpstreamGroups(Reactor& reactor, UpstreamStates& states, UpstreamGroupsListener& listener);

  // Servers that stay keep their connections.
  void reconfigure(const UpstreamConfig& config);
  void close();

  // The group of a name: the longest zone's, or that of upstream.servers.
  UpstreamGroup& group_of(std::string_view wire_name);
  const UpstreamGroup& group_of(std::string_view wire_name) const;
  // Whether nobody of the group answers at present.
  static bool is_hopeless(const UpstreamGroup& group);
  // Whom to ask in which order: those that are up first, by the policy among themselves.
  FlightPlan plan_for(UpstreamGroup& group);
  // Something stayed unanswered: look after it soon.
  void note_doubt();

 private:
  void on_probe_over(Probe& probe) override;
  void on_upstream_recovered() override { listener_.on_upstream_recovered(); }
  void on_timer(Timer& timer) override;

  std::shared_ptr<Upstream> upstream_of(const UpstreamServer& server,
                                        const UpstreamOptions& options, UpstreamList& kept);
  void order(UpstreamGroup& group, UpstreamList& upstreams);
  void explore(const UpstreamList& upstreams);
  void probe(const std::shared_ptr<Upstream>& upstream, ProbePurpose purpose);

  Reactor& reactor_;
  UpstreamStates& states_;
  UpstreamGroupsListener& listener_;
  RandomPool random_;
  UpstreamPolicy policy_ = UpstreamPolicy::Fastest;
  UpstreamGroup default_group_;
  ZoneTable<std::unique_ptr<UpstreamGroup>> zones_;
  UpstreamList all_;  // each once
  std::vector<std::unique_ptr<Probe>> probes_;
  Timer tick_;
  Millis explored_at_ = 0;
};

}  // namespace meshdns::dnsd
