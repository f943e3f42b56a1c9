// SPDX-License-Identifier: Apache-2.0
#include "dnsd/admin/name_search.hpp"

#include <algorithm>

#include "registry/base/host_name.hpp"
#include "registry/view/view.hpp"
#include "registry/view/view_explanation.hpp"

namespace meshdns::dnsd {
namespace {

constexpr std::size_t kAddressesShown = 3;

}  // namespace

NameMatches find_names(const registry::Snapshot& snapshot, const registry::Client& client,
                       std::string_view text, std::size_t limit) {
  const std::string part = canonical_host(text);
  NameMatches found;
  std::vector<std::string_view> hosts;
  const auto note = [&](const registry::HostEntry& entry) {
    if (entry.host().find(part) == std::string_view::npos) return;
    if (hosts.size() < NameMatches::kMaxCandidates)
      hosts.push_back(entry.host());
    else
      found.is_complete = false;
  };
  snapshot.hosts.for_each(note);
  snapshot.wildcards.for_each(note);
  std::ranges::sort(hosts);
  const registry::View view(snapshot, client);
  for (const std::string_view host : hosts) {
    const auto match = view.lookup(host);
    // A hidden host may be answered by a wildcard, which is in the list itself.
    if (match.service == nullptr || match.entry == nullptr || match.entry->host() != host) continue;
    if (found.names.size() == limit) {
      found.is_complete = false;
      break;
    }
    found.names.push_back({std::string(host),
                           registry::answer_text(view, match.service, kAddressesShown),
                           describe_source(match.service->source, snapshot)});
  }
  return found;
}

}  // namespace meshdns::dnsd
