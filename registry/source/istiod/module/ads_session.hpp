// SPDX-License-Identifier: Apache-2.0
// The messages of one stream of the aggregated discovery service, both transports, without any
// connection.  protobuf reads and writes them; large responses are read in place, because a tree of
// 100,000 messages would take ten times their room.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "registry/base/result.hpp"
#include "registry/source/istiod/ads.hpp"

namespace meshdns::registry::istiod {

struct AdsResponse {
  Push push;
  std::string nonce;
  std::optional<std::string> fault;  // why the push cannot be used; it is incomplete then
};

// One thread.
class AdsSession {
 public:
  explicit AdsSession(AdsOptions options) : options_(std::move(options)) {}

  // "/envoy.service.discovery.v3.AggregatedDiscoveryService/..."
  const char* method() const;
  std::string first_request() const;
  // Reads a response, whatever it is.  REQUIRES: `message` outlives the result.
  AdsResponse read(std::string_view message) const;
  // Returns the ACK of a response or, with a `refusal`, the NACK.
  std::string reply(const AdsResponse& response, const std::optional<std::string>& refusal);

 private:
  AdsResponse read_delta(std::string_view message) const;
  AdsResponse read_whole(std::string_view message) const;

  const AdsOptions options_;
  std::string good_version_;
};

// Reads single resources of a push with protobuf.  One thread.
std::unique_ptr<MessageReader> make_message_reader();

}  // namespace meshdns::registry::istiod
