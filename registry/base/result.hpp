// SPDX-License-Identifier: Apache-2.0
// Errors as values.  Everything that the world can do to us (a packet, a file, an API event) comes
// back as a Result; assert is for what we promised ourselves.
#pragma once

#include <expected>
#include <string>
#include <utility>

namespace meshdns {

// The message of a failure, for operators: place, object, field, remedy.
struct Error {
  std::string message;
};

template <typename T>
using Result = std::expected<T, Error>;

inline std::unexpected<Error> fail(std::string message) {
  return std::unexpected(Error{std::move(message)});
}

}  // namespace meshdns
