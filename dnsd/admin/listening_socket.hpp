// SPDX-License-Identifier: Apache-2.0
// The socket on which the admin endpoint listens.
#pragma once

#include "dnsd/config/admin_address.hpp"
#include "registry/base/result.hpp"

namespace meshdns::dnsd {

// A listening stream socket and, for port 0, the port that the kernel chose.  Owned; a Unix socket
// is removed from the file system with it, if it is still the one that was made here.
class ListeningSocket {
 public:
  // An Error says the address and why.
  static Result<ListeningSocket> open(const AdminAddress& address, int backlog);
  ~ListeningSocket();
  ListeningSocket(ListeningSocket&& other) noexcept;
  ListeningSocket& operator=(ListeningSocket&&) = delete;

  int fd() const { return fd_; }
  const AdminAddress& address() const { return address_; }

 private:
  ListeningSocket(int fd, AdminAddress address) : fd_(fd), address_(std::move(address)) {}
  Result<void> bind_to(const SocketAddress& address);
  Result<void> bind_to(const UnixAddress& address);
  std::unexpected<Error> refuse(const char* what) const;

  int fd_ = -1;
  AdminAddress address_;
  unsigned long inode_ = 0;  // of the Unix socket; 0 = none to remove
};

}  // namespace meshdns::dnsd
