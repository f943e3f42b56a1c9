// SPDX-License-Identifier: Apache-2.0
// The servers that the configuration asks for each name.  An answer in the cache is used only while
// its server is one of them: after a reload, in another network, or at the next start, other
// servers may be asked, and may say something else.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "resolver/settings.hpp"

namespace meshdns::dnsd {

// The value of the longest zone that `wire_name` is at or below; null: none.  Names in lower-case
// wire form.
template <typename Value>
const Value* find_zone(const std::map<std::string, Value, std::less<>>& zones,
                       std::string_view wire_name) {
  if (zones.empty()) return nullptr;
  for (;;) {
    if (const auto found = zones.find(wire_name); found != zones.end()) return &found->second;
    if (wire_name.size() <= 1) return nullptr;
    wire_name.remove_prefix(1u + static_cast<unsigned char>(wire_name[0]));
  }
}

// A value; any thread may read it.
class AskedServers {
 public:
  // Without a configuration, every server counts as asked.
  AskedServers() = default;
  explicit AskedServers(const UpstreamConfig& upstream);

  // Returns whether `server`, in the form of UpstreamServer::to_string(), is asked for the name.
  bool has(std::string_view wire_name, std::string_view server) const;
  // One of the servers that are asked for the name; empty: there is none.
  std::string_view any(std::string_view wire_name) const;
  bool is_known() const { return is_known_; }

  friend bool operator==(const AskedServers&, const AskedServers&) = default;

 private:
  using Servers = std::vector<std::string>;  // sorted: their order has no effect
  const Servers& servers_of(std::string_view wire_name) const;

  bool is_known_ = false;
  Servers for_all_;
  std::map<std::string, Servers, std::less<>> zones_;
};

}  // namespace meshdns::dnsd
