// SPDX-License-Identifier: Apache-2.0
// Writes what the forwarder has to say into the log.
#pragma once

#include "dnsd/log/log.hpp"
#include "resolver/forward/forward_listener.hpp"

namespace meshdns::dnsd {

// Any thread.  REQUIRES: `log` outlives it.
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

}  // namespace meshdns::dnsd
