// SPDX-License-Identifier: Apache-2.0
// As much of a Kubernetes API server as lists and watches of a made-up cluster need, and fast
// enough that it is not what a run measures.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "tests/bench/changes/cluster.hpp"

namespace meshdns::bench {

class Api {
 public:
  // Listens on a free port of 127.0.0.1, for ever; each connection has a thread.
  // REQUIRES: the cluster is not changed while its slices are listed.
  Api(const Cluster& cluster, bool streams_lists);

  std::uint16_t port() const { return port_; }
  // To those who watch the slices.
  void send_modified(std::string_view slice);
  // Tells clients that watch the slices that their version is gone (410), so that they list again.
  void forget_history();

 private:
  struct Request;
  class Connection;

  void accept_all();
  void watch_slices(int socket);

  const Cluster& cluster_;
  const bool streams_lists_;
  int listener_ = -1;
  std::uint16_t port_ = 0;
  std::mutex mutex_;           // guards what is below
  std::vector<int> watchers_;  // sockets
};

}  // namespace meshdns::bench
