// SPDX-License-Identifier: Apache-2.0
// Receives events of the forwarder, for the log.
#pragma once

#include <string_view>

namespace meshdns::dnsd {

// Called on any worker's thread, several at once; must not block.  `upstream` is written as in the
// configuration: "10.0.0.53:53", "tls://9.9.9.9:853#dns.quad9.net".
class ForwardListener {
 public:
  virtual ~ForwardListener() = default;
  virtual void on_upstream_down(std::string_view upstream, std::string_view reason) = 0;
  virtual void on_upstream_up(std::string_view upstream) = 0;
  // It answers, but nothing else than `rcode` any more; and it answers other things again.
  virtual void on_upstream_failing(std::string_view upstream, std::string_view rcode) = 0;
  virtual void on_upstream_working(std::string_view upstream) = 0;
  // Our own queries come back to us through this upstream; it is asked no more until they do not.
  virtual void on_loop_found(std::string_view upstream) = 0;
  virtual void on_loop_gone(std::string_view upstream) = 0;
  // A peculiarity was learned: "does not keep the case of names", "does not understand EDNS".
  virtual void on_upstream_learned(std::string_view upstream, std::string_view what) = 0;
};

// A listener that ignores all reports.
class SilentListener : public ForwardListener {
 public:
  void on_upstream_down(std::string_view, std::string_view) override {}
  void on_upstream_up(std::string_view) override {}
  void on_upstream_failing(std::string_view, std::string_view) override {}
  void on_upstream_working(std::string_view) override {}
  void on_loop_found(std::string_view) override {}
  void on_loop_gone(std::string_view) override {}
  void on_upstream_learned(std::string_view, std::string_view) override {}
};

}  // namespace meshdns::dnsd
