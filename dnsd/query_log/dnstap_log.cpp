// SPDX-License-Identifier: Apache-2.0
#include "dnsd/query_log/dnstap_log.hpp"

#include <dnstap.pb-c.h>

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dnsd/query/query_log.hpp"

namespace meshdns::dnsd {
namespace {

// Encodes an answer as dnstap (dnsd/query_log/dnstap.proto): a Protocol Buffers message `Dnstap`
// that holds a `Message` of type CLIENT_RESPONSE.
// The fields that are equal in all messages of a server.
struct DnstapServer {
  std::string_view identity;
  std::string_view version;
};

// `answered_at`: by the wall clock.  `extra` is "identity=Pod shop/web-1 source=registry".
std::vector<std::uint8_t> dnstap_message(const AnsweredQuery& answered, const DnstapServer& server,
                                         std::chrono::system_clock::time_point answered_at);

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
  message.has_socket_family = true;
  message.socket_family =
      client.address.is_v4() ? DNSTAP__SOCKET_FAMILY__INET : DNSTAP__SOCKET_FAMILY__INET6;
  message.has_socket_protocol = true;
  message.socket_protocol =
      client.tcp ? DNSTAP__SOCKET_PROTOCOL__TCP : DNSTAP__SOCKET_PROTOCOL__UDP;
  message.has_query_address = true;
  message.query_address = address_octets(client.address);
  message.has_response_address = true;
  message.response_address = address_octets(client.local);
  message.has_query_port = true;
  message.query_port = client.port;
  message.has_query_time_sec = true;
  message.query_time_sec = asked.seconds;
  message.has_query_time_nsec = true;
  message.query_time_nsec = asked.nanoseconds;
  message.has_response_time_sec = true;
  message.response_time_sec = replied.seconds;
  message.has_response_time_nsec = true;
  message.response_time_nsec = replied.nanoseconds;
  message.has_response_message = true;
  message.response_message = octets(answered.reply);
  return message;
}

std::vector<std::uint8_t> dnstap_message(const AnsweredQuery& answered, const DnstapServer& server,
                                         system_clock::time_point answered_at) {
  const std::string extra = "identity=" + std::string(answered.identity) +
                            " source=" + std::string(to_string(answered.source));
  Dnstap__Message message = client_response(answered, answered_at);
  Dnstap__Dnstap frame = DNSTAP__DNSTAP__INIT;
  frame.has_identity = true;
  frame.identity = text(server.identity);
  frame.has_version = true;
  frame.version = text(server.version);
  frame.has_extra = true;
  frame.extra = text(extra);
  frame.type = DNSTAP__DNSTAP__TYPE__MESSAGE;
  frame.message = &message;
  std::vector<std::uint8_t> out(dnstap__dnstap__get_packed_size(&frame));
  dnstap__dnstap__pack(&frame, out.data());
  return out;
}

}  // namespace

void DnstapLog::on_answer(const AnsweredQuery& answered) {
  stream_->push(dnstap_message(answered, {identity_, version_}, std::chrono::system_clock::now()));
}

}  // namespace meshdns::dnsd
