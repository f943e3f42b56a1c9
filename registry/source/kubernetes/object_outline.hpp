// SPDX-License-Identifier: Apache-2.0
// The identity of an object, for messages about objects that cannot be read and for deletions.
#pragma once

#include <string_view>

#include "registry/manifest/document.hpp"

namespace meshdns::registry::kubernetes {

// Views into the text or the tree that they were taken from.
struct ObjectRef {
  std::string_view ns;
  std::string_view name;  // empty: not to be found
};

struct ObjectOutline {
  std::string_view event;  // "ADDED"; of an event only
  ObjectRef object;
  std::string_view resource_version;
};

ObjectRef ref_of(const Node& object);

// Of text that is no JSON, nests too deep or is the beginning of one that is too long: what its
// metadata says as far as strings and brackets can be followed.  Any text is safe; one pass,
// nothing recurses.  Escapes stay as they are: no name that the API knows has any.
ObjectOutline outline_of_object(std::string_view text);
// Of an event of a watch, which holds its object.
ObjectOutline outline_of_event(std::string_view text);

}  // namespace meshdns::registry::kubernetes
