// SPDX-License-Identifier: Apache-2.0
// From the nodes of a scenario back to text that the product reads.
#pragma once

#include <yaml-cpp/yaml.h>

#include <string>
#include <vector>

namespace meshdns::dnsd::test {

// The strings of a list; one string alone is a list of one, and a key that is missing an empty one.
std::vector<std::string> strings_of(const YAML::Node& list);
// `node` as JSON, with text and numbers told apart as YAML does.
std::string json_text(const YAML::Node& node);
// The resources as one manifest; an apiVersion that is left out is the one of the kind.
std::string manifest_text(const std::vector<YAML::Node>& resources);

}  // namespace meshdns::dnsd::test
