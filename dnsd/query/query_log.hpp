// SPDX-License-Identifier: Apache-2.0
// The fields of one answer for the query log.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "dnsd/net/query_sink.hpp"
#include "dnsd/query/query_counters.hpp"
#include "resolver/wire/query_message.hpp"
#include "resolver/wire/types.hpp"

namespace meshdns::dnsd {

struct AnsweredQuery {
  const Peer& client;
  std::uint16_t id;
  std::string_view identity;  // "Pod shop/web-1"; empty: refused before it was known
  std::string_view qname;     // wire form, spelled as asked; empty: not readable
  wire::Type qtype;
  wire::Class qclass;
  bool recursion_desired;
  bool has_edns;
  bool dnssec_ok;
  std::uint16_t udp_payload;
  std::size_t query_size;
  wire::Rcode rcode;
  bool authoritative;
  bool truncated;
  bool empty;  // no answer records
  std::size_t reply_size;
  AnswerSource source;
  std::string_view upstream;  // the upstream server; empty: none
  std::uint64_t duration_ns;
  std::span<const std::uint8_t> reply;  // as it is sent
};

// One worker's thread; must not block.
class QueryLog {
 public:
  virtual ~QueryLog() = default;
  virtual void on_answer(const AnsweredQuery& answered) = 0;
};

// Several as one.
class QueryLogs final : public QueryLog {
 public:
  void add(std::unique_ptr<QueryLog> log) { logs_.push_back(std::move(log)); }
  bool empty() const { return logs_.empty(); }
  void on_answer(const AnsweredQuery& answered) override {
    for (const auto& log : logs_) log->on_answer(answered);
  }

 private:
  std::vector<std::unique_ptr<QueryLog>> logs_;
};

}  // namespace meshdns::dnsd
