// SPDX-License-Identifier: Apache-2.0
#include "dnsd/daemon/memory_limit.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace meshdns::dnsd {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMebibyte = std::uint64_t{1} << 20;
constexpr std::string_view kNoneV1 = "9223372036854771712\n";

class MemoryLimitTest : public testing::Test {
 public:
  MemoryLimitTest() {
    std::string name = (fs::temp_directory_path() / "meshdns-XXXXXX").string();
    root_ = ::mkdtemp(name.data());
  }
  ~MemoryLimitTest() override { fs::remove_all(root_); }

  void write(const fs::path& path, std::string_view text) const {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  std::optional<std::uint64_t> limit() const { return cgroup_memory_limit(root_); }

 private:
  fs::path root_;
};

TEST_F(MemoryLimitTest, ReadsTheGroupOfVersion2) {
  write("proc/self/cgroup", "0::/kubepods/pod1/c1\n");
  write("sys/fs/cgroup/kubepods/pod1/c1/memory.max", "134217728\n");
  EXPECT_EQ(limit(), 128 * kMebibyte);
}

TEST_F(MemoryLimitTest, ReadsTheGroupOfVersion1) {
  write("proc/self/cgroup", "9:cpu,cpuacct:/a\n4:hugetlb,memory:/a/b\n0::/a\n");
  write("sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "67108864\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", kNoneV1);
  EXPECT_EQ(limit(), 64 * kMebibyte);
}

TEST_F(MemoryLimitTest, TakesTheLowestOfAllAbove) {
  write("proc/self/cgroup", "0::/pods/pod1/c1\n");
  write("sys/fs/cgroup/pods/pod1/c1/memory.max", "max\n");
  write("sys/fs/cgroup/pods/pod1/memory.max", "1048576\n");
  write("sys/fs/cgroup/pods/memory.max", "2097152\n");
  EXPECT_EQ(limit(), kMebibyte);
}

// A container that sees the host's path and, below the mount, only its own group.
TEST_F(MemoryLimitTest, FindsItsOwnGroupAtTheRootOfWhatItSees) {
  write("proc/self/cgroup", "4:memory:/docker/0123abc\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "33554432\n");
  EXPECT_EQ(limit(), 32 * kMebibyte);
}

TEST_F(MemoryLimitTest, KnowsNoneWhereThereIsNone) {
  EXPECT_EQ(limit(), std::nullopt) << "no such files";
  write("proc/self/cgroup", "garbage\n\n::\n4:memory:/a\n0::/../b\n");
  write("sys/fs/cgroup/memory/a/memory.limit_in_bytes", kNoneV1);
  EXPECT_EQ(limit(), std::nullopt);
  for (const std::string_view text : {"", "max", "x", "-1", "0", "99999999999999999999999"}) {
    write("proc/self/cgroup", "0::/a\n");
    write("sys/fs/cgroup/a/memory.max", text);
    EXPECT_EQ(limit(), std::nullopt) << text;
  }
}

TEST(SizedCacheTest, IsAQuarterOfTheLimitUnlessItWasGiven) {
  CacheConfig config;
  EXPECT_EQ(sized_cache(config, std::nullopt).size_bytes, 64 * kMebibyte);
  EXPECT_EQ(sized_cache(config, 1024 * kMebibyte).size_bytes, 64 * kMebibyte);
  EXPECT_EQ(sized_cache(config, 128 * kMebibyte).size_bytes, 32 * kMebibyte);
  EXPECT_EQ(sized_cache(sized_cache(config, 128 * kMebibyte), 200 * kMebibyte).size_bytes,
            50 * kMebibyte)
      << "of the limit of now";
  config.has_default_size = false;
  EXPECT_EQ(sized_cache(config, 128 * kMebibyte).size_bytes, 64 * kMebibyte);
}

}  // namespace
}  // namespace meshdns::dnsd
