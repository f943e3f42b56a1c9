// SPDX-License-Identifier: Apache-2.0
// A port that somebody has for himself.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "dnsd/config/socket_address.hpp"
#include "registry/base/file_descriptor.hpp"

namespace meshdns::dnsd::test {

// Has a UDP port of 127.0.0.1 without SO_REUSEPORT, so that nobody else can bind it.
class TakenPort {
 public:
  TakenPort() {
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof name;
    EXPECT_EQ(::bind(socket_.get(), reinterpret_cast<sockaddr*>(&name), size), 0);
    EXPECT_EQ(::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&name), &size), 0);
    address_ = {*IpAddress::parse("127.0.0.1"), ntohs(name.sin_port), ""};
  }

  const SocketAddress& address() const { return address_; }
  void release() { socket_ = FileDescriptor(); }

 private:
  FileDescriptor socket_{::socket(AF_INET, SOCK_DGRAM, 0)};
  SocketAddress address_;
};

}  // namespace meshdns::dnsd::test
