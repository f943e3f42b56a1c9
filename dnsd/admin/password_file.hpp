// SPDX-License-Identifier: Apache-2.0
// The names and passwords of clients of an HTTP server.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "registry/base/result.hpp"

namespace meshdns::dnsd {

// The name and the password that a client sends (RFC 7617).
struct Credentials {
  std::string user;
  std::string password;
};

// Lines "NAME:HASH" as `htpasswd -nB NAME` prints them; blank lines and lines that begin with "#"
// count for nothing.  Immutable; any thread.
class PasswordFile {
 public:
  static constexpr std::size_t kMaxUsers = 64;
  // A check of a bcrypt hash takes twice as long with each step of its cost, and about a second
  // with this one.
  static constexpr int kMaxCost = 14;

  // An Error ("line 3: reason") where a line has no name or no hash that we take: bcrypt, or
  // SHA-512 crypt ("$6$") of at most 100,000 rounds.  One without any name is an error, too.
  static Result<PasswordFile> parse(std::string_view text);
  static Result<PasswordFile> read(const std::string& path);

  // Whether the password is that of the user.  Takes long on purpose, and as long for a user that
  // does not exist; the comparison takes as long wherever the difference is.
  bool admits(const Credentials& credentials) const;

 private:
  struct User {
    std::string name;
    std::string hash;
  };
  std::vector<User> users_;
};

}  // namespace meshdns::dnsd
