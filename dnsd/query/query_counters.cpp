// SPDX-License-Identifier: Apache-2.0
#include "dnsd/query/query_counters.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <string>

#include "registry/base/enum_text.hpp"

namespace meshdns::dnsd {
namespace {

constexpr std::uint64_t kFirstLimitNs = 250'000;

}  // namespace

std::string_view to_string(AnswerSource source) {
  static constexpr std::string_view texts[] = {
      "registry", "cluster_zone", "special",  "local",  "cache",   "stale", "forward",
      "chaos",    "refused",      "protocol", "failed", "limited", "kernel"};
  return enum_text<AnswerSource::Kernel>(source, texts);
}

std::size_t QueryCounters::type_slot(wire::Type type) {
  // Nearly all queries are of the first two.
  if (type == wire::Type::A) return 0;
  if (type == wire::Type::Aaaa) return 1;
  return static_cast<std::size_t>(std::ranges::find(kTypes, type) - kTypes.begin());
}

std::string QueryCounters::type_name(std::size_t slot) {
  return slot < kTypes.size() ? wire::to_string(kTypes[slot]) : "other";
}

std::size_t QueryCounters::rcode_slot(wire::Rcode rcode) {
  return std::min<std::size_t>(static_cast<std::size_t>(rcode), kRcodeSlots - 1);
}

std::string_view QueryCounters::rcode_name(std::size_t slot) {
  return slot + 1 < kRcodeSlots ? wire::to_string(static_cast<wire::Rcode>(slot)) : "other";
}

std::size_t QueryCounters::duration_bucket(std::uint64_t nanoseconds) {
  if (nanoseconds <= kFirstLimitNs) return 0;
  const auto doublings =
      static_cast<std::size_t>(std::bit_width((nanoseconds - 1) / kFirstLimitNs));
  return std::min(doublings, kDurationBuckets - 1);
}

double QueryCounters::duration_limit(std::size_t bucket) {
  if (bucket + 1 >= kDurationBuckets) return std::numeric_limits<double>::infinity();
  return static_cast<double>(kFirstLimitNs << bucket) / 1e9;
}

}  // namespace meshdns::dnsd
