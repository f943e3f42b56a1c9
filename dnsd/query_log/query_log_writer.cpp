// SPDX-License-Identifier: Apache-2.0
#include "dnsd/query_log/query_log_writer.hpp"

#include <string>

#include "registry/base/socket_address.hpp"
#include "resolver/wire/name_text.hpp"
#include "resolver/wire/types.hpp"

namespace meshdns::dnsd {
namespace {

// As `dig` and CoreDNS list them.
std::string flags_of(const AnsweredQuery& answered) {
  std::string flags = "qr";
  if (answered.authoritative) flags += ",aa";
  if (answered.truncated) flags += ",tc";
  if (answered.recursion_desired) flags += ",rd";
  return flags + ",ra";
}

std::string class_of(wire::Class qclass) {
  if (qclass == wire::Class::In) return "IN";
  if (qclass == wire::Class::Chaos) return "CH";
  return "CLASS" + std::to_string(static_cast<unsigned>(qclass));  // RFC 3597, section 5
}

}  // namespace

bool has_answer(QueryLogClass query_class, const AnsweredQuery& answered) {
  const bool denial = answered.rcode == wire::Rcode::NxDomain ||
                      (answered.rcode == wire::Rcode::NoError && answered.empty);
  switch (query_class) {
    case QueryLogClass::Off:
      return false;
    case QueryLogClass::All:
      return true;
    case QueryLogClass::Errors:
      return answered.rcode != wire::Rcode::NoError && answered.rcode != wire::Rcode::NxDomain;
    case QueryLogClass::Denial:
      return denial;
  }
  return false;
}

QueryLogWriter::QueryLogWriter(Log& log, const QueryLogConfig& config, std::uint64_t seed)
    : log_(log), config_(config), random_((seed + 1) * 0x9e3779b97f4a7c15ULL) {}

// By chance and not every n-th, which would always be the A of clients that ask A and AAAA in turn.
// xorshift64: nothing depends on its being hard to guess.
bool QueryLogWriter::is_sampled() {
  if (config_.sample >= 1.0) return true;
  random_ ^= random_ << 13;
  random_ ^= random_ >> 7;
  random_ ^= random_ << 17;
  return static_cast<double>(random_ >> 11) * 0x1p-53 < config_.sample;
}

void QueryLogWriter::on_answer(const AnsweredQuery& answered) {
  if (!has_answer(config_.query_class, answered) || !is_sampled()) return;
  const Peer& client = answered.client;
  log_.announce("query",
                {{"client", SocketAddress{client.address, client.port, ""}.to_string()},
                 {"proto", client.tcp ? "tcp" : "udp"},
                 {"id", answered.id},
                 {"name", answered.qname.empty() ? "" : wire::name_to_text(answered.qname)},
                 {"type", answered.qname.empty() ? "" : wire::to_string(answered.qtype)},
                 {"class", answered.qname.empty() ? "" : class_of(answered.qclass)},
                 {"size", answered.query_size},
                 {"do", answered.dnssec_ok},
                 {"bufsize", answered.has_edns ? answered.udp_payload : std::uint16_t{0}},
                 {"rcode", wire::to_string(answered.rcode)},
                 {"flags", flags_of(answered)},
                 {"rsize", answered.reply_size},
                 {"duration_us", answered.duration_ns / 1000},
                 {"identity", answered.identity},
                 {"source", to_string(answered.source)},
                 {"upstream", answered.upstream}});
}

}  // namespace meshdns::dnsd
