// SPDX-License-Identifier: Apache-2.0
// The transport to a real API server: libcurl with credentials.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "registry/source/kubernetes/credentials.hpp"
#include "registry/source/kubernetes/curl_client.hpp"
#include "registry/source/kubernetes/transport.hpp"
#include "registry/source/scheduler.hpp"
#include "registry/source/server_lookup.hpp"

namespace meshdns::registry::kubernetes {

// Finds a connection that carries nothing any more although TCP keeps it: a proxy has stopped
// forwarding, or the server hangs.  Bookmarks would show it after one or two minutes.
//
// client-go sends a PING frame over a connection of HTTP/2 that has been silent for 30 s, and waits
// 15 s for the reply.  Libcurl 7.88 cannot do that for the connections of a multi handle.  A small
// request over the same connection shows the same.
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

class ApiClient final : public Transport {
 public:
  // Reads what it takes to reach the server; anew whenever that was not good enough.
  using ReadAccess = std::function<Result<ClusterAccess>()>;

  // `on_known` is called when the address of the server is known after requests have failed
  // because it was not.  REQUIRES: scheduler and servers outlive the client; exchanges are
  // destroyed before it.
  ApiClient(uv_loop_s* loop, Scheduler& scheduler, ServerLookup& servers, const PathLimits& limits,
            ReadAccess read_access, std::function<void()> on_known);
  ~ApiClient() override;

  [[nodiscard]] std::unique_ptr<Exchange> get(std::string path, Content content,
                                              ResponseListener& listener) override;
  void renew_credentials() override;
  bool has_asked() const override { return has_asked_; }
  void distrust_connections() override { curl_.distrust_connections(); }
  // The kubeconfig says insecure-skip-tls-verify: anybody on the way can play the server.
  bool is_unverified() const { return credentials_ && credentials_->access().tls.is_unverified; }

 private:
  class Request;
  struct Host {
    NamedHost url;
    std::unique_ptr<NamedServer> named;
  };

  void load();
  void look_up_hosts();
  std::vector<NamedHost> hosts() const;
  void on_address_change();

  uv_loop_s* loop_;
  Scheduler& scheduler_;
  ServerLookup& servers_;
  const ReadAccess read_access_;
  const std::function<void()> on_known_;
  CurlClient curl_;
  std::shared_ptr<Credentials> credentials_;  // null: could not be read
  std::string load_error_;
  Milliseconds renewed_at_{0};
  std::vector<Host> hosts_;                     // that are names
  std::vector<std::function<void()>> waiting_;  // for the first lookups to end
  bool lacks_address_ = false;                  // a request was made without it
  bool has_asked_ = true;
};

}  // namespace meshdns::registry::kubernetes
