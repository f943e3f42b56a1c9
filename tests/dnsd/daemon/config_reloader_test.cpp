// SPDX-License-Identifier: Apache-2.0
#include "dnsd/daemon/config_reloader.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

namespace meshdns::dnsd {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using Text = std::optional<std::string>;  // nullopt: there is no file

class ConfigReloaderTest : public testing::Test {
 protected:
  ConfigReloaderTest() {
    uv_loop_init(&loop_);
    write("server: {}\n");
    reloader_.remember_text();
  }
  ~ConfigReloaderTest() override {
    reloader_.stop();
    uv_run(&loop_, UV_RUN_DEFAULT);
    EXPECT_EQ(uv_loop_close(&loop_), 0);
    std::filesystem::remove(path_);
  }
  void write(const Text& text) {
    if (text)
      std::ofstream(path_) << *text;
    else
      std::filesystem::remove(path_);
  }
  void ask() {
    reloader_.reload_soon(&loop_, [this] { ++due_; });
  }
  void look() {
    reloader_.reload_changed_soon(&loop_, [this] { ++due_; });
  }

  uv_loop_t loop_{};
  const std::string path_ = testing::TempDir() + "config_reloader_test-" + std::to_string(getpid());
  Log log_{{.level = LogLevel::Off}};
  ConfigReloader reloader_{{.path = path_}, log_};
  int due_ = 0;
};

// A signal reloads always; a look, if there is a text and it is not that of the last reload.
TEST_F(ConfigReloaderTest, ASignalReloadsAlwaysAndALookReloadsAnotherText) {
  const struct {
    Text text;
    bool is_asked;
    bool is_due;
  } steps[] = {
      {"server: {}\n", false, false},
      {"server: {}\n", true, true},
      {"", false, false},
      {"mesh: {}\n", false, true},
      {{}, false, false},
      {"mesh: {}\n", false, false},
      {"mesh: {}\n", true, true},
      {"server: {}\n", true, true},
      {"server: {}\n", false, false},
      {{}, true, true},
      {{}, false, false},
      {"server: {}\n", false, true},
      {"", true, true},
      {"", true, true},
      {"mesh: {}\n", false, true},
  };
  for (const auto& step : steps) {
    SCOPED_TRACE(step.text.value_or("no file") + (step.is_asked ? ", a signal" : ", a look"));
    write(step.text);
    due_ = 0;
    step.is_asked ? ask() : look();
    uv_run(&loop_, UV_RUN_DEFAULT);
    EXPECT_EQ(due_, step.is_due ? 1 : 0);
  }
}

// The file is another one at each look.
TEST_F(ConfigReloaderTest, WaitsForATextThatStaysButNotForEver) {
  ask();
  int versions = 0;
  const std::uint64_t begun = uv_now(&loop_);
  while (uv_now(&loop_) < begun + 200) {
    write("server: {}  # " + std::to_string(++versions));
    uv_run(&loop_, UV_RUN_NOWAIT);
    ASSERT_EQ(due_, 0);
  }
  look();  // changes nothing
  uv_run(&loop_, UV_RUN_DEFAULT);
  EXPECT_EQ(due_, 1) << "it has stopped changing";

  look();
  while (due_ == 1) {
    write("server: {}  # " + std::to_string(++versions));
    uv_run(&loop_, UV_RUN_NOWAIT);
  }
}

TEST_F(ConfigReloaderTest, TellsOfTheLastReload) {
  const struct {
    Text text;
    bool ok;
    const char* finding;
  } steps[] = {
      {"server: { listen: 7 }\n", false, "server.listen"},
      {"mesh: { ttl: x }\n", false, "mesh.ttl"},
      {"server: {}\n", true, ""},
      {{}, false, "No such file"},
      {"server: { cookies: { secrets: x } }\n", false, "secrets"},
      {"mesh: {}\n", true, ""},
  };
  std::uint64_t reloads = 0;
  std::uint64_t failures = 0;
  for (const auto& step : steps) {
    SCOPED_TRACE(step.text.value_or("no file"));
    write(step.text);
    EXPECT_EQ(reloader_.read().has_value(), step.ok);
    const ReloadStatus& status = reloader_.status();
    EXPECT_EQ(status.ok, step.ok);
    EXPECT_EQ(status.reloads, ++reloads);
    EXPECT_EQ(status.failures, failures += step.ok ? 0 : 1);
    EXPECT_EQ(status.last_success_unix != 0, reloads > failures);
    if (step.ok)
      EXPECT_THAT(status.findings, IsEmpty());
    else
      EXPECT_THAT(status.findings, ElementsAre(HasSubstr(step.finding)));
  }
}

}  // namespace
}  // namespace meshdns::dnsd
