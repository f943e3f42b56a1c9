// SPDX-License-Identifier: Apache-2.0
#include "dnsd/query/chaos.hpp"

#include <cstddef>
#include <set>
#include <string>

#include <vector>

#include "dnsd/answer/explanation.hpp"
#include "dnsd/net/port_owner.hpp"
#include "resolver/wire/name_text.hpp"

namespace meshdns::dnsd {
namespace {

std::string_view wire_name(const wire::QueryMessage& query) {
  return {reinterpret_cast<const char*>(query.question.data()), query.qname_size};
}

Audience audience_of(const ChaosQuery& chaos) {
  return chaos.origin == Origin::Here ? Audience::Operator : Audience::Client;
}

// The queries of other clients wait on this thread: 3 ms for all of these names.
constexpr std::size_t kNamesComparedByWorker = 20'000;

std::size_t names_compared_for(const ChaosQuery& chaos) {
  return audience_of(chaos) == Audience::Operator ? kNamesComparedByWorker
                                                  : kNamesComparedForClients;
}

std::vector<std::string> explain_name(const ChaosQuery& chaos) {
  // Others would not see it.
  const bool is_operator = audience_of(chaos) == Audience::Operator;
  const auto explanation = explain({.snapshot = chaos.snapshot,
                                    .client = chaos.client,
                                    .settings = chaos.settings,
                                    .name = wire::name_to_text(wire_name(chaos.query)),
                                    .types = {},
                                    .forwarding = chaos.forwarding,
                                    .kernel = chaos.kernel,
                                    .past = is_operator ? chaos.settings.past : DescribePast(),
                                    .most_names_compared = names_compared_for(chaos)});
  if (!explanation) return {explanation.error().message};
  return to_lines(*explanation, audience_of(chaos));
}

std::vector<std::string> facts(const ChaosQuery& chaos) {
  const std::string_view name = chaos.query.qname();
  if (chaos.query.has_odd_octets) return explain_name(chaos);
  if (name == "version.server" || name == "version.bind") return {chaos.settings.server_version};
  if (name == "hostname.bind" || name == "id.server") return {chaos.settings.server_identity};
  if (name == "whoami.meshdns")
    return describe_client(chaos.snapshot, chaos.client, chaos.source.address.to_string(),
                           audience_of(chaos));
  return explain_name(chaos);
}

}  // namespace

// The kernel lets no packet with a loopback source in from another machine.  It does so for the
// other addresses of this machine only with IPv4, without accept_local; and a rule for NAT may give
// a Pod's packet the address that it asks.  Hence the socket.
Origin origin_of(const Peer& client) {
  if (client.address.is_loopback()) return Origin::Here;
  if (client.address != client.local) return Origin::Elsewhere;
  if (is_own_socket(client)) return Origin::Here;
  return client.tcp ? Origin::Elsewhere : Origin::Unproven;
}

bool may_ask_chaos(ChaosAccess access, Origin client) {
  switch (access) {
    case ChaosAccess::Loopback:
      return client == Origin::Here;
    case ChaosAccess::Allowed:
      return true;
    case ChaosAccess::Off:
      break;
  }
  return false;
}

void answer_chaos(const ChaosQuery& chaos, wire::MessageWriter& writer) {
  writer.set_authoritative(true);
  if (chaos.query.qtype != wire::Type::Txt && chaos.query.qtype != wire::Type::Any) return;
  // An RRset is a set: what two types have in common is said once.
  std::set<std::string> said;
  for (const std::string& fact : facts(chaos)) {
    if (!said.insert(fact).second) continue;
    const std::string_view text = fact;
    if (!writer.add_txt(wire::Section::Answer, wire::MessageWriter::kQuestionName, 0, {&text, 1}))
      return writer.set_truncated();
  }
}

}  // namespace meshdns::dnsd
