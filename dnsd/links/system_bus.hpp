// SPDX-License-Identifier: Apache-2.0
// A connection to D-Bus's system bus in a libuv loop.
#pragma once

#include <systemd/sd-bus.h>

#include <functional>
#include <memory>

#include "registry/base/handle.hpp"

namespace meshdns::dnsd {

struct FreeBusSlot {
  void operator()(sd_bus_slot* slot) const { sd_bus_slot_unref(slot); }
};
// A call or a match.  Nothing comes of it after its end.
using BusSlot = std::unique_ptr<sd_bus_slot, FreeBusSlot>;

// The loop's thread only.  Connects again, after a pause, when there is no bus or it goes away.
// Callbacks of sd-bus must not close the bus.
class SystemBus {
 public:
  ~SystemBus() { close(); }

  // Calls `on_open` for each connection, before anything is sent, and `on_lost` at its end.
  void open(uv_loop_t* loop, std::function<void(sd_bus*)> on_open, std::function<void()> on_lost);
  // Sends what was queued outside of callbacks of sd-bus.  Without a bus it does nothing.
  void turn();
  // Nothing is called after this.
  void close();

 private:
  struct CloseBus {
    void operator()(sd_bus* bus) const { sd_bus_close_unref(bus); }
  };

  void connect();
  bool watch();
  void lose();

  uv_loop_t* loop_ = nullptr;
  std::function<void(sd_bus*)> on_open_;
  std::function<void()> on_lost_;
  std::unique_ptr<sd_bus, CloseBus> bus_;
  int watched_ = -1;  // descriptor
  loop::Poll poll_;
  loop::Timer due_;  // what sd-bus waits for
  loop::Timer retry_;
};

}  // namespace meshdns::dnsd
