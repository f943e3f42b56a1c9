// SPDX-License-Identifier: Apache-2.0
#include "dnsd/daemon/upstream_in_use.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <string>
#include <utility>

#include "dnsd/config/resolv_conf.hpp"
#include "dnsd/mesh/server_names.hpp"

namespace meshdns::dnsd {
namespace {

constexpr std::chrono::milliseconds kResolvConfPoll{2'000};

std::string describe(const std::vector<UpstreamServer>& servers) {
  std::string text;
  for (const UpstreamServer& server : servers)
    text += (text.empty() ? "" : ", ") + server.to_string();
  return text.empty() ? "none" : text;
}

// "corp.example: 10.8.0.1:53, 10.8.0.2:53; ..."
std::string describe(const std::map<std::string, std::vector<UpstreamServer>>& zones) {
  std::string text;
  for (const auto& [zone, servers] : zones)
    text += (text.empty() ? "" : "; ") + zone + ": " + describe(servers);
  return text.empty() ? "none" : text;
}

std::map<std::string, std::vector<UpstreamServer>> link_zones(const UpstreamConfig& upstream) {
  auto zones = upstream.zones;
  std::erase_if(zones, [&](const auto& zone) { return !upstream.link_zones.contains(zone.first); });
  return zones;
}

}  // namespace

UpstreamConfig UpstreamInUse::select(std::span<const SocketAddress> listening,
                                     std::string& warning) {
  for (std::size_t i = 0; i < files_.size(); ++i) versions_[i] = FileVersion::of(files_[i]);
  UpstreamConfig next = effective_upstream(config_, listening, &warning, files_);
  if (names_ != nullptr) names_->fill_in(next);
  if (config_.upstream.servers.empty()) add_link_routes(next, links_.routes(), listening);
  return next;
}

SystemResolver UpstreamInUse::system(std::span<const SocketAddress> listening) const {
  Config config = config_;
  config.upstream.servers.clear();
  std::string warning;
  SystemResolver system{effective_upstream(config, listening, &warning, files_), {}};
  if (system.upstream.servers.empty())
    std::ranges::copy_if(config_.upstream.servers, std::back_inserter(system.upstream.servers),
                         [](const UpstreamServer& server) { return server.host.empty(); });
  if (auto parsed = read_resolv_conf(files_.front())) system.search = std::move(parsed->search);
  return system;
}

void UpstreamInUse::choose(std::span<const SocketAddress> listening) {
  std::string warning;
  take(select(listening, warning));
  if (!warning.empty()) log_.warn(warning);
}

void UpstreamInUse::follow(std::span<const SocketAddress> listening) {
  if (loop_ != nullptr) follow_links();
  std::string warning;
  UpstreamConfig next = select(listening, warning);
  if (!warning.empty()) log_.write_folded(LogLevel::Warn, warning);
  // A resolv.conf that is being rewritten may name no server for a moment: keep the known ones.
  if (next.servers.empty() && !current_.servers.empty() && config_.upstream.servers.empty()) {
    next.servers = current_.servers;
    next.servers_file = current_.servers_file;
  }
  take(std::move(next));
}

void UpstreamInUse::take(UpstreamConfig&& next) {
  const UpstreamConfig before = std::exchange(current_, std::move(next));
  const std::string from =
      current_.servers_file.empty() ? "upstream.servers" : current_.servers_file;
  if (current_.servers != before.servers || current_.zones != before.zones)
    log_.info("upstream servers in use", {{"servers", describe(current_.servers)},
                                          {"from", from},
                                          {"zones", describe(current_.zones)}});
  if (const auto links = link_zones(current_); links != link_zones(before))
    log_.info("domains of the network links have changed", {{"zones", describe(links)}});
}

void UpstreamInUse::watch(uv_loop_t* loop, std::function<void()> on_change) {
  loop_ = loop;
  on_change_ = std::move(on_change);
  const auto on_file_change = [this] {
    if (!config_.upstream.servers.empty()) return;
    links_.ask_again();
    on_change_();
  };
  for (std::size_t i = 0; i < polls_.size(); ++i)
    start_or_log(polls_[i], loop, files_[i], kResolvConfPoll, versions_[i], on_file_change, log_);
  follow_links();
}

void UpstreamInUse::follow_links() {
  const bool is_wanted = config_.upstream.servers.empty();
  if (is_wanted == links_.is_running()) return;
  if (is_wanted)
    links_.start(loop_, [this] { on_change_(); });
  else
    links_.stop();
}

void UpstreamInUse::stop() {
  for (FilePoll& poll : polls_) poll.close();
  links_.stop();
  loop_ = nullptr;
}

}  // namespace meshdns::dnsd
