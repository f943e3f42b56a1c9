// SPDX-License-Identifier: Apache-2.0
// An HTTP client for the admin endpoint of a running daemon.  Only admin_client.cpp knows libcurl.
#pragma once

#include <chrono>
#include <expected>
#include <string>
#include <utility>
#include <vector>

#include "dnsd/config/admin_address.hpp"
#include "registry/base/result.hpp"

namespace meshdns::dnsd {

// The user of the packaged service.
inline constexpr const char* kServiceUser = "meshdns";

struct AdminReply {
  long status = 0;
  std::string body;
};

// Returns the addresses in the order in which a command tries them: Unix sockets first, which allow
// changes without a token.
std::vector<AdminAddress> in_order_of_use(std::vector<AdminAddress> addresses);

// The text of {"error": ...}, or the body; without line breaks at its end.
std::string error_text(const AdminReply& reply);

struct AdminFailure : Error {
  bool is_absent = false;  // no process listens at the address
};
using AdminResult = std::expected<AdminReply, AdminFailure>;

class AdminClient {
 public:
  static constexpr std::chrono::milliseconds kReplyLimit{15'000};

  // `token` may be empty; the Unix socket needs none, and does not get it.  `limit`: of each
  // request.
  AdminClient(AdminAddress address, std::string token,
              std::chrono::milliseconds limit = kReplyLimit)
      : address_(std::move(address)), token_(std::move(token)), limit_(limit) {}

  // Sends one request and waits for the whole reply.  `target` is the path and the query.  A
  // failure: no connection, no reply in time, or no HTTP; a reply of any status is none.  Below a
  // directory that every user may write to, such as /tmp, a Unix socket is asked only if its
  // process is of root, of the caller or of the user meshdns: another user may have had the path
  // first.
  AdminResult get(const std::string& target) const { return send(target, false); }
  AdminResult post(const std::string& target) const { return send(target, true); }

  const AdminAddress& address() const { return address_; }
  // False if requests that change something are refused in any case.
  bool may_change() const { return is_unix(address_) || !token_.empty(); }

 private:
  AdminResult send(const std::string& target, bool is_post) const;

  AdminAddress address_;
  std::string token_;
  std::chrono::milliseconds limit_;
};

}  // namespace meshdns::dnsd
