// SPDX-License-Identifier: Apache-2.0
#include "dnsd/links/bus_properties.hpp"

#include <utility>

namespace meshdns::dnsd {
namespace {

constexpr const char* kProperties = "org.freedesktop.DBus.Properties";

// The slot of a call whose argument is `text`, or two of them.
BusSlot call_properties(sd_bus* bus, const BusProperties::Object& object, const char* method,
                        const char* property, sd_bus_message_handler_t on_answer, void* user) {
  sd_bus_message* message = nullptr;
  int result = sd_bus_message_new_method_call(bus, &message, object.service, object.path,
                                              kProperties, method);
  if (result >= 0) result = sd_bus_message_append(message, "s", object.interface);
  if (result >= 0 && property != nullptr) result = sd_bus_message_append(message, "s", property);
  if (result >= 0) result = sd_bus_message_set_auto_start(message, 0);
  sd_bus_slot* slot = nullptr;
  if (result >= 0) result = sd_bus_call_async(bus, &slot, message, on_answer, user, 0);
  sd_bus_message_unref(message);
  return BusSlot(result >= 0 ? slot : nullptr);
}

}  // namespace

void BusProperties::follow(sd_bus* bus) {
  bus_ = bus;
  sd_bus_slot* slot = nullptr;
  if (sd_bus_match_signal_async(bus, &slot, object_.service, object_.changing_path, kProperties,
                                "PropertiesChanged", on_change, nullptr, this) >= 0)
    changes_.reset(slot);
  const std::string owner =
      "type='signal',sender='org.freedesktop.DBus',path='/org/freedesktop/DBus',"
      "interface='org.freedesktop.DBus',member='NameOwnerChanged',arg0='" +
      std::string(object_.service) + "'";
  if (sd_bus_add_match_async(bus, &slot, owner.c_str(), on_change, nullptr, this) >= 0)
    owner_.reset(slot);
  ask();
}

void BusProperties::ask() {
  if (bus_ != nullptr) call_ = call_properties(bus_, object_, "GetAll", nullptr, on_answer, this);
}

void BusProperties::forget() {
  call_.reset();
  owner_.reset();
  changes_.reset();
  bus_ = nullptr;
}

int BusProperties::on_change(sd_bus_message*, void* self, sd_bus_error*) {
  static_cast<BusProperties*>(self)->ask();
  return 0;
}

int BusProperties::on_answer(sd_bus_message* message, void* self, sd_bus_error*) {
  const bool failed = sd_bus_message_is_method_error(message, nullptr) > 0;
  static_cast<BusProperties*>(self)->on_reply_(failed ? nullptr : message);
  return 0;
}

BusSlot get_property(sd_bus* bus, const BusProperties::Object& object, const char* name,
                     sd_bus_message_handler_t on_answer, void* user) {
  return call_properties(bus, object, "Get", name, on_answer, user);
}

int read_properties(sd_bus_message* message, const ReadProperty& read) {
  int result = sd_bus_message_enter_container(message, 'a', "{sv}");
  while (result >= 0 && (result = sd_bus_message_enter_container(message, 'e', "sv")) > 0) {
    const char* name = nullptr;
    result = sd_bus_message_read(message, "s", &name);
    if (result >= 0) result = read(name, message);
    if (result >= 0) result = sd_bus_message_exit_container(message);
  }
  if (result >= 0) result = sd_bus_message_exit_container(message);
  return result;
}

int read_array(sd_bus_message* message, const char* element, const std::function<int()>& read) {
  const std::string array = std::string("a") + element;
  int result = sd_bus_message_enter_container(message, 'v', array.c_str());
  if (result >= 0) result = sd_bus_message_enter_container(message, 'a', element);
  while (result >= 0 && (result = sd_bus_message_at_end(message, 0)) == 0) result = read();
  if (result >= 0) result = sd_bus_message_exit_container(message);
  if (result >= 0) result = sd_bus_message_exit_container(message);
  return result;
}

}  // namespace meshdns::dnsd
