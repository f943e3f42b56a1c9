// SPDX-License-Identifier: Apache-2.0
// The kinds that the API server serves: found by discovery, and again when a CRD has changed. Where
// CRDs may not be watched, discovery is repeated at an interval.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "registry/source/kubernetes/discovery.hpp"
#include "registry/source/kubernetes/reflector.hpp"
#include "registry/source/kubernetes/server_reach.hpp"
#include "registry/source/kubernetes/watch_plan.hpp"

namespace meshdns::registry::kubernetes {

class KindDiscovery final : private ReflectorListener {
 public:
  using Trouble = ReflectorStatus::Trouble;

  // No hook may destroy the object.
  struct Hooks {
    // served() is known, and may be another than before.
    std::function<void()> on_served;
    // A request of `who` has ended; `error` says why.
    std::function<void(const void* who, Trouble trouble, const std::string& error)> on_answer;
    // For the log.
    std::function<void(std::string warning)> on_warning;
  };
  // `poll`: the interval of discovery where CRDs may not be watched.  REQUIRES: what `environment`
  // refers to, and `reach`, outlive it.
  KindDiscovery(Discovery::Groups groups, Milliseconds poll, const ReflectorOptions& options,
                const Reflector::Environment& environment, ServerReach& reach, Hooks hooks);
  ~KindDiscovery() override;

  // Asks now.
  void discover();
  // A kind is not there that was found: asks soon, unless it will do so anyway.
  void doubt();
  // The server answers again; not for `who` itself.
  void retry_now(const void* who);
  void leave_path_silent_since(Milliseconds when);

  // nullopt: not known yet.
  const std::optional<ServedKinds>& served() const { return served_; }
  // Why the last discovery failed; empty if it did not.
  const std::string& error() const { return error_; }
  // Whether a watch of CRDs is open.
  bool is_watching() const { return crds_ && crds_->status().watching; }

 private:
  // Of the CRDs.
  std::optional<std::uint64_t> on_object(const Node& object,
                                         std::span<const DocumentProblem> problems,
                                         bool is_initial) override;
  std::optional<std::uint64_t> on_unreadable(const ObjectRef& object,
                                             std::string_view why) override;
  std::optional<std::uint64_t> on_deleted(const ObjectRef& object) override;
  void on_listed(std::vector<std::uint64_t> seen) override;
  void on_state() override;
  bool may_retry() override { return reach_.may_ask(&crds_); }

  void on_discovered(ServedKinds served);
  void on_discovery_failed(const Discovery::Failure& failure);
  void discover_in(Milliseconds delay);
  void note_crd(const ObjectRef& crd);
  void follow_crds();

  const Discovery::Groups groups_;
  const Milliseconds poll_;
  const ReflectorOptions reflector_;
  const Reflector::Environment environment_;
  ServerReach& reach_;
  const Hooks hooks_;
  std::unique_ptr<Discovery> discovery_;
  std::unique_ptr<Timer> timer_;
  Backoff backoff_;
  std::optional<ServedKinds> served_;
  std::optional<Milliseconds> refused_since_;
  std::string error_;
  std::vector<Milliseconds> looks_to_come_;  // after a change of CRDs
  std::unique_ptr<Reflector> crds_;
  bool crds_refused_ = false;  // and said so
};

}  // namespace meshdns::registry::kubernetes
