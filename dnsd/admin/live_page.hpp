// SPDX-License-Identifier: Apache-2.0
// Sends the parts of the status page that change to browsers that show it, as server-sent events
// (HTML Living Standard, section 9.2).
#pragma once

#include <uv.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dnsd/admin/http_message.hpp"
#include "dnsd/admin/http_stream.hpp"
#include "registry/base/handle.hpp"

namespace meshdns::dnsd {

// Adds an event of that type with that text.
void add_event(std::string& stream, std::string_view type, std::string_view text);

// The control thread.
class LivePage {
 public:
  static constexpr std::size_t kMaxWatchers = 16;
  static constexpr std::chrono::milliseconds kInterval{2'000};

  // REQUIRES: `loop` outlives it.
  explicit LivePage(uv_loop_t* loop) : loop_(loop) {}
  ~LivePage() { close(); }
  LivePage(const LivePage&) = delete;
  LivePage& operator=(const LivePage&) = delete;

  // A stream of what `draw` returns, events in one text: now, and at each interval.  All watchers
  // get the same text, which is drawn once; 503 if there are too many.
  HttpResponse watch(std::function<std::string()> draw);
  // The daemon ends: so do the streams; new requests are refused.
  void close();

 private:
  void turn();

  uv_loop_t* loop_;
  loop::Timer timer_;
  std::function<std::string()> draw_;
  std::vector<std::shared_ptr<HttpStream>> watchers_;
  bool is_closed_ = false;
};

}  // namespace meshdns::dnsd
