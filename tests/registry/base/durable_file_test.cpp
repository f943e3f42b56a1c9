// SPDX-License-Identifier: Apache-2.0
#include "registry/base/durable_file.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace meshdns {
namespace {

namespace fs = std::filesystem;
using Octets = std::vector<std::uint8_t>;

class DurableFileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = fs::temp_directory_path() / "meshdns-durable-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    directory_ = name;
    path_ = directory_ / "file";
  }
  void TearDown() override { fs::remove_all(directory_); }
  void write(std::string_view text) const { std::ofstream(path_) << text; }
  // "": there is none; else the octets or the error.
  std::string read(std::size_t max_size = 100) const {
    const auto octets = read_octets(path_, max_size);
    if (!octets) return octets.error().message;
    return *octets ? "read " + std::string((*octets)->begin(), (*octets)->end()) : "";
  }

  fs::path directory_;
  std::string path_;
};

TEST_F(DurableFileTest, ReplacesAFileForItsOwnerAlone) {
  write("before");
  ASSERT_TRUE(write_durably(path_, Octets{'a', 'b'}));
  EXPECT_EQ(read(), "read ab");
  EXPECT_EQ(fs::status(path_).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_FALSE(fs::exists(path_ + ".new"));
}

TEST_F(DurableFileTest, LeavesTheOldFileWhenItIsNotCommitted) {
  write("before");
  {
    auto file = DurableFile::create(path_);
    ASSERT_TRUE(file && file->write(Octets{'a'}));
    EXPECT_TRUE(fs::exists(path_ + ".new"));
  }
  EXPECT_FALSE(fs::exists(path_ + ".new"));
  EXPECT_EQ(read(), "read before");
}

TEST_F(DurableFileTest, TellsAMissingFileFromAnEmptyOne) {
  EXPECT_EQ(read(), "");
  write("");
  EXPECT_EQ(read(), "read ");
}

TEST_F(DurableFileTest, ReadsFilesUpToTheLimit) {
  write("12345");
  EXPECT_EQ(read(5), "read 12345");
  EXPECT_EQ(read(4), path_ + ": the file is larger than 4 octets");
}

TEST_F(DurableFileTest, RefusesLinksAndFifosWithoutWaiting) {
  fs::create_symlink("elsewhere", path_);
  EXPECT_EQ(read(), "cannot read " + path_ + ": it is a symbolic link");
  fs::remove(path_);
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_EQ(read(), "cannot read " + path_ + ": it is not a regular file");
}

}  // namespace
}  // namespace meshdns
