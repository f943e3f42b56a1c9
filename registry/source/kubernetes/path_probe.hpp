// SPDX-License-Identifier: Apache-2.0
// Finds a connection that carries nothing any more although TCP keeps it: a proxy has stopped
// forwarding, or the server hangs.  Bookmarks would show it after one or two minutes.
//
// client-go sends a PING frame over a connection of HTTP/2 that has been silent for 30 s, and waits
// 15 s for the reply.  Libcurl 7.88 cannot do that for the connections of a multi handle.  A small
// request over the same connection shows the same.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "registry/source/kubernetes/transport.hpp"
#include "registry/source/scheduler.hpp"

namespace meshdns::registry::kubernetes {

// Control thread.
class PathProbe final : private ResponseListener {
 public:
  struct Limits {
    Milliseconds silence{25'000};
    Milliseconds answer{15'000};
  };
  struct Answer {
    Milliseconds silent_since;     // other connections that are silent since then may be dead
    std::uint64_t connection = 0;  // that the answer came over
  };
  // Answered without work, and not subject to the server's priority and fairness.  Any status shows
  // that the path works.
  static constexpr const char* kPath = "/livez";

  struct Hooks {
    // When something came over the connection; nullopt: there is none to probe.
    std::function<std::optional<Milliseconds>()> last_heard;
    // The probe was answered.
    std::function<void(const Answer& answer)> is_alive;
    // The probe was not answered: connections that are silent since it was sent may be dead.
    std::function<void(Milliseconds since)> is_dead;
  };
  // REQUIRES: transport and scheduler outlive the probe.
  PathProbe(Transport& transport, Scheduler& scheduler, const Limits& limits, Hooks hooks);
  ~PathProbe() override;

  void start();
  // A request had no answer, and the next one has: asks anew, without a wait for limits.silence or
  // for an answer over the old connection, if that has been silent for as long as an answer may
  // take.
  void suspect();

 private:
  void on_head(const ResponseHead& head) override;
  void on_body(std::string_view) override {}
  void on_end(const Result<void>& end) override;

  void look();
  void probe(Milliseconds silent_since);
  void look_in(Milliseconds delay);
  void pause();

  Transport& transport_;
  Scheduler& scheduler_;
  const Limits limits_;
  const Hooks hooks_;
  Milliseconds asked_at_{0};
  std::unique_ptr<Exchange> exchange_;
  std::unique_ptr<Timer> timer_;
};

}  // namespace meshdns::registry::kubernetes
