// SPDX-License-Identifier: Apache-2.0
#include "dnsd/query_log/query_log_writer.hpp"

#include <dnstap.pb-c.h>

#include <chrono>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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

using std::chrono::system_clock;

// protobuf-c does not write through the pointer.
ProtobufCBinaryData octets(std::span<const std::uint8_t> value) {
  return {value.size(), const_cast<std::uint8_t*>(value.data())};
}

ProtobufCBinaryData text(std::string_view value) {
  return octets({reinterpret_cast<const std::uint8_t*>(value.data()), value.size()});
}

ProtobufCBinaryData address_octets(const IpAddress& address) {
  return octets(std::span(address.octets()).subspan(address.is_v4() ? 12 : 0));
}

struct TimeParts {
  std::uint64_t seconds;
  std::uint32_t nanoseconds;
};

TimeParts parts_of(system_clock::time_point time) {
  using namespace std::chrono;
  const auto since = duration_cast<nanoseconds>(time.time_since_epoch()).count();
  return {static_cast<std::uint64_t>(since / 1'000'000'000),
          static_cast<std::uint32_t>(since % 1'000'000'000)};
}

// Points into `answered`.
Dnstap__Message client_response(const AnsweredQuery& answered,
                                system_clock::time_point answered_at) {
  const Peer& client = answered.client;
  const auto took = std::chrono::duration_cast<system_clock::duration>(
      std::chrono::nanoseconds(answered.duration_ns));
  const TimeParts asked = parts_of(answered_at - took);
  const TimeParts replied = parts_of(answered_at);
  Dnstap__Message message = DNSTAP__MESSAGE__INIT;
  message.type = DNSTAP__MESSAGE__TYPE__CLIENT_RESPONSE;
  const auto set = [](protobuf_c_boolean& has, auto& field, const auto& value) {
    has = true;
    field = value;
  };
  set(message.has_socket_family, message.socket_family,
      client.address.is_v4() ? DNSTAP__SOCKET_FAMILY__INET : DNSTAP__SOCKET_FAMILY__INET6);
  set(message.has_socket_protocol, message.socket_protocol,
      client.tcp ? DNSTAP__SOCKET_PROTOCOL__TCP : DNSTAP__SOCKET_PROTOCOL__UDP);
  set(message.has_query_address, message.query_address, address_octets(client.address));
  set(message.has_response_address, message.response_address, address_octets(client.local));
  set(message.has_query_port, message.query_port, client.port);
  set(message.has_query_time_sec, message.query_time_sec, asked.seconds);
  set(message.has_query_time_nsec, message.query_time_nsec, asked.nanoseconds);
  set(message.has_response_time_sec, message.response_time_sec, replied.seconds);
  set(message.has_response_time_nsec, message.response_time_nsec, replied.nanoseconds);
  set(message.has_response_message, message.response_message, octets(answered.reply));
  return message;
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

// A Protocol Buffers message `Dnstap` (dnsd/query_log/dnstap.proto) that holds a `Message` of type
// CLIENT_RESPONSE.
void DnstapLog::on_answer(const AnsweredQuery& answered) {
  const std::string extra = "identity=" + std::string(answered.identity) +
                            " source=" + std::string(to_string(answered.source));
  Dnstap__Message message = client_response(answered, system_clock::now());
  Dnstap__Dnstap frame = DNSTAP__DNSTAP__INIT;
  frame.has_identity = true;
  frame.identity = text(identity_);
  frame.has_version = true;
  frame.version = text(version_);
  frame.has_extra = true;
  frame.extra = text(extra);
  frame.type = DNSTAP__DNSTAP__TYPE__MESSAGE;
  frame.message = &message;
  std::vector<std::uint8_t> out(dnstap__dnstap__get_packed_size(&frame));
  dnstap__dnstap__pack(&frame, out.data());
  stream_->push(std::move(out));
}

}  // namespace meshdns::dnsd
