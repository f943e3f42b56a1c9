// SPDX-License-Identifier: Apache-2.0
// metav1.LabelSelector: which objects a rule is about.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace meshdns::registry {

// Labels of objects.

// Sorted by key, keys unique.
using Labels = std::vector<std::pair<std::string, std::string>>;
// Whether every pair of `selector` is in `labels`; an empty selector matches everything.
bool selects(const Labels& selector, const Labels& labels);

struct LabelRequirement {
  enum class Operator : std::uint8_t { In, NotIn, Exists, DoesNotExist };
  std::string key;
  Operator op = Operator::Exists;
  std::vector<std::string> values;  // of In and NotIn
  friend bool operator==(const LabelRequirement&, const LabelRequirement&) = default;
};

// All of it must hold; an empty selector selects everything.
struct LabelSelector {
  Labels match_labels;
  std::vector<LabelRequirement> match_expressions;
  friend bool operator==(const LabelSelector&, const LabelSelector&) = default;
};

bool selects(const LabelSelector& selector, const Labels& labels);

}  // namespace meshdns::registry
