// SPDX-License-Identifier: Apache-2.0
// Decides which requests have a right password, without holding up a loop.
#pragma once

#include <uv.h>

#include <array>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "registry/base/result.hpp"

namespace meshdns::dnsd {

// The names and passwords of clients of an HTTP server.
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

  // Returns whether the password is that of the user.  Takes long on purpose, and as long for a
  // user that does not exist; the comparison takes as long wherever the difference is.
  bool admits(const Credentials& credentials) const;

 private:
  struct User {
    std::string name;
    std::string hash;
  };
  std::vector<User> users_;
};

// A check is slow on purpose, so it runs in libuv's thread pool, and one at a time: clients with
// wrong passwords get no more than one processor.  The gate remembers what was right, by digest,
// so a client that comes again with the same password costs nothing and waits for nobody.
//
// The loop's thread only.
class PasswordGate {
 public:
  static constexpr std::size_t kMaxWaiting = 16;
  static constexpr std::size_t kMaxRemembered = 16;
  using Verdict = std::move_only_function<void(bool is_right)>;

  // REQUIRES: the loop runs to its end after close(), and before the gate is destroyed.
  explicit PasswordGate(uv_loop_t* loop) : loop_(loop) {}
  PasswordGate(const PasswordGate&) = delete;
  PasswordGate& operator=(const PasswordGate&) = delete;

  // Null: nobody needs a password.
  void set_passwords(std::shared_ptr<const PasswordFile> passwords);
  bool needs_password() const { return passwords_ != nullptr; }
  bool remembers(const Credentials& credentials) const;
  // Calls `on_verdict` in a later turn of the loop.  Returns false, and does not call, when too
  // many wait.  REQUIRES: needs_password().
  bool check(Credentials credentials, Verdict on_verdict);
  // Forgets the checks that wait.
  void close();

 private:
  using Digest = std::array<unsigned char, 32>;
  struct Waiting {
    Credentials credentials;
    Verdict on_verdict;
  };
  struct Work;

  static Digest digest_of(const Credentials& credentials);
  void start_next();
  void finish(const Work& work);

  uv_loop_t* loop_;
  std::shared_ptr<const PasswordFile> passwords_;
  std::deque<Waiting> waiting_;  // the first one is being checked while is_checking_
  bool is_checking_ = false;
  std::deque<Digest> right_;
};

}  // namespace meshdns::dnsd
