// SPDX-License-Identifier: Apache-2.0
#include "registry/manifest/check.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "registry/manifest/name_table.hpp"

namespace meshdns::registry {
namespace {

class CheckTest : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = testing::TempDir() + "meshdns-check-" + std::to_string(getpid());
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directories(directory_);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  void write(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = directory_ + "/" + name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  std::string check(const std::string& name, Checker::Reader reader = read_manifest) {
    std::string out;
    Checker checker({}, [&](const Finding& finding) {
      std::string line = finding.to_string();
      line.erase(0, line.starts_with(directory_) ? directory_.size() + 1 : 0);
      out += line + "\n";
    });
    checker.check(directory_ + name, reader);
    summary_ = checker.summary();
    return out;
  }

  std::string directory_;
  CheckSummary summary_;
};

std::string headless_service(const std::string& name) {
  return "apiVersion: v1\nkind: Service\nmetadata: {name: " + name + "}\nspec: {clusterIP: None}\n";
}

TEST_F(CheckTest, WalksDirectoriesInOrder) {
  write("a.yaml", headless_service("a"));
  write("b/c.yml", headless_service("c") + "---\n" + headless_service("d") + "---\n" +
                       headless_service("Bad"));
  write("b/d.json", R"({"apiVersion":"v1","kind":"Namespace","metadata":{"name":"n"},"x":1})");
  write("b/.hidden.yaml", "nonsense");
  write(".data/e.yaml", "nonsense");
  write("notes.txt", "nonsense");
  EXPECT_EQ(check(""),
            "b/c.yml:13: error: Service default/Bad: metadata.name: \"Bad\" is not a name of 1 "
            "to 63 lower-case letters, digits and inner hyphens\n"
            "b/d.json:1: warning: Namespace n: x: unknown field\n");
  EXPECT_EQ(summary_.to_string(), "5 resources, 1 errors, 1 warnings");
  EXPECT_EQ(summary_.exit_status(), 1);
}

TEST_F(CheckTest, GoodFilesExitWithZero) {
  write("a.txt", headless_service("a"));
  EXPECT_EQ(check("/a.txt"), "") << "a file that is named is read whatever its name";
  EXPECT_EQ(summary_.to_string(), "1 resources, 0 errors, 0 warnings");
  EXPECT_EQ(summary_.exit_status(), 0);
}

TEST_F(CheckTest, SameObjectInTwoFilesIsAWarning) {
  write("a.yaml", headless_service("a"));
  write("b.yaml", "# twice\n" + headless_service("a"));
  EXPECT_EQ(check(""), "b.yaml:2: warning: Service default/a: also defined at " + directory_ +
                           "/a.yaml:1; only one of them is used\n");
  EXPECT_EQ(summary_.exit_status(), 0);
}

TEST_F(CheckTest, UnreadableFilesExitWithTwo) {
  EXPECT_EQ(check("/absent.yaml"),
            "absent.yaml: error: cannot be read: No such file or directory\n");
  EXPECT_EQ(summary_.exit_status(), 2);
  ASSERT_EQ(mkfifo((directory_ + "/pipe.yaml").c_str(), 0600), 0);
  EXPECT_EQ(check("/pipe.yaml"),
            "pipe.yaml: error: cannot be read: neither a file nor a directory\n");
  EXPECT_EQ(summary_.exit_status(), 2);
}

TEST_F(CheckTest, EndsOnCircularLinks) {
  write("a/a.yaml", headless_service("a"));
  std::filesystem::create_directory_symlink(directory_, directory_ + "/a/loop");
  check("");
  EXPECT_TRUE(summary_.cannot_run);
}

TEST_F(CheckTest, UsesTheGivenReader) {
  write("ndsz.json", R"({"table": {"a.example.org": {"ips": ["10.0.0.1"]}}})");
  EXPECT_EQ(check("/ndsz.json", read_name_table), "");
  EXPECT_EQ(summary_.to_string(), "1 resources, 0 errors, 0 warnings");
}

}  // namespace
}  // namespace meshdns::registry
