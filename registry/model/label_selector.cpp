// SPDX-License-Identifier: Apache-2.0
#include "registry/model/label_selector.hpp"

#include <algorithm>

namespace meshdns::registry {
namespace {

bool holds(const LabelRequirement& requirement, const Labels& labels) {
  using Operator = LabelRequirement::Operator;
  const auto label = std::ranges::find(labels, requirement.key, &Labels::value_type::first);
  const bool is_there = label != labels.end();
  const auto is_listed = [&] {
    return std::ranges::find(requirement.values, label->second) != requirement.values.end();
  };
  switch (requirement.op) {
    case Operator::In:
      return is_there && is_listed();
    case Operator::NotIn:
      return !is_there || !is_listed();  // as Kubernetes: an object without the label is selected
    case Operator::Exists:
      return is_there;
    case Operator::DoesNotExist:
      return !is_there;
  }
  return false;
}

}  // namespace

bool selects(const LabelSelector& selector, const Labels& labels) {
  return selects(selector.match_labels, labels) &&
         std::ranges::all_of(selector.match_expressions,
                             [&](const auto& requirement) { return holds(requirement, labels); });
}

}  // namespace meshdns::registry
