// SPDX-License-Identifier: Apache-2.0
#include "dnsd/daemon/kernel_samples.hpp"

#include <uv.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

#include "registry/base/host_name.hpp"
#include "resolver/wire/octets.hpp"
#include "resolver/wire/types.hpp"

namespace meshdns::dnsd {
namespace {

constexpr std::uint16_t kRecursionDesired = 0x0100;

std::uint16_t in_host_order(__be16 value) {
  return wire::load_u16(reinterpret_cast<const std::uint8_t*>(&value));
}

IpAddress address_of(const meshdns_address& address) {
  IpAddress::Octets octets;
  std::ranges::copy(address.octets, octets.begin());
  return IpAddress::v6(octets);  // IPv4-mapped ones are IPv4
}

// The name in lower-case text without the final dot: the program answers no other names.
std::string text_of(std::string_view wire_name) {
  std::string text;
  for (std::size_t at = 0; at < wire_name.size() && wire_name[at] != 0;) {
    const auto length = static_cast<unsigned char>(wire_name[at]);
    if (!text.empty()) text += '.';
    for (const char c : wire_name.substr(at + 1, length)) text += to_lower(c);
    at += length + std::size_t{1};
  }
  return text;
}

}  // namespace

KernelSamples::KernelSamples() : top_(uv_hrtime(), reinterpret_cast<std::uintptr_t>(this)) {}

void KernelSamples::note(const meshdns_sample& sample, const registry::Snapshot& snapshot) {
  const std::string_view name(reinterpret_cast<const char*>(sample.name),
                              std::min<std::size_t>(sample.name_size, MESHDNS_MAX_NAME));
  const Peer from{address_of(sample.client), in_host_order(sample.client_port),
                  address_of(sample.server), false};
  const registry::Client* const client = snapshot.client_at(from.address);
  const std::string_view ns =
      client != nullptr && client->ns ? client->ns->text() : std::string_view();
  top_.note_sampled_query(text_of(name), from.address, ns, std::max(sample.every, 1U),
                          sample.time_ns);
  if (!log_) return;
  const bool has_edns = (sample.question_flags & MESHDNS_HAS_OPT) != 0;
  log_->on_answer(
      {.client = from,
       .id = in_host_order(sample.id),
       .identity =
           client == nullptr ? std::string_view() : std::string_view(client->identity.description),
       .qname = name,
       .qtype = static_cast<wire::Type>(in_host_order(sample.type)),
       .qclass = wire::Class::In,
       .recursion_desired = (in_host_order(sample.query_flags) & kRecursionDesired) != 0,
       .has_edns = has_edns,
       .dnssec_ok = (sample.question_flags & MESHDNS_DNSSEC_OK) != 0,
       .udp_payload = sample.payload,
       .query_size = sample.query_size,
       .rcode = static_cast<wire::Rcode>(sample.rcode),
       .authoritative = true,  // the registry's
       .truncated = false,
       .empty = sample.answers == 0,
       .reply_size = sample.reply_size,
       .source = AnswerSource::Kernel,
       .upstream = {},
       .duration_ns = 0,
       .reply = {}});
}

}  // namespace meshdns::dnsd
