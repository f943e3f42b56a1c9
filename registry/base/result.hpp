// SPDX-License-Identifier: Apache-2.0
// Errors as values.  Failures outside the program (a packet, a file, an API event) are returned as
// a Result; assert is for the promises of the program.
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
