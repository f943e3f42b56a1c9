// SPDX-License-Identifier: Apache-2.0
#include "registry/source/kubernetes/api_client.hpp"

#include <utility>

namespace meshdns::registry::kubernetes {
namespace {

constexpr Milliseconds kRenewalPause{1'000};
constexpr std::string_view kJson = "Accept: application/json";
constexpr std::string_view kMetadata =
    "Accept: application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
constexpr std::string_view kMetadataList =
    "Accept: application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

std::string_view accept_header(Content content) {
  switch (content) {
    case Content::Objects:
      break;
    case Content::Metadata:
      return kMetadata;
    case Content::MetadataList:
      return kMetadataList;
  }
  return kJson;
}

}  // namespace

// Waits for credentials, then for the response; says why there are none from a timer, never from
// within get().
class ApiClient::Request final : public Exchange {
 public:
  Request(ApiClient& client, std::string path, Content content, ResponseListener& listener)
      : client_(client), path_(std::move(path)), content_(content), listener_(listener) {}

  void begin() {
    if (!client_.credentials_) return fail_later(client_.load_error_);
    credentials_ = client_.credentials_;
    credentials_->obtain([this, alive = std::weak_ptr<bool>(alive_)](const Result<Proof>& proof) {
      if (alive.expired()) return;
      if (!proof) return fail_later(proof.error().message);
      send(*proof);
    });
  }

 private:
  void send(const Proof& proof) {
    const ClusterAccess& access = credentials_->access();
    CurlRequest request;
    request.url = access.server + path_;
    request.headers.emplace_back(accept_header(content_));
    if (!proof.bearer_token.empty())
      request.headers.push_back("Authorization: Bearer " + proof.bearer_token);
    request.user_and_password = proof.user_and_password;
    request.tls = proof.tls;
    request.proxy = access.proxy;
    exchange_ = client_.curl_.get(request, listener_);
  }

  void fail_later(std::string why) {
    timer_ = client_.scheduler_.after(
        Milliseconds(0), [this, why = std::move(why)] { listener_.on_end(fail(why)); });
  }

  ApiClient& client_;
  const std::string path_;
  const Content content_;
  ResponseListener& listener_;
  std::shared_ptr<Credentials> credentials_;  // these, even if there are newer ones by now
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  std::unique_ptr<Exchange> exchange_;
  std::unique_ptr<Timer> timer_;
};

ApiClient::ApiClient(uv_loop_s* loop, Scheduler& scheduler, const PathLimits& limits,
                     ReadAccess read_access)
    : loop_(loop),
      scheduler_(scheduler),
      read_access_(std::move(read_access)),
      curl_(loop, limits) {
  load();
}

ApiClient::~ApiClient() = default;

void ApiClient::load() {
  auto access = read_access_();
  if (access)
    credentials_ = std::make_shared<Credentials>(loop_, scheduler_, *std::move(access));
  else if (!credentials_)
    load_error_ = access.error().message;
}

std::unique_ptr<Exchange> ApiClient::get(std::string path, Content content,
                                         ResponseListener& listener) {
  if (!credentials_) load();
  auto request = std::make_unique<Request>(*this, std::move(path), content, listener);
  request->begin();
  return request;
}

// The file that says how to reach the server may have been written anew since.
void ApiClient::renew_credentials() {
  // Several requests may be refused for one and the same reason.
  const Milliseconds now = scheduler_.now();
  if (now - renewed_at_ < kRenewalPause) return;
  renewed_at_ = now;
  load();
  if (credentials_) credentials_->renew();
}

}  // namespace meshdns::registry::kubernetes
