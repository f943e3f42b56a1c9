// SPDX-License-Identifier: Apache-2.0
#include "dnsd/daemon/troubles.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

namespace meshdns::dnsd {
namespace {

void note_unreadable(std::vector<std::string>& troubles, const char* key, const std::string& file) {
  if (!file.empty() && access(file.c_str(), R_OK) != 0)
    troubles.push_back(std::string(key) + ": cannot read " + file + ": " + std::strerror(errno));
}

// Why the server is of no use now; empty: it may answer.
std::string why_useless(const UpstreamServer& server, std::span<const UpstreamStatus> statuses) {
  const std::string name = server.to_string();
  const auto status = std::ranges::find(statuses, name, &UpstreamStatus::name);
  if (status == statuses.end()) return {};
  if (status->looped) return name + " sends our own queries back";
  if (status->health == Health::Down) return name + " is down: " + status->last_error;
  if (status->health == Health::Up && !status->failing_with.empty())
    return name + " answers nothing but " + std::string(status->failing_with);
  return {};
}

void note_useless(std::vector<std::string>& troubles, const std::string& zone,
                  const std::vector<UpstreamServer>& servers,
                  std::span<const UpstreamStatus> statuses) {
  std::string reasons;
  for (const UpstreamServer& server : servers) {
    const std::string why = why_useless(server, statuses);
    if (why.empty()) return;
    reasons += (reasons.empty() ? "" : "; ") + why;
  }
  if (!reasons.empty()) troubles.push_back(zone + ": no server answers: " + reasons);
}

}  // namespace

std::vector<std::string> file_troubles(const Config& config, const std::string& config_file,
                                       const std::string& state_dir) {
  std::vector<std::string> troubles;
  if (config.server.watch_config) note_unreadable(troubles, "config", config_file);
  note_unreadable(troubles, "hosts.file", config.hosts.file);
  note_unreadable(troubles, "server.cookies.secret_file", config.server.cookies.secret_file);
  note_unreadable(troubles, "admin.token_file", config.admin.token_file);
  note_unreadable(troubles, "upstream.tls.ca_file", config.upstream.tls_ca_file);
  if (!state_dir.empty() && access(state_dir.c_str(), W_OK | X_OK) != 0)
    troubles.push_back("state_dir: cannot write to " + state_dir + ": " + std::strerror(errno));
  return troubles;
}

std::vector<std::string> upstream_troubles(const UpstreamConfig& upstream,
                                           std::span<const UpstreamStatus> statuses) {
  std::vector<std::string> troubles;
  if (upstream.servers.empty() && !upstream.zones.contains(""))
    troubles.emplace_back(
        "upstream: neither upstream.servers nor /etc/resolv.conf names a server whose address is "
        "known");
  note_useless(troubles, "upstream", upstream.servers, statuses);
  for (const auto& [zone, servers] : upstream.zones)
    note_useless(troubles, "upstream.zones " + (zone.empty() ? "." : zone), servers, statuses);
  return troubles;
}

std::string refused_objects(const std::map<std::string, std::vector<registry::Finding>>& findings) {
  std::size_t count = 0;
  const registry::Finding* first = nullptr;
  for (const auto& [origin, of_origin] : findings)
    for (const registry::Finding& finding : of_origin) {
      if (finding.severity != registry::Severity::Error) continue;
      if (first == nullptr) first = &finding;
      ++count;
    }
  if (first == nullptr) return {};
  return std::to_string(count) + (count == 1 ? " error" : " errors") +
         " in resources (/registry/findings); the first: " + first->to_string();
}

}  // namespace meshdns::dnsd
