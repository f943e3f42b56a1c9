// SPDX-License-Identifier: Apache-2.0
#include "dnsd/cli/daemon_question.hpp"

#include "dnsd/cli/admin_client.hpp"
#include "dnsd/config/load.hpp"
#include "registry/base/percent_encoding.hpp"

namespace meshdns::dnsd {
namespace {

Result<std::string> body_of(Result<AdminReply>&& reply) {
  if (!reply) return std::unexpected(reply.error());
  if (reply->status != 200) return fail("status " + std::to_string(reply->status));
  return std::move(reply->body);
}

}  // namespace

Result<std::string> explanation_of_daemon(const Config& config, std::string_view name,
                                          std::string_view type, std::string_view from) {
  if (!config.admin.listen) return fail("admin.listen is off");
  const AdminClient daemon(*config.admin.listen, "");
  const auto none = [&](const std::string& reason) {
    return fail("no daemon to ask at " + to_string(daemon.address()) + ": " + reason);
  };
  const auto running = body_of(daemon.get("/config"));
  if (!running) return none(running.error().message);
  if (!is_json_of(config, *running)) return none("it has another configuration");
  auto lines = body_of(daemon.get("/explain?format=text&name=" + percent_encoded(name) + "&type=" +
                                  percent_encoded(type) + "&from=" + percent_encoded(from)));
  if (!lines) return none(lines.error().message);
  return lines;
}

}  // namespace meshdns::dnsd
