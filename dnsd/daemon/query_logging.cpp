// SPDX-License-Identifier: Apache-2.0
#include "dnsd/daemon/query_logging.hpp"

#include <cstdlib>
#include <utility>

namespace meshdns::dnsd {
namespace {

// A burst of queries: four times the lines of the other log.
constexpr std::size_t kQueryLines = 4096;

}  // namespace

void QueryLogging::apply(const LogConfig& config, const QuerySettings& settings,
                         WorkerPool& workers, KernelAnswers& kernel) {
  const QueryLogConfig& wanted = config.queries;
  const bool is_on = wanted.query_class != QueryLogClass::Off && wanted.sample > 0;
  if (is_on && !query_log_)
    query_log_ = std::make_unique<Log>(LogOptions{.level = LogLevel::Info,
                                                  .format = config.format,
                                                  .journal_stream = std::getenv("JOURNAL_STREAM"),
                                                  .queue_length = kQueryLines});
  if (query_log_) query_log_->set_format(config.format);
  apply_dnstap(config);
  workers.log_queries([&](std::size_t i) -> std::shared_ptr<QueryLog> {
    auto logs = std::make_shared<QueryLogs>();
    if (is_on) logs->add(std::make_unique<QueryLogWriter>(*query_log_, wanted, i));
    if (config.dnstap)
      logs->add(
          std::make_unique<DnstapLog>(dnstap_, settings.server_identity, settings.server_version));
    return logs->empty() ? nullptr : std::move(logs);
  });
  // It answers nothing while there is dnstap.
  kernel.log_queries(is_on ? std::make_shared<QueryLogWriter>(*query_log_, wanted, workers.size())
                           : nullptr);
}

// A stream that is not wanted any more is closed here; workers that still hold it push into
// nothing.
void QueryLogging::apply_dnstap(const LogConfig& config) {
  if (dnstap_ && (!config.dnstap || *config.dnstap != dnstap_->target())) {
    dnstap_->close();
    dnstap_before_.written += dnstap_->written();
    dnstap_before_.dropped += dnstap_->dropped();
    dnstap_.reset();
  }
  if (config.dnstap && !dnstap_) dnstap_ = std::make_shared<FrameStream>(*config.dnstap, log_);
}

void QueryLogging::close() {
  if (dnstap_) dnstap_->close();
}

QueryLogCounts QueryLogging::counts() const {
  QueryLogCounts counts{query_log_ ? query_log_->dropped() : 0, dnstap_before_};
  if (dnstap_) {
    counts.dnstap.written += dnstap_->written();
    counts.dnstap.dropped += dnstap_->dropped();
  }
  return counts;
}

}  // namespace meshdns::dnsd
