// SPDX-License-Identifier: Apache-2.0
// The state of one TCP connection of a client: its unfinished query, its unsent replies and their
// clocks.  TcpServer changes it; only tcp_server.cpp includes this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dnsd/net/query_sink.hpp"
#include "dnsd/net/tcp_budget.hpp"
#include "registry/base/file_descriptor.hpp"
#include "registry/base/poll.hpp"

namespace meshdns::dnsd {

inline constexpr std::size_t kTcpPrefix = 2;  // octets of length (RFC 1035, section 4.2.2)

// Owned by the callback of its poll, which goes when the loop has closed the handle: a connection
// may be in use when it is closed.
struct TcpConnection {
  loop::Poll poll;
  FileDescriptor fd;
  int watched = 0;  // libuv events polled for
  Peer client;
  TcpBudget::Place place;
  std::uint32_t slot;
  std::uint32_t generation;
  std::uint32_t in_flight = 0;  // queries that a late reply is due to
  bool has_asked = false;
  bool end_of_queries = false;  // the client has closed its half
  bool dirty = false;
  bool closed = false;
  // Loop time of the last octet in or reply out; of the first octet of an unfinished query, 0 =
  // none; of the last progress in writing, 0 = nothing to write.
  std::uint64_t active_at = 0;
  std::uint64_t query_since = 0;
  std::uint64_t unsent_since = 0;
  std::vector<std::uint8_t> input;   // an unfinished query, or queries that have to wait
  std::vector<std::uint8_t> output;  // replies that the socket did not take yet
  std::size_t output_at = 0;
  std::size_t held = 0;  // octets of both, as counted last
  TcpConnection* older = nullptr;
  TcpConnection* newer = nullptr;

  static std::size_t message_size(const std::uint8_t* prefix) {
    return static_cast<std::size_t>(prefix[0]) << 8 | prefix[1];
  }

  void forget_sent() {
    output.erase(output.begin(), output.begin() + static_cast<std::ptrdiff_t>(output_at));
    output_at = 0;
  }
  std::size_t unsent() const { return output.size() - output_at; }
  // Since when nothing has moved that it holds memory for.
  std::uint64_t stalled_since() const {
    if (unsent_since != 0) return unsent_since;
    return query_since != 0 ? query_since : active_at;
  }
  bool has_whole_query() const {
    return input.size() >= kTcpPrefix && input.size() - kTcpPrefix >= message_size(input.data());
  }
  void keep_input(std::span<const std::uint8_t> rest) {
    if (rest.empty())
      std::vector<std::uint8_t>().swap(input);
    else
      std::vector<std::uint8_t>(rest.begin(), rest.end()).swap(input);
  }
};

}  // namespace meshdns::dnsd
