// SPDX-License-Identifier: Apache-2.0
// The pages of the admin endpoint as text for a terminal.
#pragma once

#include <string>
#include <string_view>

namespace meshdns::dnsd {

// The page /top as a table for a terminal.
// A list for each member that is not empty.  Text that is not the expected JSON gives no lines.
std::string top_text(const std::string& page);

// Bodies of /readyz, /sources, /upstreams and /cache.
struct StatusPages {
  std::string readiness;
  std::string sources;
  std::string upstreams;
  std::string cache;
};

// A few lines per page.  A page that is not the expected JSON is left out.
std::string status_text(const StatusPages& pages);

// JSON with line breaks and indentation; text that is no JSON as it is.
std::string indented_json(const std::string& json);

}  // namespace meshdns::dnsd
