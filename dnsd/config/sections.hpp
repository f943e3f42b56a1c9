// SPDX-License-Identifier: Apache-2.0
// The sections of the configuration: of each, the keys with their types, ranges and errors.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "dnsd/config/config.hpp"
#include "dnsd/config/schema.hpp"

namespace meshdns::dnsd::schema {

Codec<ServerConfig> server();
Codec<AdminConfig> admin();
Codec<LogConfig> log();

Codec<registry::MeshSettings> mesh();
Codec<registry::ServiceEntryVisibility> service_entry_visibility();

Codec<ClientConfig> client();
// One element of `sources`.
Codec<SourceConfig> source();

Codec<UpstreamConfig> upstream();
Codec<CacheConfig> cache();

Codec<Dns64Config> dns64();
Codec<HostsConfig> hosts();
Codec<std::map<std::string, Override>> overrides();

}  // namespace meshdns::dnsd::schema
