// SPDX-License-Identifier: Apache-2.0
// A DNS server on loopback, UDP and TCP on one port, that does what a test tells it to, wrong
// things included.  Runs on the test's own loop.
#pragma once

#include <uv.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/resolver/message_builder.hpp"

namespace meshdns::resolver {

struct ReceivedQuery {
  std::uint16_t id = 0;
  std::string qname;
  std::uint16_t qtype = 0;
  std::uint16_t source_port = 0;
  std::uint16_t edns_payload = 0;  // 0 = no OPT record
  Bytes cookie;                    // RFC 7873; empty = none
  bool recursion_desired = false;
  bool tcp = false;
};

class ScriptedServer {
 public:
  // The messages to send back, none for silence.
  using Script = std::function<std::vector<Bytes>(const ReceivedQuery&)>;

  ScriptedServer(uv_loop_t* loop, Script script);
  ~ScriptedServer();
  ScriptedServer(const ScriptedServer&) = delete;
  ScriptedServer& operator=(const ScriptedServer&) = delete;

  std::string address() const { return numbered("127.0.0.1:", port_, ""); }
  const std::vector<ReceivedQuery>& queries() const { return queries_; }
  void set_script(Script script) { script_ = std::move(script); }

 private:
  struct Handles;
  std::vector<Bytes> respond(const std::uint8_t* data, std::size_t size, std::uint16_t port,
                             bool tcp);
  void on_tcp_data(uv_stream_t* stream);

  Script script_;
  std::vector<ReceivedQuery> queries_;
  std::uint16_t port_ = 0;
  Handles* handles_;
};

// A server's answer with the query's ID.
MessageBuilder reply_to(const ReceivedQuery& query);

}  // namespace meshdns::resolver
