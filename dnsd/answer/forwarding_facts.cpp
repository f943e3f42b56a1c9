// SPDX-License-Identifier: Apache-2.0
#include "dnsd/answer/forwarding_facts.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "registry/base/counted.hpp"
#include "resolver/wire/types.hpp"

namespace meshdns::dnsd {
namespace {

std::string seconds(Millis milliseconds) {
  return fmt::format("{} s", (milliseconds + 999) / 1000);
}

std::string describe_content(const CachedMessage& message) {
  if (message.kind() == MessageKind::Positive) return counted(message.answer_count(), "record");
  if (message.is_nodata()) return "no records of this type";
  std::string text(wire::to_string(message.rcode()));
  if (!message.ede_text().empty()) text += fmt::format(" ({})", message.ede_text());
  return text;
}

// " (answered 12 s ago by 10.0.0.53:53 over UDP)"; empty: no server answered.
std::string describe_origin(const CachedMessage& message, Millis now) {
  if (message.server().empty()) return {};
  if (message.carrier() == Carrier::SavedCache)
    return fmt::format(" (answered before the start by {})", message.server());
  const std::string_view carrier = to_string(message.carrier());
  return fmt::format(" (answered {} s ago by {}{}{})", message.age_at(now), message.server(),
                     carrier.empty() ? "" : " over ", carrier);
}

}  // namespace

std::string describe_entry(const Cache::Entry& entry, Millis now) {
  if (!entry.message) return "none; an upstream server is asked";
  const std::string content = describe_content(*entry.message);
  const std::string from = describe_origin(*entry.message, now);
  if (now < entry.fresh_until)
    return fmt::format("{}, for {} more{}", content, seconds(entry.fresh_until - now), from);
  const std::string past =
      fmt::format("{}, expired {} ago", content, seconds(now - entry.fresh_until));
  const std::string rest = seconds(entry.kept_until - now);
  if (entry.is_refresh_paused)
    return fmt::format("{}, answered stale for {} more: its refresh failed{}", past, rest, from);
  return fmt::format("{}, kept for {} more: answered stale if no upstream answers{}", past, rest,
                     from);
}

namespace {

std::string describe_state(const UpstreamStatus& status) {
  std::string text = fmt::format("{} is {}", status.name, health_name(status));
  if (status.looped) return text + ": it sends our own queries back, and is not asked";
  if (status.health == Health::Up && !status.failing_with.empty())
    return fmt::format("{}: answers nothing but {}", text, status.failing_with);
  if (status.health != Health::Up)
    return status.last_error.empty() ? text : text + ": " + status.last_error;
  if (status.rtt_us == 0)
    return text + (status.last_error.empty() ? ", not asked yet"
                                             : ", but has not answered yet: " + status.last_error);
  return text + fmt::format(", answers in {:.1f} ms", status.rtt_us / 1e3);
}

// A server that lies, or somebody who forges its replies, keeps the state that true replies give
// it.
std::string describe_health(const UpstreamStatus& status) {
  std::string text = describe_state(status);
  if (status.mismatched == 0) return text;
  return fmt::format("{}; ignored {} from it that {} no reply to a query", text,
                     counted(status.mismatched, "message"),
                     status.mismatched == 1 ? "was" : "were");
}

}  // namespace

std::string describe_route(const Forwarder::Route& route) {
  std::string text;
  for (const std::string& server : route.servers) text += (text.empty() ? "" : ", ") + server;
  if (!route.zone.empty())
    text += (route.is_of_link ? " (a network link, " : " (upstream.zones, ") + route.zone + ")";
  return text;
}

ForwardingFacts forwarding_facts(const Forwarder::Route& route,
                                 std::span<const UpstreamStatus> statuses,
                                 const Cache::Entry& entry, Millis now) {
  ForwardingFacts facts{describe_route(route), describe_entry(entry, now), {}};
  for (const std::string& server : route.servers) {
    const auto status = std::ranges::find(statuses, server, &UpstreamStatus::name);
    if (status != statuses.end()) facts.health.push_back(describe_health(*status));
  }
  if (route.servers.empty())
    facts.health.emplace_back("none: neither upstream.servers nor /etc/resolv.conf names any");
  return facts;
}

ForwardingFacts forwarding_facts(const Forwarder::Route& route, ForwardShared& shared,
                                 std::string_view wire_name, wire::Type type, Millis now) {
  const CacheKey key({std::string(wire_name), type, wire::Class::In}, false, false);
  ForwardingFacts facts =
      forwarding_facts(route, shared.upstreams.status(now), shared.cache.peek(key, now), now);
  if (!shared.cache.is_enabled()) facts.cached = "off (cache.size is 0)";
  return facts;
}

}  // namespace meshdns::dnsd
