// SPDX-License-Identifier: Apache-2.0
// Answers that name the endpoints of a Service: the addresses of one of them, and SRV records.  The
// work depends on the size of the reply, not on the number of endpoints.
#pragma once

#include "dnsd/answer/answer.hpp"
#include "dnsd/answer/decision.hpp"

namespace meshdns::dnsd {

// REQUIRES: Verdict::EndpointAddresses.
void answer_endpoint(const Decision& decision, AnswerContext& context);
// REQUIRES: Verdict::Ports.
void answer_ports(const Decision& decision, AnswerContext& context);

}  // namespace meshdns::dnsd
