// SPDX-License-Identifier: Apache-2.0
// Makes a test of each scenario below tests/scenarios that does not need the daemon.
//   alias/01-external-name.yaml  ->  suite alias_01_external_name, a test per scenario
// Arguments that are no options of GoogleTest are the files to take instead of all.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/in_process/scenario.hpp"

namespace meshdns::dnsd::test {
namespace {

class ScenarioTest final : public testing::Test {
 public:
  ScenarioTest(const YAML::Node& scenario, ScenarioRun::Order order)
      : scenario_(scenario), order_(order) {}
  void TestBody() override {
    std::string text;
    for (const std::string& problem : ScenarioRun(scenario_, order_).run())
      text += "\n- " + problem;
    EXPECT_TRUE(text.empty()) << scenario_["name"].Scalar() << text;
  }

 private:
  YAML::Node scenario_;
  ScenarioRun::Order order_;
};

std::string identifier(const std::string& text) {
  std::string result;
  for (const char c : text) {
    const bool is_word = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (is_word || !result.ends_with('_')) result += is_word ? c : '_';
  }
  return result;
}

void register_file(const std::filesystem::path& file, const std::filesystem::path& root) {
  [[maybe_unused]] const std::string suite =
      identifier(file.lexically_relative(root).replace_extension().string());
  const auto add = [&]([[maybe_unused]] const YAML::Node& scenario,
                       [[maybe_unused]] const std::string& name,
                       [[maybe_unused]] ScenarioRun::Order order) {
#ifndef __clang_analyzer__  // which reports a leak inside of RegisterTest
    testing::RegisterTest(suite.c_str(), name.c_str(), nullptr, nullptr, file.c_str(),
                          scenario.Mark().line + 1,
                          [=]() -> testing::Test* { return new ScenarioTest(scenario, order); });
#endif
  };
  for (const YAML::Node& scenario : scenarios_of(file)) {
    if (needs_daemon(scenario)) continue;
    const std::string name = identifier(scenario["name"].Scalar());
    add(scenario, name, ScenarioRun::Order::AsWritten);
    if (scenario["any_order"].as<bool>(false))
      add(scenario, name + "_reversed", ScenarioRun::Order::Reversed);
  }
}

// SKIP_RETURN_CODE in CMakeLists.txt.
constexpr int kNothingToRun = 77;

}  // namespace
}  // namespace meshdns::dnsd::test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const std::filesystem::path root = std::filesystem::path(MESHDNS_SOURCE_DIR) / "tests/scenarios";
  std::vector<std::filesystem::path> files(argv + 1, argv + argc);
  if (files.empty())
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root))
      if (entry.path().extension() == ".yaml") files.push_back(entry.path());
  std::ranges::sort(files);
  for (const auto& file : files) meshdns::dnsd::test::register_file(file, root);
  if (testing::UnitTest::GetInstance()->total_test_count() == 0)
    return meshdns::dnsd::test::kNothingToRun;
  return RUN_ALL_TESTS();
}
