// SPDX-License-Identifier: Apache-2.0
// The upstream servers in use, through changes of the configuration, of this machine's resolv.conf,
// and of its network links.
#pragma once

#include <uv.h>

#include <array>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "dnsd/config/config.hpp"
#include "dnsd/daemon/file_poll.hpp"
#include "dnsd/links/system_links.hpp"
#include "dnsd/log/log.hpp"
#include "dnsd/mesh/upstream_servers.hpp"
#include "resolver/forward/upstream_state.hpp"

namespace meshdns::dnsd {

// Logs the events of the forwarder.  Any thread.  REQUIRES: `log` outlives it.
class ForwardLog final : public ForwardListener {
 public:
  explicit ForwardLog(Log& log) : log_(log) {}
  void on_upstream_down(std::string_view upstream, std::string_view reason) override {
    log_.warn("upstream server is down", {{"upstream", upstream}, {"reason", reason}});
  }
  void on_upstream_up(std::string_view upstream) override {
    log_.info("upstream server is up again", {{"upstream", upstream}});
  }
  void on_upstream_failing(std::string_view upstream, std::string_view rcode) override {
    log_.warn("upstream server answers all questions with an error",
              {{"upstream", upstream}, {"rcode", rcode}});
  }
  void on_upstream_working(std::string_view upstream) override {
    log_.info("upstream server answers without errors again", {{"upstream", upstream}});
  }
  void on_loop_found(std::string_view upstream) override {
    log_.error(
        "forwarding loop: the upstream server sends our queries back to us; it is not used until "
        "this ends",
        {{"upstream", upstream}});
  }
  void on_loop_gone(std::string_view upstream) override {
    log_.info("forwarding loop has ended; the upstream server is used again",
              {{"upstream", upstream}});
  }
  void on_upstream_learned(std::string_view upstream, std::string_view what) override {
    log_.info("adapted to an upstream server", {{"upstream", upstream}, {"what", what}});
  }

 private:
  Log& log_;
};

class ServerNames;

// Control thread.
class UpstreamInUse {
 public:
  using ResolvConfs = std::array<const char*, kResolvConfPaths.size()>;

  // REQUIRES: both outlive it.  `config` may change; each call uses it as it is then.
  UpstreamInUse(const Config& config, Log& log, const ResolvConfs& files = kResolvConfPaths)
      : config_(config), log_(log), files_(files) {}

  // REQUIRES: outlives it; has the addresses of servers that the configuration names.
  void use(const ServerNames& names) { names_ = &names; }
  // The servers that `upstream.servers: []` would use; if there are none, those of the
  // configuration that have addresses.  The search list is that of resolv.conf.
  SystemResolver system(std::span<const SocketAddress> listening) const;

  // Selects the servers at the start.  `listening`: our own addresses, which are left out.
  void choose(std::span<const SocketAddress> listening);
  // Selects them again.  A resolv.conf without servers leaves those that are known.
  void follow(std::span<const SocketAddress> listening);
  // Calls `on_change` when a resolv.conf or a link has changed and the configuration names no
  // servers.
  void watch(uv_loop_t* loop, std::function<void()> on_change);
  void stop();

  const UpstreamConfig& current() const { return current_; }

 private:
  UpstreamConfig select(std::span<const SocketAddress> listening, std::string& warning);
  void take(UpstreamConfig&& next);
  void follow_links();

  const Config& config_;
  Log& log_;
  const ResolvConfs files_;
  const ServerNames* names_ = nullptr;
  uv_loop_t* loop_ = nullptr;  // from watch() on
  std::function<void()> on_change_;
  std::array<FileVersion, kResolvConfPaths.size()> versions_;  // that were read
  std::array<FilePoll, kResolvConfPaths.size()> polls_;
  SystemLinks links_;
  UpstreamConfig current_;
};

}  // namespace meshdns::dnsd
