// What the system may run out of, as long as one of these lives.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

namespace meshdns::dnsd::test {

// The process may open so many descriptors more; with none, not even one for one that it closes.
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
  ~FewDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  FewDescriptors(const FewDescriptors&) = delete;
  FewDescriptors& operator=(const FewDescriptors&) = delete;

 private:
  rlimit before_{};
};

// send() on UDP sockets fails with ENOBUFS, as where the interface's queue is full.
class FullSendBuffers {
 public:
  FullSendBuffers();
  ~FullSendBuffers();
  FullSendBuffers(const FullSendBuffers&) = delete;
  FullSendBuffers& operator=(const FullSendBuffers&) = delete;
};

}  // namespace meshdns::dnsd::test
