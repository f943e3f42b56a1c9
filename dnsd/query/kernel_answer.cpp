// SPDX-License-Identifier: Apache-2.0
#include "dnsd/query/kernel_answer.hpp"

#include "registry/base/host_name.hpp"

namespace meshdns::dnsd {
namespace {

using registry::Match;

// Returns whether all addresses take turns at being first.  Others are ordered by weight or
// nearness.
bool is_in_turns(const registry::View& view, const Decision& decision, wire::Type type) {
  const registry::AddressView addresses = view.addresses(*decision.match.service);
  if (addresses.places != nullptr) return false;
  return type == wire::Type::A ? addresses.v4_weights.empty() : addresses.v6_weights.empty();
}

// The host itself, and what the registry says about it alone.
bool is_of_host(const Decision& decision) {
  const Match& match = decision.match;
  return (match.how == Match::How::Exact || match.how == Match::How::Wildcard) &&
         match.service != nullptr && match.below.empty() && !decision.is_unreached;
}

}  // namespace

bool is_for_kernel(const wire::QueryMessage& query) {
  if (query.has_odd_octets || query.qclass != wire::Class::In) return false;
  return !query.has_edns ||
         (!query.edns.nsid && !query.edns.keepalive && query.edns.cookie_length == 0);
}

std::optional<KernelAnswer> kernel_answer(const QueryState& state, const registry::View& view,
                                          const Decision& decision,
                                          const registry::ReadNames& reads,
                                          std::span<const std::uint8_t> reply) {
  const wire::QueryMessage& query = *state.query;
  const bool is_plain = !state.is_tcp() && !state.cookie && state.decisions == 1 &&
                        state.chain.empty() && !state.walk.is_active() && is_for_kernel(query);
  if (!is_plain || !is_of_host(decision)) return {};
  const bool has_addresses = decision.verdict == Verdict::Addresses;
  if (!has_addresses && decision.verdict != Verdict::NoData) return {};
  if (has_addresses && !is_in_turns(view, decision, query.qtype)) return {};
  return KernelAnswer{.query = query,
                      .client_address = state.reply_to->client.address,
                      .client = view.client(),
                      .reply = reply,
                      .cluster_domain = view.settings().cluster_domain,
                      .reads = reads,
                      .generation = view.snapshot().generation,
                      .is_rotated = has_addresses};
}

}  // namespace meshdns::dnsd
