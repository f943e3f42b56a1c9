// SPDX-License-Identifier: Apache-2.0
// The properties of an object of D-Bus, through their changes.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "dnsd/links/system_bus.hpp"

namespace meshdns::dnsd {

// The loop's thread only.
class BusProperties {
 public:
  struct Object {
    const char* service;
    const char* path;
    const char* interface;
    // The object whose changes count; null: all objects of the service.
    const char* changing_path = nullptr;
  };
  // The reply to GetAll, with type "a{sv}"; null: the service does not run.
  using Callback = std::function<void(sd_bus_message*)>;

  BusProperties(const Object& object, Callback on_reply)
      : object_(object), on_reply_(std::move(on_reply)) {}

  // Asks for the properties now, and whenever the service says that an object has changed, starts
  // or ends.  Never starts the service.
  void follow(sd_bus* bus);
  // Asks once more.  Without a bus it does nothing.
  void ask();
  // REQUIRES: called before the bus is closed.
  void forget();

 private:
  static int on_change(sd_bus_message* message, void* self, sd_bus_error* error);
  static int on_answer(sd_bus_message* message, void* self, sd_bus_error* error);

  const Object object_;
  const Callback on_reply_;
  sd_bus* bus_ = nullptr;
  BusSlot changes_;
  BusSlot owner_;
  BusSlot call_;
};

// Asks for one property.  The slot of the call; null if the bus is not usable.
BusSlot get_property(sd_bus* bus, const BusProperties::Object& object, const char* name,
                     sd_bus_message_handler_t on_answer, void* user);

// Calls `read` for each property of the reply to GetAll with its message at the value's variant;
// `read` reads or skips it.  Stops at the first that is not valid.
using ReadProperty = std::function<int(std::string_view name, sd_bus_message* message)>;
int read_properties(sd_bus_message* message, const ReadProperty& read);
// Calls `read` for each element of the array in the variant where the message is; `element` is the
// type of one.  Stops at the first that is not valid.
int read_array(sd_bus_message* message, const char* element, const std::function<int()>& read);

}  // namespace meshdns::dnsd
