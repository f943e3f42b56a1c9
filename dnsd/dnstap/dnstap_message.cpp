// SPDX-License-Identifier: Apache-2.0
#include "dnsd/dnstap/dnstap_message.hpp"

#include <span>
#include <string>

namespace meshdns::dnsd {
namespace {

using Octets = std::vector<std::uint8_t>;

// Protocol Buffers' wire types.
constexpr std::uint32_t kVarint = 0;
constexpr std::uint32_t kLength = 2;
constexpr std::uint32_t kFixed32 = 5;

// Fields of dnstap.proto.
constexpr std::uint32_t kIdentity = 1;
constexpr std::uint32_t kVersion = 2;
constexpr std::uint32_t kExtra = 3;
constexpr std::uint32_t kMessage = 14;
constexpr std::uint32_t kType = 15;
constexpr std::uint32_t kMessageType = 1;
constexpr std::uint32_t kSocketFamily = 2;
constexpr std::uint32_t kSocketProtocol = 3;
constexpr std::uint32_t kQueryAddress = 4;
constexpr std::uint32_t kResponseAddress = 5;
constexpr std::uint32_t kQueryPort = 6;
constexpr std::uint32_t kQueryTimeSec = 8;
constexpr std::uint32_t kQueryTimeNsec = 9;
constexpr std::uint32_t kResponseTimeSec = 12;
constexpr std::uint32_t kResponseTimeNsec = 13;
constexpr std::uint32_t kResponseMessage = 14;
// Its enumerators.
constexpr std::uint64_t kTypeMessage = 1;
constexpr std::uint64_t kClientResponse = 6;
constexpr std::uint64_t kInet = 1;
constexpr std::uint64_t kInet6 = 2;
constexpr std::uint64_t kUdp = 1;
constexpr std::uint64_t kTcp = 2;

void put_varint(Octets& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<std::uint8_t>(value | 0x80));
  out.push_back(static_cast<std::uint8_t>(value));
}

void put(Octets& out, std::uint32_t field, std::uint64_t value) {
  put_varint(out, field << 3 | kVarint);
  put_varint(out, value);
}

void put(Octets& out, std::uint32_t field, std::span<const std::uint8_t> value) {
  put_varint(out, field << 3 | kLength);
  put_varint(out, value.size());
  out.insert(out.end(), value.begin(), value.end());
}

void put(Octets& out, std::uint32_t field, std::string_view value) {
  put(out, field, std::span(reinterpret_cast<const std::uint8_t*>(value.data()), value.size()));
}

void put_fixed32(Octets& out, std::uint32_t field, std::uint32_t value) {
  put_varint(out, field << 3 | kFixed32);
  for (int shift = 0; shift < 32; shift += 8)
    out.push_back(static_cast<std::uint8_t>(value >> shift));
}

void put_time(Octets& out, std::uint32_t field_sec, std::uint32_t field_nsec,
              std::chrono::system_clock::time_point time) {
  using namespace std::chrono;
  const auto since = duration_cast<nanoseconds>(time.time_since_epoch()).count();
  put(out, field_sec, static_cast<std::uint64_t>(since / 1'000'000'000));
  put_fixed32(out, field_nsec, static_cast<std::uint32_t>(since % 1'000'000'000));
}

void put_address(Octets& out, std::uint32_t field, const IpAddress& address) {
  const auto& octets = address.octets();
  put(out, field, std::span(octets).subspan(address.is_v4() ? 12 : 0));
}

Octets message_of(const AnsweredQuery& answered,
                  std::chrono::system_clock::time_point answered_at) {
  const Client& client = answered.client;
  Octets out;
  out.reserve(answered.reply.size() + 80);
  put(out, kMessageType, kClientResponse);
  put(out, kSocketFamily, client.address.is_v4() ? kInet : kInet6);
  put(out, kSocketProtocol, client.tcp ? kTcp : kUdp);
  put_address(out, kQueryAddress, client.address);
  put_address(out, kResponseAddress, client.local);
  put(out, kQueryPort, client.port);
  const auto took = std::chrono::duration_cast<std::chrono::system_clock::duration>(
      std::chrono::nanoseconds(answered.duration_ns));
  put_time(out, kQueryTimeSec, kQueryTimeNsec, answered_at - took);
  put_time(out, kResponseTimeSec, kResponseTimeNsec, answered_at);
  put(out, kResponseMessage, answered.reply);
  return out;
}

}  // namespace

std::vector<std::uint8_t> dnstap_message(const AnsweredQuery& answered, const DnstapServer& server,
                                         std::chrono::system_clock::time_point answered_at) {
  Octets out;
  out.reserve(answered.reply.size() + 256);
  put(out, kIdentity, server.identity);
  put(out, kVersion, server.version);
  put(out, kExtra,
      "identity=" + std::string(answered.identity) +
          " source=" + std::string(to_string(answered.source)));
  put(out, kMessage, message_of(answered, answered_at));
  put(out, kType, kTypeMessage);
  return out;
}

}  // namespace meshdns::dnsd
