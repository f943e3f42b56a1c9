// SPDX-License-Identifier: Apache-2.0
// networking.k8s.io Ingress, as far as it gives names to addresses.
#include "registry/manifest/dns_annotations.hpp"

namespace meshdns::registry {
namespace {

// The class of an Ingress before spec.ingressClassName; controllers still honour it.
constexpr std::string_view kOldClass = "kubernetes.io/ingress.class";

}  // namespace

Resource read_ingress(Object& object) {
  Ingress ingress;
  if (const auto name = object.annotation(kOldClass)) ingress.class_name = *name;
  const Node* const name = find_below(object.root.node(), {"spec", "ingressClassName"});
  if (name != nullptr && !name->is_null()) ingress.class_name = name->value();
  const Node* const spec = object.root->find("spec");
  const Node* const rules = spec == nullptr ? nullptr : spec->find("rules");
  if (rules != nullptr && rules->is_sequence()) {
    const Field at_spec(object.root, *spec);
    const Field at_rules(at_spec, *rules);
    std::size_t index = 0;
    // The hosts of spec.tls are those of certificates.
    for (const Node& rule : *rules) {
      const Field at(at_rules, rule, index++);
      if (const Node* const host = rule.find("host"))
        add_gateway_name(object.report, Field(at, *host), ingress.hosts);
    }
  }
  add_status_addresses(find_below(object.root.node(), {"status", "loadBalancer", "ingress"}),
                       {"ip", "hostname"}, ingress.addresses);
  ingress.dns = read_dns_annotations(object).value_or(DnsAnnotations());
  ingress.meta = std::move(object.meta);
  return ingress;
}

}  // namespace meshdns::registry
