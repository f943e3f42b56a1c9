// SPDX-License-Identifier: Apache-2.0
#include "dnsd/daemon/memory_limit.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "registry/base/file_descriptor.hpp"

namespace meshdns::dnsd {
namespace {

constexpr std::size_t kPage = 4096;

std::vector<MemoryRange> ranges_of(const std::string& smaps) {
  std::istringstream stream(smaps);
  return unchanged_file_mappings(stream);
}

TEST(StartMemoryTest, FindsMappingsOfFilesThatCannotBeWrittenAndHaveNoPageOfTheirOwn) {
  EXPECT_EQ(
      ranges_of("55d0a000-55d0c000 r-xp 0002e000 fe:00 77      /usr/bin/with space\n"
                "Rss:                   8 kB\nAnonymous:             0 kB\nVmFlags: rd ex mr\n"
                "7f0000000000-7f0000001000 r--p 00000000 fe:00 78      /usr/lib/libc.so.6\n"
                "Anonymous:             0 kB\n"),
      (std::vector<MemoryRange>{{0x55d0a000, 0x2000}, {0x7f0000000000, 0x1000}}));
}

TEST(StartMemoryTest, LeavesOtherMappingsAlone) {
  const std::string none = "\nAnonymous:             0 kB\n";
  const std::string mapping = "1000-2000 r--p 00000000 fe:00 78      /usr/lib/a.so";
  ASSERT_EQ(ranges_of(mapping + none).size(), 1U);
  EXPECT_EQ(ranges_of(mapping + "\nAnonymous:             4 kB\n").size(), 0U);
  EXPECT_EQ(ranges_of(mapping + "\nAnonymous:").size(), 0U);
  EXPECT_EQ(ranges_of("1000-2000 rw-p 00000000 fe:00 78      /usr/lib/a.so" + none).size(), 0U);
  EXPECT_EQ(ranges_of("1000-2000 r--s 00000000 fe:00 78      /var/lib/a" + none).size(), 0U);
  EXPECT_EQ(ranges_of("1000-2000 r-xp 00000000 00:00 0       [vdso]" + none).size(), 0U);
  EXPECT_EQ(ranges_of("1000-2000 r--p 00000000 00:00 0" + none).size(), 0U);
  EXPECT_EQ(ranges_of("no mapping" + none).size(), 0U);
}

class TickTest : public testing::Test {
 protected:
  TickTest() {
    std::string name = testing::TempDir() + "start_memory_XXXXXX";
    file_ = FileDescriptor(mkstemp(name.data()));
    ::unlink(name.c_str());
    EXPECT_EQ(::write(file_.get(), std::string(2 * kPage, 'x').data(), 2 * kPage),
              static_cast<ssize_t>(2 * kPage));
  }
  // Two pages that may be read.
  volatile char* map() const {
    void* const at = mmap(nullptr, 2 * kPage, PROT_READ, MAP_PRIVATE, file_.get(), 0);
    return static_cast<volatile char*>(at);
  }
  // KiB of the mapping at `at` that are in memory.
  static int resident(const volatile char* at) {
    std::ostringstream start;
    start << std::hex << reinterpret_cast<std::uintptr_t>(at) << "-";
    std::ifstream smaps("/proc/self/smaps");
    bool is_it = false;
    for (std::string line; std::getline(smaps, line);) {
      if (line.starts_with(start.str())) is_it = true;
      if (is_it && line.starts_with("Rss:")) return std::atoi(line.c_str() + 4);
    }
    return -1;
  }

  FileDescriptor file_;
};

TEST_F(TickTest, GivesBackPagesOnceAndTheyCanBeReadAgain) {
  volatile char* const pages = map();
  EXPECT_EQ(pages[kPage], 'x');
  ASSERT_GT(resident(pages), 0);
  StartMemory memory;
  for (int second = 0; second < 11; ++second) memory.tick();
  EXPECT_GT(resident(pages), 0);
  memory.tick();
  EXPECT_EQ(resident(pages), 0);
  EXPECT_EQ(pages[kPage], 'x');
  for (int second = 0; second < 20; ++second) memory.tick();
  EXPECT_GT(resident(pages), 0);
  munmap(const_cast<char*>(pages), 2 * kPage);
}

TEST_F(TickTest, KeepsAPageThatDiffersFromItsFile) {
  volatile char* const pages = map();
  void* const at = const_cast<char*>(pages);
  ASSERT_EQ(mprotect(at, 2 * kPage, PROT_READ | PROT_WRITE), 0);
  pages[0] = 'y';
  ASSERT_EQ(mprotect(at, 2 * kPage, PROT_READ), 0);
  StartMemory memory;
  for (int second = 0; second < 12; ++second) memory.tick();
  EXPECT_EQ(pages[0], 'y');
  munmap(at, 2 * kPage);
}

}  // namespace
}  // namespace meshdns::dnsd
