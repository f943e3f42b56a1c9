// SPDX-License-Identifier: Apache-2.0
// Every answer of one worker, as dnstap.
#pragma once

#include <memory>
#include <string>

#include "dnsd/query/query_log.hpp"
#include "dnsd/query_log/frame_stream.hpp"

namespace meshdns::dnsd {

class DnstapLog final : public QueryLog {
 public:
  DnstapLog(std::shared_ptr<FrameStream> stream, std::string identity, std::string version)
      : stream_(std::move(stream)), identity_(std::move(identity)), version_(std::move(version)) {}
  void on_answer(const AnsweredQuery& answered) override;

 private:
  const std::shared_ptr<FrameStream> stream_;
  const std::string identity_;
  const std::string version_;
};

}  // namespace meshdns::dnsd
