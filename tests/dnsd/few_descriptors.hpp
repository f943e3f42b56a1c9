// SPDX-License-Identifier: Apache-2.0
// A process that runs out of file descriptors.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

namespace meshdns::dnsd::test {

// As long as it lives, the process may open so many descriptors more; with none, not even one for
// one that it closes.
class FewDescriptors {
 public:
  explicit FewDescriptors(rlim_t left) {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    const int lowest_free = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    ::close(lowest_free);
    rlimit tight = before_;
    tight.rlim_cur = left == 0 ? 0 : static_cast<rlim_t>(lowest_free) + left;
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &tight), 0);
  }
  ~FewDescriptors() { EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before_), 0); }
  FewDescriptors(const FewDescriptors&) = delete;
  FewDescriptors& operator=(const FewDescriptors&) = delete;

 private:
  rlimit before_{};
};

}  // namespace meshdns::dnsd::test
