// SPDX-License-Identifier: Apache-2.0
// Finds the kinds and versions that the server has, of those that meshdns reads.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
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
class Discovery final : private ResponseListener {
 public:
  struct Failure {
    ReflectorStatus::Trouble trouble = ReflectorStatus::Trouble::Failing;
    std::string message;
  };
  // Exactly one of them is called, once, unless the discovery is destroyed; it may be destroyed by
  // them.
  struct Outcome {
    std::function<void(ServedKinds)> found;
    std::function<void(Failure)> failed;
  };
  // The groups to ask for: WithGateways also those of Gateways and Ingresses.
  enum class Groups : std::uint8_t { Usual, WithGateways };
  // REQUIRES: all three outlive the discovery.
  Discovery(Transport& transport, Scheduler& scheduler, JsonParser& parser, Groups groups,
            Outcome outcome);
  ~Discovery() override;

  // Of the latest answer, as in ResponseHead.
  bool is_multiplexed() const { return head_.is_multiplexed; }

 private:
  void on_head(const ResponseHead& head) override;
  void on_body(std::string_view part) override;
  void on_end(const Result<void>& end) override;

  void ask_next();
  void guard();
  bool read_group(const std::string& group);
  bool read_kinds(const std::string& group, const std::string& version);
  void fail(ReflectorStatus::Trouble trouble, std::string message);

  Transport& transport_;
  Scheduler& scheduler_;
  JsonParser& parser_;
  Outcome outcome_;
  // Groups and versions still to be read; without a version: the group itself.  Each group is asked
  // for by name: a list of all is long, and some servers leave the groups of CRDs out of it.
  std::deque<std::pair<std::string, std::string>> questions_;
  ServedKinds found_;
  ResponseHead head_;
  std::string body_;
  std::unique_ptr<Exchange> exchange_;
  std::unique_ptr<Timer> watchdog_;
};

}  // namespace meshdns::registry::kubernetes
