// SPDX-License-Identifier: Apache-2.0
// YAML tags, as both YAML readers understand them.
#pragma once

#include <string>
#include <string_view>

namespace meshdns::registry {

// The type that a scalar's tag gives it.  `tag` is the resolved tag ("tag:yaml.org,2002:str"),
// empty or
// "?" for a plain scalar without one, "!" for a quoted one.
enum class ScalarTag { Plain, String, Unknown };
ScalarTag scalar_tag(std::string_view tag);

// True if `tag` is empty or names the core type `expected` ("map", "seq").
bool is_collection_tag(std::string_view tag, std::string_view expected);

// The problem's message for a tag that is not known.
std::string unknown_tag(std::string_view tag);

}  // namespace meshdns::registry
