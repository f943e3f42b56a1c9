// SPDX-License-Identifier: Apache-2.0
// A port that somebody has for himself.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "registry/base/file_descriptor.hpp"
#include "registry/base/socket_address.hpp"

namespace meshdns::dnsd::test {

// Has a port of 127.0.0.1 for UDP and TCP without SO_REUSEPORT, so that nobody else can bind it.
class TakenPort {
 public:
  TakenPort() {
    // Another process may have the port of the other transport: then it is not free after
    // release().
    do {
      udp_ = FileDescriptor(::socket(AF_INET, SOCK_DGRAM, 0));
      tcp_ = FileDescriptor(::socket(AF_INET, SOCK_STREAM, 0));
      address_ = {*IpAddress::parse("127.0.0.1"), 0, ""};
      EXPECT_TRUE(bind(udp_));
    } while (!bind(tcp_));
  }

  const SocketAddress& address() const { return address_; }
  // The socket that receives what is sent to the port over UDP.
  int udp() const { return udp_.get(); }
  void release() {
    udp_ = FileDescriptor();
    tcp_ = FileDescriptor();
  }

 private:
  // Binds to the address; port 0 becomes the one that the kernel has chosen.
  bool bind(const FileDescriptor& socket) {
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_port = htons(address_.port);
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof name;
    if (::bind(socket.get(), reinterpret_cast<sockaddr*>(&name), size) != 0) return false;
    EXPECT_EQ(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&name), &size), 0);
    address_.port = ntohs(name.sin_port);
    return true;
  }

  FileDescriptor udp_;
  FileDescriptor tcp_;
  SocketAddress address_;
};

}  // namespace meshdns::dnsd::test
