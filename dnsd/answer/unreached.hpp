// SPDX-License-Identifier: Apache-2.0
// Endpoints in networks that the client does not reach (docs/networks.md): the gateways that are
// answered instead of one endpoint, and the reason where nothing is.
#pragma once

#include <string>

#include "dnsd/answer/answer.hpp"
#include "dnsd/answer/decision.hpp"
#include "dnsd/answer/service_names.hpp"

namespace meshdns::dnsd {

// Returns whether the service has addresses of that family for clients of other networks. REQUIRES:
// it has none for this client.
bool has_unreached_address(const registry::ServiceRecord& service, wire::Type type);
// Returns whether the service has ready endpoints, and the client reaches none of them.
bool are_all_unreached(const registry::View& view, const registry::ServiceRecord& service);

// The addresses that stand for the endpoints of a name, none of which the client reaches.
struct UnreachedName {
  bool exists = false;  // there is such an endpoint
  bool has_v4 = false;  // of gateways
  bool has_v6 = false;
};
UnreachedName find_unreached(const registry::View& view, const registry::ServiceRecord& service,
                             const ServiceLabels& labels);
// Writes the addresses of the gateways to the endpoints of that name.
void answer_gateways(const registry::ServiceRecord& service, const ServiceLabels& labels,
                     AnswerContext& context);

// The reason of a decision: Decision::why or, if endpoints are out of reach, their networks.
std::string why_of(const registry::View& view, const Decision& decision);

}  // namespace meshdns::dnsd
