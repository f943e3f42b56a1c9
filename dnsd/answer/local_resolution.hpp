// SPDX-License-Identifier: Apache-2.0
// Follows aliases as far as they lead through the registry.  The answer path and explanations
// both go this way; what leads out of the registry is left to the caller.
#pragma once

#include <span>

#include "dnsd/answer/alias_chain.hpp"
#include "dnsd/answer/answer.hpp"
#include "dnsd/answer/decision.hpp"
#include "resolver/wire/query_message.hpp"

namespace meshdns::dnsd {

// The question of a query.  `odd_name`: buffer of kMaxNameLength + 1 bytes that may hold the
// name.
Asked asked_of(const wire::QueryMessage& query, std::span<char> odd_name);

// Makes `asked` a question for chain.last().  REQUIRES: `chain` is not empty, and outlives it.
void point_at(const AliasChain& chain, Asked& asked);

// Decides about `asked`, or about chain.last() if `chain` is not empty, and follows aliases.  The
// decision is about chain.last() then, or about the question if `chain` is still empty.  Never
// Alias or SearchAlias: AliasItself (CNAME or ANY was asked: the chain is the answer) or AliasLoop
// instead.  The decision refers to `chain`.
Decision resolve_locally(const registry::View& view, Asked asked, AliasChain& chain);

// Writes the chain and the decision at its end.  The context is that of the question.
void write_resolution(const Decision& decision, const AliasChain& chain, AnswerContext& context);

}  // namespace meshdns::dnsd
