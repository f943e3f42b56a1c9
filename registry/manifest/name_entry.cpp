// SPDX-License-Identifier: Apache-2.0
#include "registry/manifest/name_entry.hpp"

#include "registry/base/host_name.hpp"
#include "registry/base/printable.hpp"
#include "registry/manifest/validate.hpp"

namespace meshdns::registry {

NameEntryBuilder::Complaint NameEntryBuilder::set_host(std::string_view host) {
  entry_.meta.name = canonical_host(host);
  if (auto reason = why_no_wildcard_domain(host)) return "the host " + *reason;
  return std::nullopt;
}

NameEntryBuilder::Complaint NameEntryBuilder::add_alt_host(std::string_view host) {
  if (auto reason = why_no_wildcard_domain(host)) return in_quotes(host) + " " + *reason;
  entry_.alt_hosts.push_back(canonical_host(host));
  return std::nullopt;
}

NameEntryBuilder::Complaint NameEntryBuilder::add_ip(std::string_view text) {
  const auto ip = IpAddress::parse(text);
  has_bad_ip_ |= !ip;
  if (!ip) return in_quotes(text) + " is not an IP address; it is left out";
  if (ip->is_unspecified()) return in_quotes(text) + " is the unspecified address; it is left out";
  entry_.ips.push_back(*ip);
  return std::nullopt;
}

NameEntryBuilder::Complaint NameEntryBuilder::check_ips() const {
  if (has_bad_ip_ && entry_.ips.empty()) return "has no valid address";
  return std::nullopt;
}

void NameEntryBuilder::set_short_name(std::string_view name) { entry_.short_name = to_lower(name); }

void NameEntryBuilder::set_namespace(std::string_view ns) { entry_.meta.ns = to_lower(ns); }

}  // namespace meshdns::registry
