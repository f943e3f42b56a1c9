// SPDX-License-Identifier: Apache-2.0
#include "registry/source/kubernetes/api_client.hpp"

#include <algorithm>
#include <utility>

#include "registry/base/host_name.hpp"
#include "registry/source/kubernetes/curl_options.hpp"

namespace meshdns::registry::kubernetes {
namespace {

// Between two probes, whatever became of the first.
constexpr Milliseconds kMaxPause{5'000};

}  // namespace

PathProbe::PathProbe(Transport& transport, Scheduler& scheduler, const Limits& limits, Hooks hooks)
    : transport_(transport), scheduler_(scheduler), limits_(limits), hooks_(std::move(hooks)) {}

PathProbe::~PathProbe() = default;

void PathProbe::start() { look_in(limits_.silence); }

void PathProbe::look_in(Milliseconds delay) {
  timer_ = scheduler_.after(delay, [this] { look(); });
}

void PathProbe::pause() { look_in(std::min(kMaxPause, limits_.answer)); }

void PathProbe::look() {
  const auto heard = hooks_.last_heard();
  if (!heard) return look_in(limits_.silence);
  const Milliseconds due = *heard + limits_.silence - scheduler_.now();
  if (due > Milliseconds(0)) return look_in(due);
  probe(*heard);
}

void PathProbe::suspect() {
  const auto heard = hooks_.last_heard();
  if (heard && scheduler_.now() - *heard >= limits_.answer) probe(*heard);
}

void PathProbe::probe(Milliseconds silent_since) {
  asked_at_ = scheduler_.now();
  exchange_ = transport_.get(kPath, Content::Objects, *this);
  timer_ = scheduler_.after(limits_.answer, [this, silent_since] {
    exchange_.reset();
    pause();
    const auto heard = hooks_.last_heard();
    if (heard && *heard <= silent_since) hooks_.is_dead(asked_at_);
  });
}

void PathProbe::on_head(const ResponseHead& head) {
  hooks_.is_alive({asked_at_ - limits_.answer, head.connection});
}

// A connection that has failed ends its own watches, too.
void PathProbe::on_end(const Result<void>&) {
  exchange_.reset();
  pause();
}

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

bool lacks_address(const std::vector<NamedHost>& hosts) {
  return std::ranges::any_of(hosts,
                             [](const NamedHost& host) { return host.known.addresses.empty(); });
}

}  // namespace

// Waits for credentials, then for the server's address, then for the response; says why there are
// none from a timer, never from within get().
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
      proof_ = *proof;
      send();
    });
  }

 private:
  void send() {
    const ClusterAccess& access = credentials_->access();
    CurlRequest request;
    request.hosts = client_.hosts();
    const auto is_awaited = [](const NamedHost& host) { return host.known.is_awaited(); };
    if (std::ranges::any_of(request.hosts, is_awaited)) {
      client_.waiting_.emplace_back([this, alive = std::weak_ptr<bool>(alive_)] {
        if (!alive.expired()) send();
      });
      return;
    }
    client_.lacks_address_ = client_.lacks_address_ || lacks_address(request.hosts);
    request.url = access.server + path_;
    request.headers.emplace_back(accept_header(content_));
    if (!proof_.bearer_token.empty())
      request.headers.push_back("Authorization: Bearer " + proof_.bearer_token);
    request.user_and_password = proof_.user_and_password;
    request.tls = proof_.tls;
    request.proxy = access.proxy;
    if (auto readable = check_readable(request.tls); !readable)
      return fail_later(readable.error().message);
    client_.has_asked_ = true;
    exchange_ = client_.curl_.get(request, listener_);
  }

  void fail_later(std::string why) {
    timer_ = client_.scheduler_.after(Milliseconds(0), [this, why = std::move(why)] {
      client_.has_asked_ = false;
      listener_.on_end(fail(why));
    });
  }

  ApiClient& client_;
  const std::string path_;
  const Content content_;
  ResponseListener& listener_;
  std::shared_ptr<Credentials> credentials_;  // these, even if there are newer ones by now
  Proof proof_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  std::unique_ptr<Exchange> exchange_;
  std::unique_ptr<Timer> timer_;
};

ApiClient::ApiClient(uv_loop_s* loop, Scheduler& scheduler, ServerLookup& servers,
                     const PathLimits& limits, ReadAccess read_access,
                     std::function<void()> on_known)
    : loop_(loop),
      scheduler_(scheduler),
      servers_(servers),
      read_access_(std::move(read_access)),
      on_known_(std::move(on_known)),
      curl_(loop, limits) {
  load();
}

ApiClient::~ApiClient() = default;

void ApiClient::load() {
  auto access = read_access_();
  if (access)
    if (auto readable = check_files(*access); !readable) access = std::unexpected(readable.error());
  if (access) {
    credentials_ = std::make_shared<Credentials>(loop_, scheduler_, *std::move(access));
    look_up_hosts();
  } else if (!credentials_) {
    load_error_ = access.error().message;
  }
}

// The names of before are released last, so that a name of both keeps its known addresses.
void ApiClient::look_up_hosts() {
  const ClusterAccess& access = credentials_->access();
  std::vector<Host> next;
  for (NamedHost& url : named_hosts(access.server, access.proxy)) {
    auto named = servers_.use(canonical_host(url.host), [this] { on_address_change(); });
    next.push_back({std::move(url), std::move(named)});
  }
  hosts_ = std::move(next);
}

std::vector<NamedHost> ApiClient::hosts() const {
  std::vector<NamedHost> hosts;
  for (const Host& host : hosts_)
    hosts.push_back({host.url.host, host.url.port, host.named->find()});
  return hosts;
}

void ApiClient::on_address_change() {
  for (const auto& go_on : std::exchange(waiting_, {})) go_on();
  if (!lacks_address_ || lacks_address(hosts())) return;
  lacks_address_ = false;
  on_known_();
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
