// SPDX-License-Identifier: Apache-2.0
// The upstreams of one worker: selects the servers for a name and their order, and probes doubtful
// servers.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "resolver/forward/random_pool.hpp"
#include "resolver/forward/reactor.hpp"
#include "resolver/forward/upstream.hpp"
#include "resolver/settings.hpp"

namespace meshdns::dnsd {

using UpstreamList = std::vector<std::shared_ptr<Upstream>>;

// Servers that are asked for the same names.
struct UpstreamGroup {
  std::string zone;  // as configured; empty = upstream.servers
  bool is_of_link = false;
  UpstreamList upstreams;
  std::uint64_t identity = 0;  // a hash of its servers' names, whatever their order
  std::uint32_t turn = 0;      // round robin
};

struct FlightPlan {
  UpstreamList upstreams;    // in the order in which they are asked
  bool all_at_once = false;  // policy parallel
  Millis deadline = 0;
  std::uint32_t max_packets = 0;
  const char* why_empty = "";  // said when there is nobody to ask
};

// The reactor's thread.
class UpstreamGroups final {
 public:
  struct Hooks {
    std::move_only_function<void()> on_recovery;  // an upstream had been doubted or down until now
    // An upstream was not asked for want of a socket, a port, memory or a place on a connection.
    std::move_only_function<void()> on_shortage;
  };

  // REQUIRES: all outlive it.
  UpstreamGroups(Reactor& reactor, UpstreamStates& states, Hooks hooks);
  ~UpstreamGroups();

  // Servers that stay keep their connections.
  void reconfigure(const UpstreamConfig& config);
  void close();

  // The group of a name: the longest zone's, or that of upstream.servers.
  UpstreamGroup& group_of(std::string_view wire_name);
  const UpstreamGroup& group_of(std::string_view wire_name) const;
  bool has_no_zones() const { return zones_.empty(); }
  // Returns whether the same group answers for both names.
  bool is_same_group(std::string_view wire_name, std::string_view other) const {
    return &group_of(wire_name) == &group_of(other);
  }
  // Returns whether nobody of the group answers at present.
  static bool is_hopeless(const UpstreamGroup& group);
  // Returns the servers in the order in which to ask them: servers that are up first, ordered by
  // the policy.
  FlightPlan plan_for(UpstreamGroup& group);
  // A question got no reply: probe soon.
  void note_doubt();
  // Flights and probes call these.
  void note_recovery() { hooks_.on_recovery(); }
  void note_shortage() { hooks_.on_shortage(); }

 private:
  class Probe;
  enum class Purpose : std::uint8_t {  // of a probe
    Life,   // ". NS" without recursion: answered at once by whatever answers at all
    Speed,  // the same, to one that is up but was not asked lately
    Loop,   // "<label>.loop-check.meshdns.internal TXT": must not come back to us
  };

  void check_health();
  std::shared_ptr<Upstream> upstream_of(const UpstreamServer& server,
                                        const UpstreamOptions& options, UpstreamList& kept);
  void order(UpstreamGroup& group, UpstreamList& upstreams);
  void explore(const UpstreamList& upstreams);
  void probe(const std::shared_ptr<Upstream>& upstream, Purpose purpose);
  void end(const Probe& probe);

  Reactor& reactor_;
  UpstreamStates& states_;
  Hooks hooks_;
  RandomPool random_;
  UpstreamPolicy policy_ = UpstreamPolicy::Fastest;
  UpstreamGroup default_group_;
  std::map<std::string, std::unique_ptr<UpstreamGroup>, std::less<>> zones_;  // by wire form
  UpstreamList all_;                                                          // each once
  std::vector<Owned<Probe>> probes_;
  Timer tick_;
  Millis explored_at_ = 0;
};

// The label of the upstream that a loop check is about; empty for any other name (wire form).
std::string_view loop_label_of(std::string_view wire_name);

}  // namespace meshdns::dnsd
