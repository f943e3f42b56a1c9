// SPDX-License-Identifier: Apache-2.0
// The transport to a real API server: libcurl with credentials.
#pragma once

#include <memory>
#include <string>

#include "registry/source/kubernetes/credentials.hpp"
#include "registry/source/kubernetes/curl_client.hpp"
#include "registry/source/kubernetes/transport.hpp"

namespace meshdns::registry::kubernetes {

class ApiClient final : public Transport {
 public:
  // Reads what it takes to reach the server; anew whenever that was not good enough.
  using ReadAccess = std::function<Result<ClusterAccess>()>;

  // REQUIRES: the scheduler outlives the client; exchanges are destroyed before it.
  ApiClient(uv_loop_s* loop, Scheduler& scheduler, const PathLimits& limits,
            ReadAccess read_access);
  ~ApiClient() override;

  [[nodiscard]] std::unique_ptr<Exchange> get(std::string path, Content content,
                                              ResponseListener& listener) override;
  void renew_credentials() override;
  void distrust_connections() override { curl_.distrust_connections(); }
  // The kubeconfig says insecure-skip-tls-verify: anybody on the way can play the server.
  bool is_unverified() const { return credentials_ && credentials_->access().tls.is_unverified; }

 private:
  class Request;
  void load();

  uv_loop_s* loop_;
  Scheduler& scheduler_;
  const ReadAccess read_access_;
  CurlClient curl_;
  std::shared_ptr<Credentials> credentials_;  // null: could not be read
  std::string load_error_;
  Milliseconds renewed_at_{0};
};

}  // namespace meshdns::registry::kubernetes
