// SPDX-License-Identifier: Apache-2.0
// The parts of the daemon that answer queries, on one loop and without its threads, listeners and
// files: the engine, a forwarder and the query handler, as a worker has them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dnsd/config/config.hpp"
#include "dnsd/daemon/query_settings_in_use.hpp"
#include "dnsd/log/log.hpp"
#include "dnsd/mesh/engine.hpp"
#include "dnsd/query/query_clock.hpp"
#include "dnsd/query/query_handler.hpp"
#include "dnsd/query/upstreams.hpp"
#include "resolver/forward/forwarder.hpp"
#include "tests/in_process/fake_loop.hpp"

namespace meshdns::dnsd::test {

class InProcessDaemon final : private ReplySender, private ForwardListener {
 public:
  // REQUIRES: `loop` outlives it.
  InProcessDaemon(FakeLoop& loop, Config config);
  ~InProcessDaemon() override;

  // Replaces everything that `file` said before.  Throws std::invalid_argument for text that is no
  // manifest.
  void write(const std::string& file, std::string_view manifest);
  void remove(const std::string& file);

  // The reply to `query`; empty when there is none within five seconds of fake time.
  std::vector<std::uint8_t> ask(const std::vector<std::uint8_t>& query, const IpAddress& client,
                                bool tcp);

 private:
  void send(const ReplyTo& reply_to, std::span<const std::uint8_t> message) override;
  void drop(const ReplyTo& reply_to) override;
  void apply(registry::OriginChange&& change);
  void settle();

  FakeLoop& loop_;
  Config config_;
  UpstreamConfig upstream_config_;
  Log log_;
  Engine engine_;
  LocalNamesInUse local_names_;
  LoopClock clock_;
  Forwarder forwarder_;
  ForwarderUpstreams upstream_;
  std::optional<QueryHandler> handler_;
  bool is_snapshot_new_ = false;
  std::uint32_t queries_ = 0;
  std::map<std::uint32_t, std::vector<std::uint8_t>> replies_;
};

}  // namespace meshdns::dnsd::test
