// SPDX-License-Identifier: Apache-2.0
#include "tests/in_process/in_process_daemon.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "dnsd/mesh/engine.hpp"
#include "dnsd/mesh/upstream_servers.hpp"
#include "registry/manifest/manifest.hpp"
#include "registry/model/mesh_settings.hpp"

namespace meshdns::dnsd::test {
namespace {

constexpr std::chrono::milliseconds kNoReplyAfter{5'000};
constexpr const char* kSource = "scenario";

UpstreamConfig upstream_of(const Config& config) {
  std::string warning;
  return effective_upstream(config, config.server.listen, &warning, {});
}

class ChangeSink final : public registry::ManifestSink {
 public:
  explicit ChangeSink(registry::OriginChange& change) : change_(change) {}
  void on_resource(registry::Resource&& resource, std::uint32_t line) override {
    change_.resources.push_back(resource, line);
  }
  void on_refused(const registry::ResourceKey& key, std::uint32_t) override {
    change_.kept.push_back(hash_of(key));
  }
  void on_finding(registry::Finding&& finding) override {
    change_.findings.push_back(std::move(finding));
  }

 private:
  registry::OriginChange& change_;
};

}  // namespace

InProcessDaemon::InProcessDaemon(FakeLoop& loop, Config config)
    : loop_(loop),
      config_(std::move(config)),
      upstream_config_(upstream_of(config_)),
      log_({.level = LogLevel::Off}),
      engine_(loop.get(), config_, *this, log_, {}),
      local_names_(log_),
      clock_(loop.get()),
      forwarder_(loop.get(), engine_.forwarding, upstream_config_, config_.cache),
      upstream_(forwarder_, engine_.forwarding) {
  engine_.update();
  local_names_.read(config_);
  QuerySettings settings = QuerySettings::from(config_);
  settings.local = local_names_.names();
  engine_.use(upstream_config_);
  if (auto started = engine_.start(upstream_config_, settings); !started)
    throw std::runtime_error(started.error().message);
  handler_.emplace(QueryHandlerParts{engine_.publisher, upstream_, *this, clock_, nullptr, {}},
                   std::move(settings));
  engine_.set_listener([this] { is_snapshot_new_ = true; });
}

InProcessDaemon::~InProcessDaemon() {
  engine_.publisher.set_listener({});
  handler_->on_stop();
  engine_.close();
  loop_.run_for({});
}

void InProcessDaemon::apply(registry::OriginChange&& change) {
  registry::SourceBatch batch{.source = kSource, .changes = {}, .complete = true};
  batch.changes.push_back(std::move(change));
  engine_.feed.apply(std::move(batch));
  settle();
}

void InProcessDaemon::write(const std::string& file, std::string_view manifest) {
  registry::OriginChange change;
  change.origin = file;
  ChangeSink sink(change);
  registry::ManifestOptions options;
  options.path = file;
  options.gateway_kinds = registry::gateway_kinds_to_read(config_.mesh);
  if (const auto read = registry::read_manifest(manifest, options, sink); !read)
    throw std::invalid_argument(file + ": " + read.error().message);
  apply(std::move(change));
}

void InProcessDaemon::remove(const std::string& file) {
  registry::OriginChange change;
  change.origin = file;
  change.effect = registry::OriginChange::Effect::Remove;
  apply(std::move(change));
}

// A worker hears of a snapshot by a message, never from inside the commit.
void InProcessDaemon::settle() {
  if (std::exchange(is_snapshot_new_, false)) handler_->on_snapshot();
}

std::vector<std::uint8_t> InProcessDaemon::ask(const std::vector<std::uint8_t>& query,
                                               const IpAddress& client, bool tcp) {
  loop_.run_for({});
  settle();
  std::vector<std::uint8_t> buffer(tcp ? kTcpBufferSize : kUdpBufferSize);
  std::ranges::copy(query, buffer.begin());
  ReplyTo reply_to;
  reply_to.client = {client, 4711, *IpAddress::parse("127.0.0.1"), tcp};
  reply_to.slot = ++queries_;
  const std::size_t size = handler_->on_query(buffer, query.size(), reply_to);
  if (size != QuerySink::kReplyLater) {
    buffer.resize(size);
    return buffer;
  }
  loop_.run_until(
      [&] {
        settle();
        return replies_.contains(reply_to.slot);
      },
      kNoReplyAfter);
  return std::exchange(replies_[reply_to.slot], {});
}

void InProcessDaemon::send(const ReplyTo& reply_to, std::span<const std::uint8_t> message) {
  replies_[reply_to.slot].assign(message.begin(), message.end());
}

void InProcessDaemon::drop(const ReplyTo& reply_to) { replies_[reply_to.slot].clear(); }

}  // namespace meshdns::dnsd::test
