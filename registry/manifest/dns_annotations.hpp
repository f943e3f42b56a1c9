// SPDX-License-Identifier: Apache-2.0
// The annotations of external-dns, and the parts that objects with names of gateways share.  Their
// controllers judge these objects, so nothing is refused: what cannot be read is left out, with a
// warning.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "registry/manifest/object.hpp"

namespace meshdns::registry {

// Names of one object.  A Gateway has at most 64 listeners, and a route 16 names; an Ingress has no
// limit of its own.
inline constexpr std::size_t kMaxGatewayNames = 1'000;

// Returns external-dns.alpha.kubernetes.io/hostname, internal-hostname, target and ttl; nullopt:
// none of them has anything.
std::optional<DnsAnnotations> read_dns_annotations(Object& object);

// Adds the host name at `at`, which may begin with "*.", unless it is none or there are too many.
void add_gateway_name(Report& report, const Field& at, std::vector<std::string>& names);

// Adds the addresses of a list of the status whose elements have them under one of `keys`.
void add_status_addresses(const Node* list, std::initializer_list<std::string_view> keys,
                          std::vector<std::string>& addresses);

}  // namespace meshdns::registry
