// SPDX-License-Identifier: Apache-2.0
#include "dnsd/config/sections.hpp"

#include <algorithm>

#include "dnsd/config/value_codecs.hpp"

namespace meshdns::dnsd::schema {
namespace {

std::string complain_about_families(const std::vector<IpFamily>& families) {
  if (families.size() == 2 && families[0] == families[1]) return "has the same family twice";
  return families.size() > 2 ? "allows only IPv4 and IPv6" : "";
}

// A node id has a namespace; a second namespace in the configuration must be equal.
void follow_node_id(ClientIdentityConfig& identity, const Node& node, const Place& place) {
  if (!identity.node_id) return;
  identity.ns = identity.node_id->ns();
  if (node.find("ip_families") == nullptr) identity.ip_families = identity.node_id->families();
  const Node* ns = node.find("namespace");
  if (ns == nullptr || ns->text() == identity.ns) return;
  place.at("node_id").error(line_of(node, "node_id"),
                            "has the namespace " + in_quotes(identity.ns) +
                                ", but the key `namespace` is " + in_quotes(ns->text()) +
                                "; remove one of the two");
}

Codec<std::optional<NodeId>> node_id() {
  const auto parse = [](std::string_view words) -> Result<NodeId> {
    auto id = parse_node_id(words);
    if (id && !is_label(id->ns()))
      return fail(in_quotes(words) +
                  " has no namespace; write it as in "
                  "\"sidecar~10.60.1.6~web-1.shop~shop.svc.cluster.local\"");
    return id;
  };
  return optional(text_value(parse));
}

Codec<registry::Locality> locality() {
  const auto parse = [](std::string_view words) -> Result<registry::Locality> {
    if (std::ranges::count(words, '/') > 2)
      return fail(in_quotes(words) +
                  " is not of the form REGION/ZONE/SUBZONE; \"/ZONE\" is a zone");
    return registry::parse_locality(words);
  };
  return text_value(parse);
}

Codec<ClientIdentityConfig> client_identity() {
  return section<ClientIdentityConfig>(
      {
          field("namespace", &ClientIdentityConfig::ns, namespace_name()),
          field("labels", &ClientIdentityConfig::labels, labels()),
          field("network", &ClientIdentityConfig::network, text(253)),
          field("cluster", &ClientIdentityConfig::cluster, text(253)),
          field("node", &ClientIdentityConfig::node, text(253)),
          field("locality", &ClientIdentityConfig::locality, locality()),
          field("search", &ClientIdentityConfig::search, list(domain())),
          field("ip_families", &ClientIdentityConfig::ip_families,
                checked(non_empty(list(enumeration<IpFamily>()), "write [IPv4, IPv6]"),
                        complain_about_families)),
          field("node_id", &ClientIdentityConfig::node_id, node_id()),
      },
      follow_node_id);
}

}  // namespace

Codec<ClientConfig> client() {
  return section<ClientConfig>({
      field("by_source_address", &ClientConfig::by_source_address, boolean()),
      field("unknown", &ClientConfig::unknown, enumeration<registry::UnknownClient>()),
      field("workload_entry_namespaces", &ClientConfig::workload_entry_namespaces,
            list(namespace_or_all())),
      field("node_search", &ClientConfig::node_search, list(domain())),
      field("default", &ClientConfig::default_identity, client_identity()),
  });
}

}  // namespace meshdns::dnsd::schema
