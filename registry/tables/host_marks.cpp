// SPDX-License-Identifier: Apache-2.0
#include "registry/tables/host_marks.hpp"

#include <algorithm>
#include <utility>

#include "registry/base/host_name.hpp"
#include "registry/model/mesh_settings.hpp"

namespace meshdns::registry {

void SourceChange::note(const StoredRef& source, bool is_added) {
  auto& other = is_added ? removed : added;
  std::erase(other, source);
  (is_added ? added : removed).push_back(source);
}

void HostMarks::mark(const SymbolRef& ns, std::string_view host, StoredRef source, bool added) {
  auto* text = static_cast<char*>(texts_.allocate(host.size(), 1));
  host.copy(text, host.size());
  marks_.push_back({ns, {text, host.size()}, std::move(source), added});
}

void HostMarks::take(const std::function<void(const HostKey&, const SourceChange&)>& visit) {
  const auto marks = std::exchange(marks_, {});
  std::vector<const Mark*> order;
  order.reserve(marks.size());
  for (const auto& mark : marks) order.push_back(&mark);
  std::ranges::stable_sort(order, [](const auto* a, const auto* b) {
    return a->host != b->host ? a->host < b->host : a->ns.get() < b->ns.get();
  });
  std::ranges::stable_partition(
      order, [](const auto* mark) { return !is_below(mark->host, kClusterSetDomain); });
  for (std::size_t i = 0; i < order.size();) {
    const Mark& first = *order[i];
    SourceChange sources;
    for (; i < order.size() && order[i]->ns == first.ns && order[i]->host == first.host; ++i)
      if (order[i]->source) sources.note(order[i]->source, order[i]->added);
    visit({first.ns, std::string(first.host)}, sources);
  }
}

}  // namespace meshdns::registry
