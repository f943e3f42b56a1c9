// SPDX-License-Identifier: Apache-2.0
// Local answers for names that would be forwarded: the hosts file, the overrides of the
// configuration, and with DNS64 ipv4only.arpa.  Names of the mesh come before them.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "dnsd/answer/decision.hpp"
#include "dnsd/config/config.hpp"
#include "dnsd/config/hosts_file.hpp"
#include "registry/base/hash.hpp"

namespace meshdns::dnsd {

// Returns whether the name never leaves this host (registry/base/host_name.hpp).
bool is_special_name(std::string_view name);
// REQUIRES: is_special_name(asked.name).
Decision decide_special(const Asked& asked);

struct LocalEntry {
  std::vector<IpAddress> addresses;  // of a name, in the order of the file
  std::vector<std::string> names;    // of an address
};

// Immutable; any thread.  Decisions refer to it.
class LocalNames {
 public:
  // `dns64`: the prefix of translated addresses, if there is one.
  LocalNames(const HostsFile& hosts, const std::map<std::string, Override>& overrides,
             const std::optional<IpPrefix>& dns64);

  // nullopt: not ours.  A name of the hosts file is answered for addresses and what hints at them;
  // its other types are left to the upstream.  A reverse name has PTR records and nothing else.  An
  // override is the whole of what there is at and below its suffix.
  std::optional<Decision> decide(const Asked& asked) const;

  // Returns whether a name of the hosts file, or the reverse name of one of its addresses, lies
  // below.
  bool has_name_below(std::string_view name) const;

  std::size_t hosts() const { return by_name_.size(); }
  bool empty() const {
    return by_name_.empty() && by_address_.empty() && overrides_.empty() && !ipv4only_;
  }

 private:
  struct Overriding {
    OverrideAction action;
    LocalEntry entry;
  };

  void note_ancestors(std::string_view name);
  void add_ipv4only(const IpPrefix& dns64);

  std::optional<Decision> decide_host(const Asked& asked) const;
  std::optional<Decision> decide_pointer(const Asked& asked) const;
  std::optional<Decision> decide_override(const Asked& asked) const;
  std::optional<Decision> decide_ipv4only(const Asked& asked) const;

  TextMap<LocalEntry> by_name_;
  std::unordered_map<IpAddress, LocalEntry> by_address_;
  TextMap<Overriding> overrides_;
  std::optional<LocalEntry> ipv4only_;
  // Hashes of the names above these, sorted: lists of blocked names are long.
  std::vector<std::uint64_t> ancestors_;
};

}  // namespace meshdns::dnsd
