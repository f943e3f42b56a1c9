// SPDX-License-Identifier: Apache-2.0
// The kinds that the API server serves: found by discovery, and again when a CRD has changed. Where
// CRDs may not be watched, discovery is repeated at an interval.
//
// A discovery that lacks a kind is no proof that the kind is gone: a server that starts publishes
// its CRDs late, one group may fail alone, and one of several servers may be of another version.
// Such a kind is *unconfirmed* until its CRD is gone, or the server has been ready and without it
// for kAbsenceLimit.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "registry/source/kubernetes/change_batch.hpp"
#include "registry/source/kubernetes/discovery.hpp"
#include "registry/source/kubernetes/reflector.hpp"
#include "registry/source/kubernetes/watch_plan.hpp"
#include "registry/source/source.hpp"

namespace meshdns::registry::kubernetes {

class KindDiscovery final : private ReflectorListener {
 public:
  using Trouble = ReflectorStatus::Trouble;
  static constexpr Milliseconds kAbsenceLimit{60'000};

  // No hook may destroy the object.
  struct Hooks {
    // served() is known, and may be another than before.
    std::function<void()> on_served;
    // A request of `who` has ended; `error` says why.
    std::function<void(const void* who, Trouble trouble, const std::string& error)> on_answer;
    // For the log.
    std::function<void(SourceNotice notice)> on_notice;
  };
  struct Options {
    Discovery::Groups groups = Discovery::Groups::Usual;
    Milliseconds poll{60'000};  // the interval of discovery where CRDs may not be watched
    // Kinds whose objects are there already.  Kinds of other groups are ignored.
    std::set<std::string> known;
    ReflectorOptions reflector;
  };
  // REQUIRES: what `environment` refers to, and `reach`, outlive it.
  KindDiscovery(Options options, const Reflector::Environment& environment, ServerReach& reach,
                Hooks hooks);
  ~KindDiscovery() override;

  // Asks now.
  void discover();
  // A kind is not there that was found: asks soon, unless it will do so anyway.
  void doubt();
  // The server answers again; not for `who` itself.
  void retry_now(const void* who);
  void leave_path_silent_since(Milliseconds when, std::optional<std::uint64_t> working);

  // With the unconfirmed ones.  nullopt: not known yet.
  const std::optional<ServedKinds>& served() const { return served_; }
  // The kind is in served(), but the latest discovery lacks it.
  bool is_unconfirmed(const std::string& kind) const { return unconfirmed_.contains(kind); }
  // No kind is likely to be found, or to be gone, in a moment.
  bool is_settled() const;
  // Why the last discovery failed; empty if it did not.
  const std::string& error() const { return error_; }
  // Returns whether a watch of CRDs is open.
  bool is_watching() const { return crds_ && crds_->status().watching; }
  // The connection of that watch.  REQUIRES: is_watching().
  std::uint64_t connection() const { return crds_->status().connection; }

 private:
  // Called for the CRDs.
  std::optional<std::uint64_t> on_object(const Node& object,
                                         std::span<const DocumentProblem> problems,
                                         bool is_initial) override;
  std::optional<std::uint64_t> on_unreadable(const ObjectRef& object,
                                             std::string_view why) override;
  std::optional<std::uint64_t> on_deleted(const ObjectRef& object) override;
  void on_listed(std::vector<std::uint64_t> seen) override;
  void on_state() override;
  bool may_retry() override { return reach_.may_ask(&crds_); }

  void on_discovered(Discovery::Found found);
  void on_discovery_failed(const Discovery::Failure& failure);
  std::set<std::string> expected() const;
  bool has_lost_definition(const std::string& kind) const;
  bool serves_all_defined() const;
  std::string reason_to_go(const std::string& kind, const Discovery::Found& found);
  void keep_missing(Discovery::Found& found);
  void look_again(const Discovery::Found& found);
  void discover_in(Milliseconds delay);
  void poll();
  void look_after_crds();
  void follow_crds();
  std::uint64_t note_definition(const ObjectRef& crd);
  void forget_definition(std::map<std::uint64_t, std::string>::iterator crd);

  // Describes a kind that the latest discovery lacks.
  struct Absence {
    std::optional<Milliseconds> ready_since;  // the server has been ready, and without the kind
    bool was_never_seen = false;              // by this run
  };

  const Options options_;
  const Reflector::Environment environment_;
  ServerReach& reach_;
  const Hooks hooks_;
  std::unique_ptr<Discovery> discovery_;
  std::unique_ptr<Timer> timer_;
  Backoff backoff_;
  std::optional<ServedKinds> served_;
  std::map<std::string, Absence> unconfirmed_;
  std::optional<Milliseconds> unknown_since_;  // a group gives no answer
  bool is_unknown_for_good_ = false;           // because it may not be asked for
  std::optional<Milliseconds> refused_since_;
  std::string error_;
  std::vector<Milliseconds> looks_to_come_;  // after a change of CRDs, or the server's return
  std::unique_ptr<Reflector> crds_;
  Milliseconds crds_since_{0};
  std::map<std::uint64_t, std::string> defined_;  // the CRDs of kinds that we read
  std::set<std::string> undefined_;               // kinds whose CRD was there, and is gone
  bool crds_refused_ = false;                     // and said so
};

}  // namespace meshdns::registry::kubernetes
