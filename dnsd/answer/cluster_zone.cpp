// SPDX-License-Identifier: Apache-2.0
#include "dnsd/answer/cluster_zone.hpp"

#include <algorithm>

#include "dnsd/answer/service_names.hpp"

namespace meshdns::dnsd {
namespace {

using registry::PodNames;
using registry::View;
using wire::Type;

// The labels in front of the zone.
std::string_view relative_name(std::string_view zone, std::string_view name) {
  return name.size() == zone.size() ? std::string_view{}
                                    : name.substr(0, name.size() - zone.size() - 1);
}

Decision in_zone(std::string_view zone, Verdict verdict, std::string_view why) {
  return {.verdict = verdict, .zone = zone, .why = why};
}
Decision in_zone(const View& view, Verdict verdict, std::string_view why) {
  return in_zone(view.settings().cluster_domain, verdict, why);
}

Decision decide_apex(std::string_view zone, Type type) {
  const std::string_view why = zone == registry::kClusterSetDomain
                                   ? "the apex of the cluster set's zone"
                                   : "the apex of the cluster domain";
  if (type == Type::Soa || type == Type::Any) return in_zone(zone, Verdict::ZoneSoa, why);
  return in_zone(zone, type == Type::Ns ? Verdict::ZoneNs : Verdict::NoData, why);
}

Decision decide_server_name(std::string_view zone, const Asked& asked) {
  const auto is_asked_for = [&](const IpAddress& address) {
    return address.is_v4() ? asked.type == Type::A : asked.type == Type::Aaaa;
  };
  const bool found = std::ranges::any_of(asked.server_addresses, is_asked_for);
  return in_zone(zone, found ? Verdict::ServerAddresses : Verdict::NoData,
                 "the name server of the zone");
}

Decision decide_pod_namespace(const View& view, std::string_view ns) {
  if (view.settings().pods == PodNames::Disabled || !view.namespace_exists(ns))
    return in_zone(view, Verdict::NxDomain, "no such namespace, or pod names are disabled");
  return in_zone(view, Verdict::NoData, "the pods of a namespace");
}

Decision decide_pod(const View& view, const Asked& asked, std::string_view label,
                    std::string_view ns) {
  const Decision missing = in_zone(view, Verdict::NxDomain, "no such pod name");
  const PodNames mode = view.settings().pods;
  const auto address = parse_dashed_address(label);
  if (mode == PodNames::Disabled || !address || !view.namespace_exists(ns)) return missing;
  if (mode == PodNames::Verified && !view.pod_exists(*address, ns)) return missing;
  Decision decision = in_zone(view, Verdict::NoData, "a pod name has exactly one address");
  const bool family = address->is_v4() ? asked.type == Type::A : asked.type == Type::Aaaa;
  if (family || asked.type == Type::Any) {
    decision.verdict = Verdict::Address;
    decision.address = *address;
  }
  return decision;
}

// `labels`: in front of "pod".
Decision decide_below_pod(const View& view, const Asked& asked, std::string_view labels) {
  const std::size_t dot = labels.find('.');
  if (dot == std::string_view::npos) return decide_pod_namespace(view, labels);
  const std::string_view ns = labels.substr(dot + 1);
  if (ns.find('.') != std::string_view::npos)
    return in_zone(view, Verdict::NxDomain, "there are no names below a pod name");
  return decide_pod(view, asked, labels.substr(0, dot), ns);
}

}  // namespace

std::optional<Decision> decide_fixed_name(std::string_view zone, const Asked& asked) {
  const std::string_view name = relative_name(zone, asked.name);
  if (name.empty()) return decide_apex(zone, asked.type);
  const bool is_set = zone == registry::kClusterSetDomain;
  if (name == "svc" || name == "dns" || (name == "pod" && !is_set))
    return in_zone(zone, Verdict::NoData,
                   "a name above services, which always exists and has no records");
  if (name == "ns.dns") return decide_server_name(zone, asked);
  if (name == "dns-version") {
    const bool text = asked.type == Type::Txt || asked.type == Type::Any;
    return in_zone(zone, text ? Verdict::Version : Verdict::NoData,
                   is_set ? "the version of the multi-cluster DNS specification"
                          : "the version of the Kubernetes DNS specification");
  }
  return {};
}

Decision decide_cluster_set_name(const View& view, const Asked& asked) {
  constexpr std::string_view zone = registry::kClusterSetDomain;
  const std::string_view name = relative_name(zone, asked.name);
  if (name.ends_with(".svc")) {
    const std::string_view ns = name.substr(0, name.size() - 4);
    if (ns.find('.') == std::string_view::npos && view.namespace_exists(ns))
      return in_zone(zone, Verdict::NoData, "a namespace that exists");
  }
  return in_zone(zone, Verdict::NxDomain, "no such name in the cluster set");
}

Decision decide_cluster_name(const View& view, const Asked& asked) {
  const std::string_view name = relative_name(view.settings().cluster_domain, asked.name);
  if (name.ends_with(".pod")) return decide_below_pod(view, asked, name.substr(0, name.size() - 4));
  if (name.ends_with(".svc")) {
    const std::string_view ns = name.substr(0, name.size() - 4);
    if (ns.find('.') == std::string_view::npos && view.namespace_exists(ns))
      return in_zone(view, Verdict::NoData, "a namespace that exists");
  }
  if (view.is_empty_non_terminal(asked.name))
    return in_zone(view, Verdict::NoData, "a known host lies below this name");
  return in_zone(view, Verdict::NxDomain, "no such name in the cluster domain");
}

}  // namespace meshdns::dnsd
