// Writes what the forwarder has to say into the log.
#pragma once

#include "dnsd/forward/forward_listener.hpp"
#include "dnsd/log/log.hpp"

namespace meshdns::dnsd {

// Any thread.  REQUIRES: `log` outlives it.
class ForwardLog final : public ForwardListener {
 public:
  explicit ForwardLog(Log& log) : log_(log) {}
  void on_upstream_down(std::string_view upstream, std::string_view reason) override {
    log_.warn("upstream does not answer", {{"upstream", upstream}, {"reason", reason}});
  }
  void on_upstream_up(std::string_view upstream) override {
    log_.info("upstream answers again", {{"upstream", upstream}});
  }
  void on_loop_found(std::string_view upstream) override {
    log_.error(
        "forwarding loop: this upstream sends our queries back to us; it is not asked any more",
        {{"upstream", upstream}});
  }
  void on_loop_gone(std::string_view upstream) override {
    log_.info("forwarding loop is gone", {{"upstream", upstream}});
  }
  void on_upstream_learned(std::string_view upstream, std::string_view what) override {
    log_.info("upstream is peculiar", {{"upstream", upstream}, {"what", what}});
  }

 private:
  Log& log_;
};

}  // namespace meshdns::dnsd
