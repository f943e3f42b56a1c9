// SPDX-License-Identifier: Apache-2.0
#include "dnsd/query_log/dnstap_log.hpp"

#include <chrono>

#include "dnsd/query_log/dnstap_message.hpp"

namespace meshdns::dnsd {

void DnstapLog::on_answer(const AnsweredQuery& answered) {
  stream_->push(dnstap_message(answered, {identity_, version_}, std::chrono::system_clock::now()));
}

}  // namespace meshdns::dnsd
