// SPDX-License-Identifier: Apache-2.0
#include "dnsd/answer/registry_only.hpp"

#include <algorithm>

#include "dnsd/answer/known_names.hpp"
#include "dnsd/answer/reverse_zone.hpp"
#include "registry/base/each_once.hpp"
#include "registry/base/host_name.hpp"

namespace meshdns::dnsd {
namespace {

using registry::RegistryOnlyMode;
using registry::RegistryOnlyRcode;
using registry::View;

constexpr std::string_view kOutsideRegistry =
    "REGISTRY_ONLY: no object that this client sees has the name (mesh.registry_only)";

bool is_of_namespaces(const View& view, const std::vector<std::string>& namespaces) {
  const auto& ns = view.client().ns;
  return namespaces.empty() ||
         (ns && std::ranges::find(namespaces, ns->text()) != namespaces.end());
}

}  // namespace

RegistryOnly::RegistryOnly(const UpstreamConfig& upstream,
                           const std::set<std::string>& link_zones) {
  for (const auto& [zone, servers] : upstream.zones) zones_.insert(zone);
  zones_.insert(link_zones.begin(), link_zones.end());
  for (const std::string_view zone : zones_)
    for (std::string_view name = parent_of(zone); !name.empty(); name = parent_of(name))
      ancestors_.push_back(hash_bytes(name));
  sort_each_once(ancestors_);
}

bool RegistryOnly::is_allowed(const View& view, std::string_view name) const {
  const bool falls_through =
      std::ranges::any_of(view.settings().fallthrough,
                          [&](const std::string& zone) { return is_at_or_below(name, zone); });
  if (falls_through || zones_.empty()) return falls_through;
  for (; !name.empty(); name = parent_of(name))
    if (zones_.contains(name)) return true;
  return zones_.contains(name);
}

bool RegistryOnly::has_allowed_below(const View& view, const Asked& asked) const {
  const std::string_view name = asked.name;
  return name.empty() || std::ranges::binary_search(ancestors_, hash_bytes(name)) ||
         std::ranges::any_of(view.settings().fallthrough,
                             [&](const std::string& zone) { return is_below(zone, name); }) ||
         is_known_by_other_types(view, asked);
}

void RegistryOnly::judge(const View& view, const Asked& asked, Decision& decision) const {
  const bool may_ask = asked.is_target || !is_unknown_name(decision) ||
                       is_reverse_name(asked.name) || is_allowed(view, asked.name);
  const registry::RegistryOnlySettings& settings = view.settings().registry_only;
  // Only explanations tell of the mode that changes nothing.
  const bool is_of_interest = settings.mode != RegistryOnlyMode::Explain || asked.found != nullptr;
  if (may_ask || !is_of_interest || !view.snapshot().sources.have_policies()) return;
  Asked known = asked;
  known.registry_only = nullptr;
  known.trace = nullptr;
  // Other types of a name of the hosts file.
  if (asked.type != wire::Type::A && has_own_addresses(view, known)) return;
  decision.registry_only = RegistryOnlyEffect::Explained;
  if (!is_of_namespaces(view, settings.namespaces)) return;
  if (settings.mode == RegistryOnlyMode::Audit)
    decision.registry_only = RegistryOnlyEffect::Audited;
  if (settings.mode != RegistryOnlyMode::Answer) return;
  decision = {.verdict = Verdict::Refused,
              .registry_only = RegistryOnlyEffect::Refused,
              .why = kOutsideRegistry};
  if (settings.rcode == RegistryOnlyRcode::Refused) return;
  // A cache in front of us would deny all that is below a name that does not exist (RFC 8020).
  decision.verdict = has_allowed_below(view, known) ? Verdict::NoData : Verdict::Denied;
}

}  // namespace meshdns::dnsd
