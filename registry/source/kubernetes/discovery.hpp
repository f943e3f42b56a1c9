// SPDX-License-Identifier: Apache-2.0
// Finds the kinds and versions that the server has, of those that meshdns reads.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "registry/manifest/document.hpp"
#include "registry/source/kubernetes/reflector.hpp"
#include "registry/source/kubernetes/transport.hpp"
#include "registry/source/scheduler.hpp"

namespace meshdns::registry::kubernetes {

// "serviceentries.networking.istio.io" -> "v1".  Kinds of the core group are always there.
using ServedKinds = std::map<std::string, std::string>;

// One look; control thread.
//
// A server that starts answers for some time without the groups of CRDs, and one group may fail
// alone.  So a kind that is missing is not known to be gone.
class Discovery final : private ResponseListener {
 public:
  struct Failure {
    ReflectorStatus::Trouble trouble = ReflectorStatus::Trouble::Failing;
    std::string message;
  };
  struct Found {
    ServedKinds kinds;
    // Groups that gave no answer to go by, such as 503.  Nothing is known of their kinds.
    std::set<std::string> unknown_groups;
    std::optional<Failure> failure;  // of the first unknown group
    // Asked only if an expected kind is missing: the server says of itself that it has started.
    bool is_ready = false;
  };
  // Exactly one of them is called, once, unless the discovery is destroyed; it may be destroyed by
  // them.
  struct Outcome {
    std::function<void(Found)> found;
    std::function<void(Failure)> failed;
  };
  // The groups to ask for: WithGateways also those of Gateways and Ingresses.
  enum class Groups : std::uint8_t { Usual, WithGateways };
  // `expected`: kinds whose absence is to be judged.  REQUIRES: transport, scheduler and parser
  // outlive the discovery.
  Discovery(Transport& transport, Scheduler& scheduler, JsonParser& parser, Groups groups,
            std::set<std::string> expected, Outcome outcome);
  ~Discovery() override;

  // Returns whether the latest answer was multiplexed, as in ResponseHead.
  bool is_multiplexed() const { return head_.is_multiplexed; }

  // The best version of a kind that may be served; nullopt: no kind of these groups.
  static std::optional<std::string> usual_version(std::string_view kind, Groups groups);

 private:
  void on_head(const ResponseHead& head) override;
  void on_body(std::string_view part) override;
  void on_end(const Result<void>& end) override;

  void ask_next();
  void ask(std::string path);
  void guard();
  void take_answer();
  void note_unknown(Failure failure, const std::string& group);
  void go_on();
  bool read_group(const std::string& group);
  bool read_kinds(const std::string& group, const std::string& version);
  void fail(ReflectorStatus::Trouble trouble, std::string message);

  Transport& transport_;
  Scheduler& scheduler_;
  JsonParser& parser_;
  const std::set<std::string> expected_;
  Outcome outcome_;
  // Groups and versions still to be read; without a version: the group itself.  Each group is asked
  // for by name: a list of all is long, and some servers leave the groups of CRDs out of it.
  std::deque<std::pair<std::string, std::string>> questions_;
  std::size_t known_groups_ = 0;
  Found found_;
  bool asks_readiness_ = false;
  ResponseHead head_;
  std::string body_;
  std::unique_ptr<Exchange> exchange_;
  std::unique_ptr<Timer> watchdog_;
};

}  // namespace meshdns::registry::kubernetes
