// SPDX-License-Identifier: Apache-2.0
// Lookups through c-ares on libuv.
//
// c-ares 1.18.1 sends all queries of a channel to a server from one UDP port, retries with the ID
// of the first try, and compares names without their case. That would make it worth while to guess
// a reply. So each try, of each server, has a channel of its own: a fresh socket, and with it a
// port of the kernel's choice; and the query is our own, with a fresh ID and fresh upper and lower
// case from the kernel's random numbers ("0x20"), and with a cookie. Datagrams reach c-ares only if
// they repeat the question exactly, and the cookie if the server knows cookies. c-ares does what it
// is good at: time-outs, TCP after truncation, checks of the sender.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "registry/base/result.hpp"
#include "resolver/lookup.hpp"
#include "resolver/server_cookies.hpp"

struct uv_loop_s;  // NOLINT(readability-identifier-naming): libuv's name

namespace meshdns::resolver {

struct CaresOptions {
  // The servers to ask for `host`, best first, as "10.0.0.53:53", "[2001:db8::1]:53" or
  // "[fe80::1%eth0]:53"; conditional zones are decided here.  Text that is none of these is
  // skipped.
  std::function<std::vector<std::string>(std::string_view host)> servers_for;
  std::chrono::milliseconds timeout{2'000};  // of a whole lookup, all tries included
  ServerCookies* cookies = nullptr;  // null = none are sent.  REQUIRES: outlives the lookups
};

class ServerHabits;

// Control thread.  `loop` must run on for the handles to close after destruction.
class CaresLookups final : public Lookups {
 public:
  // An Error when the library cannot be initialised.
  static Result<std::unique_ptr<CaresLookups>> open(uv_loop_s* loop, CaresOptions options);
  ~CaresLookups() override;

  // For lookups that start from now on.
  void reconfigure(CaresOptions options);

  std::unique_ptr<Lookup> start(const std::string& host, Family family,
                                LookupCallback callback) override;

 private:
  CaresLookups(uv_loop_s* loop, CaresOptions options);

  uv_loop_s* loop_;
  CaresOptions options_;
  std::shared_ptr<ServerHabits> habits_;
};

}  // namespace meshdns::resolver
