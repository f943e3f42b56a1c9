// SPDX-License-Identifier: Apache-2.0
#include "dnsd/kernel/loader/status.hpp"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>

#include <array>
#include <chrono>
#include <iterator>
#include <numeric>
#include <vector>

#include "dnsd/kernel/loader/netlink.hpp"
#include "dnsd/kernel/loader/pinned_maps.hpp"
#include "dnsd/kernel/loader/tc_filter.hpp"

namespace meshdns::kernel {
namespace {

constexpr std::array<const char*, MESHDNS_COUNTERS> kCounterNames = {
    "answered_ipv4_a",    "answered_ipv4_aaaa",  "answered_ipv4_other", "answered_ipv6_a",
    "answered_ipv6_aaaa", "answered_ipv6_other", "answered_do",         "passed_other",
    "passed_client",      "passed_route",        "passed_absent",       "passed_old",
    "passed_size",        "passed_asleep",       "passed_limit"};

std::string describe_interfaces(const std::vector<Link>& links) {
  std::string names;
  for (const Link& link : links) {
    const auto found = find_filter(link.index);
    if (found && *found) names += (names.empty() ? "" : " ") + link.name;
  }
  return names.empty() ? "none" : names;
}

std::string describe_heartbeat(const meshdns_control& state) {
  if (state.heartbeat_ns == 0) return "none: the daemon fills no answers";
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  const auto age = std::chrono::duration_cast<std::chrono::milliseconds>(
      now - std::chrono::nanoseconds(state.heartbeat_ns));
  return fmt::format("{} ms ago", age.count());
}

// Entries of a hash map; those that come and go meanwhile may be missed.
std::size_t count_entries(int map) {
  std::array<std::array<char, sizeof(meshdns_question)>, 2> keys;
  const void* last = nullptr;
  std::size_t entries = 0;
  while (bpf_map_get_next_key(map, last, keys[entries % 2].data()) == 0) {
    last = keys[entries % 2].data();
    ++entries;
  }
  return entries;
}

std::uint64_t read_counter(int map, std::uint32_t counter) {
  const int cpus = libbpf_num_possible_cpus();
  std::vector<std::uint64_t> values(cpus > 0 ? static_cast<std::size_t>(cpus) : 0);
  if (values.empty() || bpf_map_lookup_elem(map, &counter, values.data()) != 0) return 0;
  return std::accumulate(values.begin(), values.end(), std::uint64_t{0});
}

}  // namespace

Result<std::string> describe_status(const std::string& maps) {
  const auto links = list_links();
  if (!links) return std::unexpected(links.error());
  std::string text = fmt::format("{:<20} {}\n", "interfaces", describe_interfaces(*links));

  const auto control = open_pinned(maps + '/' + MESHDNS_MAP_CONTROL);
  if (!control) return std::unexpected(control.error());
  const __u32 first = 0;
  meshdns_control state{};
  bpf_map_lookup_elem(control->get(), &first, &state);
  fmt::format_to(std::back_inserter(text), "{:<20} {}\n{:<20} {}\n", "version", state.version,
                 "heartbeat", describe_heartbeat(state));

  for (const char* const name : {MESHDNS_MAP_SERVED, MESHDNS_MAP_CLIENTS, MESHDNS_MAP_ANSWERS}) {
    const auto map = open_pinned(maps + '/' + name);
    if (!map) return std::unexpected(map.error());
    fmt::format_to(std::back_inserter(text), "{:<20} {}\n", name, count_entries(map->get()));
  }
  const auto counters = open_pinned(maps + '/' + MESHDNS_MAP_COUNTERS);
  if (!counters) return std::unexpected(counters.error());
  for (std::uint32_t i = 0; i < MESHDNS_COUNTERS; ++i)
    fmt::format_to(std::back_inserter(text), "{:<20} {}\n", kCounterNames[i],
                   read_counter(counters->get(), i));
  return text;
}

}  // namespace meshdns::kernel
