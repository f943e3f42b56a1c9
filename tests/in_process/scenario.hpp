// SPDX-License-Identifier: Apache-2.0
// One scenario of tests/scenarios, run inside the test process.  The format is described in
// tests/scenarios/README.md; tests/harness/scenario.py runs the same files with the daemon.
#pragma once

#include <yaml-cpp/yaml.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/in_process/expectation.hpp"
#include "tests/in_process/in_process_daemon.hpp"
#include "tests/upstream/scripted_upstream.hpp"

namespace meshdns::dnsd::test {

// The scenarios of one file.
std::vector<YAML::Node> scenarios_of(const std::filesystem::path& file);
bool needs_daemon(const YAML::Node& scenario);

class ScenarioRun {
 public:
  enum class Order : std::uint8_t { AsWritten, Reversed };

  // Throws std::invalid_argument for a scenario that cannot be run here.
  ScenarioRun(const YAML::Node& scenario, Order order);

  // The failures of the first step that fails; empty: the scenario holds.
  std::vector<std::string> run();

 private:
  using Problems = std::vector<std::string>;

  void start_upstreams();
  void start_daemons(Order order);
  Config config_for(const YAML::Node& identity) const;
  void write(const std::string& file, const std::string& text);
  Problems do_step(const YAML::Node& step);
  Problems do_query(const YAML::Node& step);
  Problems query_once(const YAML::Node& step);
  Problems ask_all_transports(const YAML::Node& step, const AskedQuestion& question);
  AskedAnswer ask(const YAML::Node& step, const AskedQuestion& question, bool tcp);
  Problems compare(const YAML::Node& step, const AskedQuestion& question,
                   const AskedAnswer& answer) const;
  Problems compare_first_share(const YAML::Node& step, const AskedQuestion& question);
  std::vector<std::string> asked_upstream() const;
  Problems compare_asked(const YAML::Node& step, const std::vector<std::string>& before) const;
  std::size_t received(const AskedQuestion& question) const;

  YAML::Node scenario_;
  FakeLoop loop_;
  std::vector<std::unique_ptr<ScriptedUpstream>> upstreams_;
  std::map<std::string, std::unique_ptr<InProcessDaemon>> daemons_;
  bool has_just_changed_ = false;
};

}  // namespace meshdns::dnsd::test
