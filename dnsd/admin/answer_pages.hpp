// SPDX-License-Identifier: Apache-2.0
// The page /changes, and the part of an explanation that tells since when an answer is what it is.
#pragma once

#include <string_view>

#include "dnsd/admin/daemon_parts.hpp"
#include "dnsd/answer/explanation.hpp"
#include "registry/view/view.hpp"

namespace meshdns::dnsd {

// The arguments name=, since= (Unix seconds) and limit= restrict the changes; the newest come
// first.
HttpResponse show_changes(const DaemonParts& daemon, const HttpRequest& request);

// Adds when the answer for `name` changed last, and the objects behind it that are served as they
// were before, because what their source has now is faulty.
void add_history(const registry::View& view, std::string_view name, const DaemonParts& daemon,
                 Explanation& explanation);

}  // namespace meshdns::dnsd
