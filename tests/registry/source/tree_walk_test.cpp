// SPDX-License-Identifier: Apache-2.0
// Writes wake a source if they are to its own files, and not otherwise.
#include "registry/source/tree_walk.hpp"

#include <gtest/gtest.h>
#include <sys/inotify.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "registry/base/file_descriptor.hpp"

namespace meshdns::registry {
namespace {

class TreeWalkTest : public testing::Test {
 protected:
  TreeWalkTest() : inotify_(inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {
    std::string pattern = testing::TempDir() + "tree_walk_XXXXXX";
    directory_ = mkdtemp(pattern.data());
    std::filesystem::create_directory(directory_ / "resources");
    write("resources/first.yaml");
    write("daemon.log");
  }
  ~TreeWalkTest() override { std::filesystem::remove_all(directory_); }

  void walk(const std::string& path) {
    FileSourceOptions options;
    options.path = directory_ / path;
    walk_tree(options, inotify_.get());
  }
  void write(const std::string& path) {
    std::ofstream(directory_ / path, std::ios::app) << "a line\n";
    written_.insert(std::filesystem::path(path).filename());
  }
  // Whether events about files of this test are waiting; they are read.  The directories above are
  // watched, too, and other programs use those.
  bool is_woken() {
    bool woken = false;
    alignas(inotify_event) std::array<char, 4'096> events;
    for (ssize_t size = 0; (size = read(inotify_.get(), events.data(), events.size())) > 0;)
      for (std::size_t at = 0; at < static_cast<std::size_t>(size);) {
        inotify_event event{};
        std::memcpy(&event, events.data() + at, sizeof event);
        const std::string name = event.len > 0 ? events.data() + at + sizeof event : "";
        // Events of a watched file have no name.
        woken |= written_.contains(name) || (event.mask & (IN_MODIFY | IN_CLOSE_WRITE)) != 0;
        at += sizeof event + event.len;
      }
    return woken;
  }

  std::filesystem::path directory_;
  std::set<std::string> written_{"resources", "current"};

 private:
  FileDescriptor inotify_;
};

TEST_F(TreeWalkTest, AFileThatIsWrittenBesideADirectoryWakesNobody) {
  walk("resources");
  write("daemon.log");
  EXPECT_FALSE(is_woken());
  write("resources/first.yaml");
  EXPECT_TRUE(is_woken());
  std::filesystem::rename(directory_ / "resources", directory_ / "former");
  EXPECT_TRUE(is_woken());
}

TEST_F(TreeWalkTest, AFileThatIsWrittenBesideALinkToADirectoryWakesNobody) {
  std::filesystem::create_directory(directory_ / "links");
  std::filesystem::create_symlink("../resources", directory_ / "links/current");
  write("links/daemon.log");
  walk("links/current");
  write("links/daemon.log");
  EXPECT_FALSE(is_woken());
  write("resources/first.yaml");
  EXPECT_TRUE(is_woken());
  std::filesystem::remove(directory_ / "links/current");
  EXPECT_TRUE(is_woken());
}

TEST_F(TreeWalkTest, AThousandWritesBesideASingleFileWakeNobody) {
  std::filesystem::create_symlink("resources/first.yaml", directory_ / "current.yaml");
  write("resources/daemon.log");
  for (const char* path : {"resources/first.yaml", "current.yaml"}) {
    walk(path);
    EXPECT_FALSE(is_woken()) << path;
    for (int i = 0; i < 1'000; ++i) {
      write("daemon.log");
      write("resources/daemon.log");
    }
    EXPECT_FALSE(is_woken()) << path;
  }
}

TEST_F(TreeWalkTest, WritesToAFileAndToTheTargetOfALinkAreHeard) {
  std::filesystem::create_directory(directory_ / "links");
  std::filesystem::create_symlink("../resources/first.yaml", directory_ / "links/current.yaml");
  for (const char* path : {"resources/first.yaml", "links/current.yaml"}) {
    walk(path);
    write("resources/first.yaml");
    EXPECT_TRUE(is_woken()) << path;
  }
}

TEST_F(TreeWalkTest, AFileThatReplacesAnotherIsHeardOf) {
  walk("resources/first.yaml");
  write("resources/next");
  EXPECT_TRUE(is_woken());
  std::filesystem::rename(directory_ / "resources/next", directory_ / "resources/first.yaml");
  EXPECT_TRUE(is_woken());
  walk("resources/first.yaml");
  write("resources/first.yaml");
  EXPECT_TRUE(is_woken());
}

TEST_F(TreeWalkTest, WritesBesideAMissingFileWakeUntilItIsThere) {
  walk("later.yaml");
  write("later.yaml");
  EXPECT_TRUE(is_woken());
  write("daemon.log");
  EXPECT_TRUE(is_woken());
  walk("later.yaml");
  write("daemon.log");
  EXPECT_FALSE(is_woken());
  write("later.yaml");
  EXPECT_TRUE(is_woken());
}

TEST_F(TreeWalkTest, WritesToTheTargetsOfManyLinksAreHeard) {
  std::filesystem::create_directory(directory_ / "links");
  for (int i = 0; i < 300; ++i) {
    const std::string name = std::to_string(i) + ".yaml";
    write("targets-" + name);
    std::filesystem::create_symlink("../targets-" + name, directory_ / "links" / name);
  }
  walk("links");
  for (int i = 0; i < 300; ++i) {
    write("targets-" + std::to_string(i) + ".yaml");
    EXPECT_TRUE(is_woken()) << i;
  }
}

}  // namespace
}  // namespace meshdns::registry
