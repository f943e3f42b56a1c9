// SPDX-License-Identifier: Apache-2.0
// The addresses of servers that are given by host names: upstream servers, API servers, istiod.
//
// The names are looked up at the servers that `upstream.servers: []` would use, never at meshdns
// itself, which may need these very servers.  The hosts file of the machine comes first, then the
// registry for names of the cluster domain that it has.  A name that does not exist is looked up
// with the search list of the machine.  The engine of endpoint names keeps them looked up: again at
// the end of their TTL, and with back-off.  The last good addresses stay, also over a restart
// (STATE_DIR/servers).
#pragma once

#include <uv.h>

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "dnsd/config/config.hpp"
#include "dnsd/config/hosts_file.hpp"
#include "dnsd/log/log.hpp"
#include "dnsd/mesh/registry_names.hpp"
#include "dnsd/mesh/upstream_servers.hpp"
#include "registry/base/handle.hpp"
#include "registry/registry.hpp"
#include "registry/source/server_lookup.hpp"
#include "resolver/names/cares_lookup.hpp"
#include "resolver/names/name_resolver.hpp"

namespace meshdns::dnsd {

class SystemServers;

// Control thread.
class ServerNames final : public registry::ServerLookup,
                          private resolver::ResolverListener,
                          private resolver::MeshNames {
 public:
  // REQUIRES: both outlive it.
  ServerNames(registry::Registry& registry, Log& log, std::string hosts_file = "/etc/hosts");
  ~ServerNames() override;

  // Looks the names of `config` and those in use up at the servers of `system` from now on, and
  // keeps their addresses in `file`, which is read once; empty = nowhere.  `on_change` is called
  // when addresses of servers of `config` have changed, never from inside.
  void follow(uv_loop_t* loop, const UpstreamConfig& config, SystemResolver system,
              const std::string& file, std::function<void()> on_change);
  // REQUIRES: follow() was called.
  std::unique_ptr<registry::NamedServer> use(const std::string& host,
                                             std::function<void()> on_change) override;
  // Puts the addresses in place of the names.  A server whose name is not known yet is left out.
  void fill_in(UpstreamConfig& upstream) const;
  // Returns whether the configuration names any upstream server.
  bool has_any() const { return !of_upstream_.empty(); }
  // The registry may have other addresses for names of the cluster domain.
  void recheck();
  void close();

 private:
  class Use;

  void on_resolved(std::string_view ns, std::vector<registry::ResolvedName>&& names) override;
  resolver::MeshAnswer find(std::string_view ns, std::string_view host,
                            std::string_view name) override;
  std::vector<std::string> names_of(std::string_view ns) const override;
  std::vector<std::string> namespaces() const override;
  void fill_in(std::vector<UpstreamServer>& servers) const;
  bool open();
  void watch_wanted();
  std::set<std::string, std::less<>> hosts() const;
  std::vector<std::string> searched(const std::string& host) const;
  registry::ServerAddresses addresses_of(const std::string& host) const;
  void tell();
  void load();
  void save();

  registry::Registry& registry_;
  Log& log_;
  const std::string hosts_path_;
  HostsFile hosts_;
  RegistryNames mesh_names_;
  std::set<std::string, std::less<>> of_upstream_;
  std::vector<Use*> uses_;
  // By the names that are looked up, which are those above and, of those that do not exist, the
  // ones of the search list.
  std::set<std::string, std::less<>> watched_;
  std::set<std::string, std::less<>> absent_;
  std::map<std::string, std::vector<IpAddress>, std::less<>> addresses_;  // the last good ones
  std::map<std::string, std::string, std::less<>> reasons_;  // of those whose last lookup failed
  std::map<std::string, registry::ServerAddresses, std::less<>> told_;
  uv_loop_t* loop_ = nullptr;
  SystemResolver resolver_of_system_;
  std::string file_;
  std::function<void()> on_change_;
  loop::Timer change_timer_;
  std::unique_ptr<SystemServers> system_;
  std::unique_ptr<resolver::CaresLookups> lookups_;
  std::unique_ptr<resolver::NameResolver> resolver_;
};

}  // namespace meshdns::dnsd
