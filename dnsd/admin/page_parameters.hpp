// SPDX-License-Identifier: Apache-2.0
// The parameters of each path of the admin endpoint (docs/admin.md has the same list).  A request
// with any other is refused: a slip would else change what the answer means.
#pragma once

#include "dnsd/admin/http_message.hpp"

namespace meshdns::dnsd {

// Makes every route answer 400 to a parameter that its row does not have.
void refuse_other_parameters(HttpRoutes& routes);

}  // namespace meshdns::dnsd
