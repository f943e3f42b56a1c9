// SPDX-License-Identifier: Apache-2.0
// Reads the addresses out of a DNS message, and nothing else.  It may be a server's, who may send
// anything: wire::parse_response checks the whole message first.
#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <unordered_set>
#include <vector>

#include "registry/base/host_name.hpp"
#include "resolver/names/cares_lookup.hpp"
#include "resolver/wire/name_text.hpp"
#include "resolver/wire/octets.hpp"
#include "resolver/wire/response_message.hpp"

namespace meshdns::resolver {
namespace {

using wire::ResponseRecord;
using wire::Type;

// Addresses of one name that are taken; a larger answer only makes endpoint sets dear.
constexpr std::size_t kMaxAddresses = 256;
// Aliases of one name that are followed, and those that are told: these stay in memory for as long
// as the name is watched.
constexpr std::size_t kMaxAliases = 64;
constexpr std::size_t kMaxTold = 16;

Type type_of(Family family) { return family == Family::V4 ? Type::A : Type::Aaaa; }

Answer failed(std::string error) {
  return {.status = Answer::Status::Failed, .error = std::move(error)};
}

std::string rcode_text(wire::Rcode rcode) {
  switch (rcode) {
    case wire::Rcode::FormErr:
    case wire::Rcode::ServFail:
    case wire::Rcode::NotImp:
    case wire::Rcode::Refused:
      return std::string(wire::to_string(rcode));
    default:
      return "rcode " + std::to_string(static_cast<unsigned>(rcode));
  }
}

std::string failure_text(const wire::ResponseMessage& response) {
  std::string text = rcode_text(response.rcode);
  for (const auto& [code, reason] : response.extended_errors)
    if (!reason.empty()) return text.append(" (").append(reason).append(")");
  return text;
}

// REQUIRES: a record of type A or AAAA.  The parser has checked the size of its data.
IpAddress address_of(const ResponseRecord& record) {
  if (record.type == Type::A) {
    std::array<std::uint8_t, 4> octets;
    std::memcpy(octets.data(), record.rdata.data(), octets.size());
    return IpAddress::v4(octets);
  }
  std::array<std::uint8_t, 16> octets;
  std::memcpy(octets.data(), record.rdata.data(), octets.size());
  return IpAddress::v6(octets);
}

// Excludes addresses that no client can connect to: 0.0.0.0, ::, and IPv4 addresses in an AAAA
// record.
bool is_usable(const IpAddress& address, Family family) {
  return !address.is_unspecified() && address.is_v4() == (family == Family::V4);
}

void add_addresses(const std::vector<ResponseRecord>& records, std::string_view name, Family family,
                   Answer& answer) {
  std::unordered_set<IpAddress> seen;
  for (const ResponseRecord& record : records) {
    if (record.type != type_of(family) || record.rclass != wire::Class::In ||
        to_lower(record.owner) != name)
      continue;
    const IpAddress address = address_of(record);
    if (!is_usable(address, family)) continue;
    answer.ttl = std::min(answer.ttl, std::chrono::seconds(record.ttl));
    if (answer.addresses.size() < kMaxAddresses && seen.insert(address).second)
      answer.addresses.push_back(address);
  }
}

// The last one is always told.
void tell_alias(const std::string& wire_name, std::vector<std::string>& via) {
  std::string host;
  if (!wire::host_from_wire(wire_name, host)) return;
  if (via.size() == kMaxTold) via.pop_back();
  via.push_back(std::move(host));
}

// Collects the addresses at the end of the chain that begins at `name`.  Names are in wire form;
// the octets of their lengths are no letters.
Answer follow_chain(const std::vector<ResponseRecord>& records, std::string name, Family family) {
  Answer answer{.status = Answer::Status::NoData, .ttl = std::chrono::seconds::max()};
  std::map<std::string, const ResponseRecord*, std::less<>> aliases;
  for (const ResponseRecord& record : records)
    if (record.type == Type::Cname && record.rclass == wire::Class::In)
      aliases.emplace(to_lower(record.owner), &record);
  std::size_t links = 0;
  for (auto alias = aliases.find(name); alias != aliases.end(); alias = aliases.find(name)) {
    if (++links > kMaxAliases) return failed("the chain of aliases is a loop or too long");
    answer.ttl = std::min(answer.ttl, std::chrono::seconds(alias->second->ttl));
    name = to_lower(alias->second->rdata);
    tell_alias(name, answer.via);
  }
  add_addresses(records, name, family, answer);
  if (!answer.addresses.empty()) answer.status = Answer::Status::Addresses;
  return answer;
}

// RFC 2308, section 5: the lesser of the SOA's TTL and its MINIMUM, the last field of its data.
void take_negative_ttl(Answer& answer, const std::vector<ResponseRecord>& authority) {
  const auto soa = std::ranges::find_if(authority, [](const ResponseRecord& record) {
    return record.type == Type::Soa && record.rclass == wire::Class::In;
  });
  answer.has_ttl = soa != authority.end();
  if (!answer.has_ttl) return;
  const std::string_view last = std::string_view(soa->rdata).substr(soa->rdata.size() - 4);
  const std::uint32_t minimum = wire::load_u32(reinterpret_cast<const std::uint8_t*>(last.data()));
  const std::uint32_t least = std::min(soa->ttl, (minimum >> 31) != 0 ? 0 : minimum);
  answer.ttl = std::min(answer.ttl, std::chrono::seconds(least));
}

}  // namespace

Answer read_address_answer(std::span<const std::uint8_t> message, std::string_view host,
                           Family family) {
  if (message.size() < wire::kHeaderSize) return failed("the answer is shorter than a header");
  if ((message[2] & 0xf8) != 0x80) return failed("not a response to a query");
  if (wire::load_u16(message.data() + 4) != 1)
    return failed("the answer does not repeat the question");
  const std::string name = wire::wire_from_host(host);
  const auto response = wire::parse_response(message);
  if (!response) return failed("the answer is malformed");
  if (response->question != wire::Question{name, type_of(family), wire::Class::In})
    return failed("the answer is to another question");
  const bool is_denied = response->rcode == wire::Rcode::NxDomain;
  if (response->rcode != wire::Rcode::NoError && !is_denied) return failed(failure_text(*response));
  if (response->truncated) return failed("the answer is truncated");
  Answer answer = follow_chain(response->answer, name, family);
  if (answer.status == Answer::Status::Failed) return answer;
  if (is_denied) {
    answer.addresses.clear();
    answer.status = Answer::Status::NoName;
  }
  if (answer.status != Answer::Status::Addresses) take_negative_ttl(answer, response->authority);
  return answer;
}

}  // namespace meshdns::resolver
