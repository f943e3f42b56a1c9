// SPDX-License-Identifier: Apache-2.0
// The questions that the search for the worst queries asks.
#pragma once

#include <string>
#include <vector>

#include "resolver/wire/types.hpp"

namespace meshdns::bench {

using wire::Type;

struct Shape {
  std::string what;
  std::string name;
  Type type = Type::A;
  wire::Class qclass = wire::Class::In;
  std::string client = "127.0.0.1";
};

std::vector<Shape> shapes();

}  // namespace meshdns::bench
