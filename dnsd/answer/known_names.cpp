// SPDX-License-Identifier: Apache-2.0
#include "dnsd/answer/known_names.hpp"

#include "dnsd/answer/dns64.hpp"
#include "dnsd/answer/local_names.hpp"
#include "dnsd/answer/reverse_zone.hpp"
#include "dnsd/answer/service_names.hpp"
#include "registry/base/host_name.hpp"

namespace meshdns::dnsd {
namespace {

using registry::Match;
using registry::View;
using wire::Type;

bool is_answered(const View& view, Asked asked, Type type) {
  asked.type = type;
  asked.trace = nullptr;
  const Verdict verdict = decide(view, asked).verdict;
  return verdict != Verdict::Forward && verdict != Verdict::NxDomain &&
         verdict != Verdict::Denied && verdict != Verdict::Refused;
}

// "svc", "shop" and "shop.svc", above the short names of Services.
bool has_short_name_below(const View& view, std::string_view name) {
  const bool ends_in_svc = name == "svc" || name.ends_with(".svc");
  if (count_labels(name) > (ends_in_svc ? 2U : 1U)) return false;
  NameBuffer relative;
  NameBuffer full;
  return view.is_empty_non_terminal(
      full.join(ends_in_svc ? name : relative.join(name, "svc"), view.settings().cluster_domain));
}

// "_tcp.api.example.org", above the ports of a host.
bool has_port_below(const View& view, std::string_view name) {
  if (!name.starts_with('_')) return false;
  const std::string_view host = parent_of(name);
  const Match match = view.lookup(host);
  if (!match || match.how == Match::How::Below) return false;
  const std::string_view protocol = name.substr(1, name.size() - host.size() - 2);
  return ServicePorts(view, *match.service).has({}, protocol);
}

}  // namespace

bool has_known_name_below(const View& view, const Asked& asked) {
  const std::string_view name = asked.name;
  return view.is_empty_non_terminal(name) ||
         (!asked.is_target && has_short_name_below(view, name)) || has_port_below(view, name) ||
         has_known_address_below(view, name) ||
         (asked.dns64 != nullptr && is_translated_or_above(*asked.dns64, name)) ||
         (asked.local != nullptr && asked.local->has_name_below(name));
}

bool has_own_addresses(const View& view, const Asked& asked) {
  return is_answered(view, asked, Type::A);
}

bool is_known_by_other_types(const View& view, const Asked& asked) {
  if (asked.type != Type::A && is_answered(view, asked, Type::A)) return true;
  const bool may_be_port = asked.name.starts_with('_');
  if (may_be_port && asked.type != Type::Srv && is_answered(view, asked, Type::Srv)) return true;
  return !asked.has_odd_labels && has_known_name_below(view, asked);
}

bool is_known_name(const View& view, const Asked& asked) {
  return is_answered(view, asked, asked.type) || is_known_by_other_types(view, asked);
}

}  // namespace meshdns::dnsd
