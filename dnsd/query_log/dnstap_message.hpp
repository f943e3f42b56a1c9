// SPDX-License-Identifier: Apache-2.0
// Encodes an answer as dnstap (dnsd/query_log/dnstap.proto): a Protocol Buffers message `Dnstap`
// that holds a `Message` of type CLIENT_RESPONSE.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>
#include <vector>

#include "dnsd/query/query_log.hpp"

namespace meshdns::dnsd {

// The fields that are equal in all messages of a server.
struct DnstapServer {
  std::string_view identity;
  std::string_view version;
};

// `answered_at`: by the wall clock.  `extra` is "identity=Pod shop/web-1 source=registry".
std::vector<std::uint8_t> dnstap_message(const AnsweredQuery& answered, const DnstapServer& server,
                                         std::chrono::system_clock::time_point answered_at);

}  // namespace meshdns::dnsd
