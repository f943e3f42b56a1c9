// SPDX-License-Identifier: Apache-2.0
#include "resolver/lookup_query.hpp"

#include <sys/random.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "wire/name_text.hpp"
#include "wire/upstream_query.hpp"

namespace meshdns::resolver {
namespace {

constexpr std::uint16_t kUdpPayload =
    1232;  // RFC 9715: answers above it come over TCP, never in fragments

// Fills `bits` from the kernel; whether it could.
template <std::size_t N>
bool fill_randomly(std::array<std::uint8_t, N>& bits) {
  return getrandom(bits.data(), bits.size(), 0) == static_cast<ssize_t>(bits.size());
}

// Turns letters of `host` into upper case, each by one bit of chance ("0x20"): a reply that repeats
// them exactly was made by somebody who saw the query.
std::string with_random_case(std::string host, std::span<const std::uint8_t, 32> bits) {
  for (std::size_t i = 0; i < host.size() && i / 8 < bits.size(); ++i)
    if (host[i] >= 'a' && host[i] <= 'z' && (bits[i / 8] >> i % 8 & 1) != 0)
      host[i] = static_cast<char>(host[i] - 'a' + 'A');
  return host;
}

std::vector<std::uint8_t> built(const wire::UpstreamQuery& query) {
  std::vector<std::uint8_t> octets(wire::kMaxQuerySize);
  octets.resize(wire::build_query(octets, query));
  return octets;
}

}  // namespace

Result<LookupQuery> LookupQuery::make(const LookupQuestion& question) {
  std::array<std::uint8_t, 34> random{};
  if (!fill_randomly(random)) return fail("the kernel returned no random numbers");
  const std::string name = wire::wire_from_host(
      question.has_random_case ? with_random_case(question.host, std::span(random).first<32>())
                               : question.host);
  if (name.empty()) return fail("not a domain name");
  wire::UpstreamQuery query{
      .id = static_cast<std::uint16_t>(random[32] << 8 | random[33]),
      .name = name,
      .type = question.family == Family::V4 ? wire::Type::A : wire::Type::Aaaa,
      .edns = question.has_edns,
      .udp_payload = kUdpPayload,
      .cookie = question.cookie};
  LookupQuery result;
  result.octets_ = built(query);
  query.edns = false;
  query.cookie = {};
  result.plain_ = built(query);
  return result;
}

ssize_t LookupQuery::send_in_place_of(std::span<const std::uint8_t> of_cares, int socket,
                                      bool is_stream) {
  std::array<std::uint8_t, 2> length{static_cast<std::uint8_t>(octets_.size() >> 8),
                                     static_cast<std::uint8_t>(octets_.size())};
  const std::size_t head = is_stream ? length.size() : 0;
  if (of_cares.size() < head + 2) {
    errno = EINVAL;
    return -1;
  }
  std::ranges::copy(of_cares.subspan(head, 2), octets_.begin());
  const std::array<iovec, 2> parts{iovec{length.data(), head},
                                   iovec{octets_.data(), octets_.size()}};
  const ssize_t sent = writev(socket, parts.data(), static_cast<int>(parts.size()));
  if (sent < 0) return sent;
  // A new connection takes so few octets at once.
  if (static_cast<std::size_t>(sent) < head + octets_.size()) {
    errno = EPIPE;
    return -1;
  }
  return static_cast<ssize_t>(of_cares.size());
}

}  // namespace meshdns::resolver
