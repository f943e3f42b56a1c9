// SPDX-License-Identifier: Apache-2.0
#include "registry/source/istiod/istiod_source.hpp"

#include <uv.h>

#include <chrono>
#include <map>
#include <optional>
#include <utility>

#include "registry/base/handle.hpp"
#include "registry/base/host_name.hpp"
#include "registry/base/printable.hpp"
#include "registry/source/backoff.hpp"
#include "registry/source/istiod/access.hpp"
#include "registry/source/istiod/inbox.hpp"
#include "registry/source/istiod/module.hpp"

namespace meshdns::registry {
namespace {

using namespace istiod;  // NOLINT(google-build-using-namespace): of this file's own subject

constexpr Milliseconds kFirstRetry{1'000};
constexpr Milliseconds kLastRetry{30'000};
// A stream that lived for so long without a push has not failed: a delta stream need not have one.
constexpr Milliseconds kGoodStream{60'000};

// istiod, or whoever answers in its place, may write the reason.
constexpr std::size_t kMaxEndReason = 500;

std::string host_of_address(const std::string& address) {
  std::string host = address.substr(0, address.rfind(':'));
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return host;
}

std::string port_of_address(const std::string& address) {
  return address.substr(address.rfind(':') + 1);
}

// One target for the addresses of each family, as gRPC wants it.
std::vector<std::string> targets_of(const std::vector<IpAddress>& addresses,
                                    const std::string& port) {
  std::string v4;
  std::string v6;
  for (const IpAddress& address : addresses) {
    if (address.is_v4())
      v4.append(v4.empty() ? "ipv4:" : ",").append(address.to_string());
    else
      v6.append(v6.empty() ? "ipv6:[" : ",[").append(address.to_string()).append("]");
    (address.is_v4() ? v4 : v6).append(":").append(port);
  }
  std::vector<std::string> targets;
  for (std::string* const target : {&v4, &v6})
    if (!target->empty()) targets.push_back(std::move(*target));
  return targets;
}

Held held_by(const IstiodSourceOptions& options) {
  if (options.api == AdsApi::Names) return HeldNames(options.name);
  return HeldWorkloads(options.name, {options.cluster_domain, options.node.network});
}

class IstiodSource final : public Source, private InboxListener {
 public:
  IstiodSource(uv_loop_t* loop, IstiodSourceOptions options, ServerLookup& servers,
               SourceSink& sink)
      : options_(std::move(options)),
        servers_(servers),
        sink_(sink),
        scheduler_(make_uv_scheduler(loop)),
        backoff_(kFirstRetry, make_random()),
        inbox_(held_by(options_), *this) {
    check_loop(inbox_.open(loop), "open a mailbox");
    silent_since_ = scheduler_->now();
  }
  ~IstiodSource() override {
    inbox_.stop_waiting();
    stream_.reset();
    inbox_.close();
  }
  IstiodSource(const IstiodSource&) = delete;
  IstiodSource& operator=(const IstiodSource&) = delete;

  void start() override {
    for (const std::string& address : options_.addresses) {
      const std::string host = canonical_host(host_of_address(address));
      if (!IpAddress::parse(host) && !named_.contains(host))
        named_[host] = servers_.use(host, [this] { on_address_known(); });
    }
    connect_in(Milliseconds(0));
  }

  // Repeats what is wrong, and does not wait for the next try.
  void rescan() override {
    if (!findings_.empty())
      repetition_ = scheduler_->after(Milliseconds(0), [this] { repeat_findings(); });
    if (!stream_) connect_in(Milliseconds(0));
  }

  SourceStatus status() const override {
    SourceStatus status;
    status.name = options_.name;
    status.complete = is_complete_;
    status.origins = is_complete_ ? 1 : 0;
    status.broken = counters_.refused > 0 ? 1 : 0;
    status.reads = counters_.pushes + counters_.refused_pushes;
    status.changes = changes_;
    status.last_error = last_error();
    status.control_plane = counters_;
    status.control_plane->silent_seconds =
        std::chrono::duration<double>(scheduler_->now() - silent_since_).count();
    return status;
  }

 private:
  SourceBatch new_batch() const {
    SourceBatch batch;
    batch.source = options_.name;
    batch.complete = is_complete_;
    return batch;
  }

  void say(bool is_warning, std::string text) {
    SourceBatch batch = new_batch();
    batch.notices.push_back({is_warning, std::move(text)});
    sink_.apply(std::move(batch));
  }

  void repeat_findings() {
    SourceBatch batch = new_batch();
    OriginChange& change = batch.changes.emplace_back();
    change.origin = options_.name;
    change.effect = OriginChange::Effect::Keep;
    change.findings = findings_;
    sink_.apply(std::move(batch));
  }

  std::string last_error() const {
    if (!trouble_.empty()) return trouble_;
    if (!refusal_.empty()) return "refused the last push: " + refusal_;
    if (counters_.connected && !is_complete_)
      return "istiod at " + counters_.server + " has not pushed " +
             (options_.api == AdsApi::Names ? "a name table" : "any workload") +
             " yet; compare sources.istiod.node with the workload";
    return {};
  }

  void connect_in(Milliseconds delay) {
    retry_ = scheduler_->after(delay, [this] { connect(); });
  }

  void connect() {
    retry_.reset();
    counters_.server = options_.addresses[next_address_++ % options_.addresses.size()];
    const ServerAddresses server = addresses_of(host_of_address(counters_.server));
    lacks_address_ = server.addresses.empty();
    if (server.is_awaited()) {
      --next_address_;
      return;
    }
    if (lacks_address_) return fail_to_connect("its name cannot be looked up: " + server.reason);
    const auto module = load_module(module_paths());
    if (!module) return fail_to_connect(module.error().message);
    auto access =
        read_access({options_.ca_file, options_.token_file, options_.cert_file, options_.key_file});
    if (!access) return fail_to_connect(access.error().message);
    ++counters_.connects;
    began_at_ = scheduler_->now();
    had_push_ = false;
    stream_ = (*module)->open(stream_options(server.addresses, *std::move(access)), inbox_);
  }

  ServerAddresses addresses_of(const std::string& host) const {
    if (const auto address = IpAddress::parse(host)) return {{*address}, {}};
    return named_.at(canonical_host(host))->find();
  }

  // An address of one of the names is known.  An open connection stays.
  void on_address_known() {
    if (!stream_ && lacks_address_) connect_in(Milliseconds(0));
  }

  AdsOptions stream_options(const std::vector<IpAddress>& addresses, Access&& access) {
    AdsOptions stream;
    stream.targets = targets_of(addresses, port_of_address(counters_.server));
    stream.server_name =
        options_.server_name.empty() ? host_of_address(counters_.server) : options_.server_name;
    stream.ca_pem = std::move(access.ca_pem);
    stream.token = std::move(access.token);
    stream.cert_pem = std::move(access.cert_pem);
    stream.key_pem = std::move(access.key_pem);
    stream.api = options_.api;
    stream.transport = options_.transport;
    stream.node = options_.node;
    stream.held = inbox_.begin_stream();
    return stream;
  }

  // Said once, until a connection succeeds.
  void fail_to_connect(const std::string& why) {
    const bool is_news = trouble_.empty();
    trouble_ = "istiod at " + counters_.server + ": " + printable(why, kMaxEndReason);
    connect_in(backoff_.next(kLastRetry));
    if (is_news)
      say(true, trouble_ + (is_complete_ ? "; the names that it sent stay in use, and meshdns "
                                           "connects again"
                                         : "; meshdns tries again"));
  }

  // Of the stream.
  void on_connected() override {
    counters_.connected = true;
    if (!std::exchange(trouble_, {}).empty() || counters_.connects == 1)
      say(false, "connected to istiod at " + counters_.server);
  }

  void on_names(Names&& names) override {
    had_push_ = true;
    is_complete_ = true;
    ++counters_.pushes;
    counters_.bytes += names.bytes;
    counters_.changed_names += names.difference.changed;
    counters_.names = names.size;
    counters_.refused = names.refused;
    counters_.version = printable(names.version);
    silent_since_ = scheduler_->now();
    refusal_.clear();
    changes_ += names.difference.changes.size();
    if (!names.difference.changes.empty()) findings_ = names.difference.changes.front().findings;
    SourceBatch batch = new_batch();
    batch.changes = std::move(names.difference.changes);
    batch.origins = {{options_.name}};
    sink_.apply(std::move(batch));
  }

  void on_refused(const std::string& why, std::size_t bytes) override {
    ++counters_.refused_pushes;
    counters_.bytes += bytes;
    silent_since_ = scheduler_->now();
    if (std::exchange(refusal_, why) != why)
      say(true, "refused a push of istiod at " + counters_.server + ": " + why +
                    "; the last good names stay in use");
  }

  // istiod ends each stream after half an hour or so.  That is worth a line only if the next one
  // fails.
  void on_end(const std::string& why) override {
    const bool was_connected = std::exchange(counters_.connected, false);
    stream_.reset();
    const bool was_good =
        was_connected && (had_push_ || scheduler_->now() - began_at_ >= kGoodStream);
    if (!was_good) return fail_to_connect(why);
    backoff_.reset();
    connect_in(backoff_.next(kLastRetry));
  }

  const IstiodSourceOptions options_;
  ServerLookup& servers_;
  SourceSink& sink_;
  std::unique_ptr<Scheduler> scheduler_;
  Backoff backoff_;
  std::unique_ptr<Timer> retry_;
  std::unique_ptr<Timer> repetition_;
  std::map<std::string, std::unique_ptr<NamedServer>> named_;  // by the hosts that are names
  std::size_t next_address_ = 0;
  bool lacks_address_ = false;  // the last try
  Milliseconds began_at_{0};    // the stream
  bool had_push_ = false;       // of the stream
  Milliseconds silent_since_{0};
  bool is_complete_ = false;
  std::string trouble_;  // with the connection
  std::string refusal_;  // of the last push
  std::vector<Finding> findings_;
  std::uint64_t changes_ = 0;
  ControlPlaneStatus counters_;
  Inbox inbox_;
  std::unique_ptr<AdsStream> stream_;
};

}  // namespace

std::unique_ptr<Source> make_istiod_source(uv_loop_s* loop, IstiodSourceOptions options,
                                           ServerLookup& servers, SourceSink& sink) {
  return std::make_unique<IstiodSource>(loop, std::move(options), servers, sink);
}

}  // namespace meshdns::registry
