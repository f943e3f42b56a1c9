// SPDX-License-Identifier: Apache-2.0
// Collects the content of a manifest in a form that tests can compare.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "registry/manifest/manifest.hpp"

namespace meshdns::registry {

struct Collected : ManifestSink {
  struct Placed {
    Resource resource;
    std::uint32_t line;
  };
  std::vector<Placed> resources;
  std::vector<std::string> refused;  // "LINE ServiceEntry shop/api"
  std::vector<Finding> findings;
  Result<void> result;

  void on_resource(Resource&& resource, std::uint32_t line) override {
    resources.push_back({std::move(resource), line});
  }
  void on_refused(const ResourceKey& key, std::uint32_t line) override {
    refused.push_back(std::to_string(line) + " " + key.to_string());
  }
  void on_finding(Finding&& finding) override { findings.push_back(std::move(finding)); }

  // "LINE error|warning FIELD" of every finding.
  std::vector<std::string> places() const {
    std::vector<std::string> out;
    for (const Finding& finding : findings)
      out.push_back(std::to_string(finding.line) +
                    (finding.severity == Severity::Error ? " error " : " warning ") +
                    finding.field);
    return out;
  }
  bool says(std::string_view text) const {
    for (const Finding& finding : findings)
      if (finding.to_string().find(text) != std::string::npos) return true;
    return false;
  }
  std::string all() const {
    std::string out;
    for (const Finding& finding : findings) out += finding.to_string() + "\n";
    return out;
  }
};

inline Collected read(std::string_view text,
                      const ManifestOptions& options = {
                          .path = "test.yaml", .cluster = {}, .network = {}}) {
  Collected collected;
  collected.result = read_manifest(text, options, collected);
  return collected;
}

// The only resource of a text; fails the test when there is not exactly one good one.
template <typename T>
T only(const Collected& collected) {
  EXPECT_EQ(collected.resources.size(), 1U) << collected.all();
  if (collected.resources.size() != 1) return T{};
  const T* const resource = std::get_if<T>(&collected.resources.front().resource);
  EXPECT_NE(resource, nullptr) << "another kind";
  return resource == nullptr ? T{} : *resource;
}

// One text, and every finding it must give.
struct FindingCase {
  std::string name;
  std::string text;
  std::vector<std::string> places;
  std::string says = {};  // a part of one message
};

// "a\nb" as two lines, each `columns` deeper.
inline std::string indent(std::string_view text, std::size_t columns) {
  std::string out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    out += std::string(columns, ' ') + std::string(text.substr(0, end)) + "\n";
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

// Checks that `c.text` gives exactly `c.places`, and a resource if and only if none is an error.
inline void expect_findings(const FindingCase& c, const std::string& manifest) {
  SCOPED_TRACE(c.name + "\n" + manifest);
  const Collected collected = read(manifest);
  EXPECT_TRUE(collected.result);
  EXPECT_EQ(collected.places(), c.places) << collected.all();
  bool refused = false;
  for (const std::string& place : c.places) refused |= place.find(" error ") != std::string::npos;
  EXPECT_EQ(collected.resources.size(), refused ? 0U : 1U);
  EXPECT_EQ(collected.refused.size(), refused ? 1U : 0U);
  if (!c.says.empty()) {
    EXPECT_TRUE(collected.says(c.says)) << collected.all();
  }
}

}  // namespace meshdns::registry
