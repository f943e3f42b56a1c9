// SPDX-License-Identifier: Apache-2.0
// The answers that the program in the kernel may give: those for hosts of the registry, by name
// alone.  Everything else depends on more than dnsd/kernel/program/answer_maps.h has counters for.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "dnsd/answer/decision.hpp"
#include "dnsd/kernel/kernel_feed.hpp"
#include "dnsd/query/query_state.hpp"
#include "registry/view/view.hpp"

namespace meshdns::dnsd {

// `reads`: of the view that decided.  `reply`: as it goes to the client.  nullopt: it is not such
// an answer.
std::optional<KernelAnswer> kernel_answer(const QueryState& state, const registry::View& view,
                                          const Decision& decision,
                                          const registry::ReadNames& reads,
                                          std::span<const std::uint8_t> reply);

// Returns whether the query has the form that the program answers.
bool is_for_kernel(const wire::QueryMessage& query);

}  // namespace meshdns::dnsd
