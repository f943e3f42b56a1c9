// SPDX-License-Identifier: Apache-2.0
// A dumped NameTable (istio.networking.nds.v1, what istiod sends to agents over NDS) as resources.
#pragma once

#include <string_view>

#include "registry/base/result.hpp"
#include "registry/manifest/manifest.hpp"

namespace meshdns::registry {

// Reads {"table": {HOST: {"ips": [...], "registry": "", "shortname": "", "namespace": "",
// "altHosts": []}}}, as the agent's /debug/ndsz prints it, or the same inside the configuration
// dump of istiod's /debug/ndsz ({"configs": [{"table": ...}]}).  Field names may be those of the
// .proto file (alt_hosts).  Every host becomes a NameTableEntry; one that is faulty is refused by
// itself.
//
// An Error means that the text is no such table at all: nothing of it should replace an earlier
// one.
Result<void> read_name_table(std::string_view text, const ManifestOptions& options,
                             ManifestSink& sink);

}  // namespace meshdns::registry
