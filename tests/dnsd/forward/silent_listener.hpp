// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "dnsd/forward/forward_listener.hpp"

namespace meshdns::dnsd::test {

// For tests that do not look at what the forwarder reports.
class SilentListener final : public ForwardListener {
 public:
  void on_upstream_down(std::string_view, std::string_view) override {}
  void on_upstream_up(std::string_view) override {}
  void on_upstream_failing(std::string_view, std::string_view) override {}
  void on_upstream_working(std::string_view) override {}
  void on_loop_found(std::string_view) override {}
  void on_loop_gone(std::string_view) override {}
  void on_upstream_learned(std::string_view, std::string_view) override {}
};

}  // namespace meshdns::dnsd::test
