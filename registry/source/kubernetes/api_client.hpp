// SPDX-License-Identifier: Apache-2.0
// The transport to a real API server: libcurl with credentials.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "registry/source/kubernetes/credentials.hpp"
#include "registry/source/kubernetes/curl_client.hpp"
#include "registry/source/kubernetes/transport.hpp"
#include "registry/source/server_lookup.hpp"

namespace meshdns::registry::kubernetes {

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
};

}  // namespace meshdns::registry::kubernetes
