// SPDX-License-Identifier: Apache-2.0
#include "dnsd/daemon/announcement.hpp"

#include <string>
#include <vector>

#include "dnsd/daemon/first_steps.hpp"
#include "dnsd/mesh/joined.hpp"

namespace meshdns::dnsd {

void Announcement::make_when_due() {
  if (announced_ == Announced::Ready || parts_.workers.size() == 0) return;
  const bool is_ready = parts_.sources.are_known();
  if (!is_ready && (announced_ == Announced::Serving ||
                    std::chrono::steady_clock::now() - started_ < kServingAnyway))
    return;
  const bool is_first = announced_ == Announced::Nothing;
  if (is_first) parts_.supervisor.ready(parts_.health.status_line());
  announced_ = is_ready ? Announced::Ready : Announced::Serving;
  if (is_ready)
    parts_.log.announce("ready: " + facts());
  else
    parts_.log.warn("not ready yet: " + facts(),
                    {{"reason", first_reason(parts_.health.readiness())}});
  if (!is_first) return;
  parts_.mesh.answers.begin();
  show_first_steps();
}

std::string Announcement::facts() const {
  const auto& snapshot = *parts_.mesh.registry.current();
  return "listen=" + joined(parts_.addresses.addresses()) +
         " workers=" + std::to_string(parts_.workers.size()) +
         " resources=" + std::to_string(snapshot.resources.size()) +
         " hosts=" + std::to_string(snapshot.hosts.size() + snapshot.wildcards.size()) +
         " admin=" + parts_.addresses.admin_address();
}

void Announcement::show_first_steps() const {
  const std::vector<SocketAddress> listen = parts_.addresses.addresses();
  if (!is_at_terminal() || parts_.config.log.format != LogFormat::Text || listen.empty()) return;
  parts_.log.flush();
  show_at_terminal(
      first_steps(*parts_.mesh.registry.current(), listen, parts_.addresses.admin_address()));
}

}  // namespace meshdns::dnsd
