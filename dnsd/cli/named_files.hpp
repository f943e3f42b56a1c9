// SPDX-License-Identifier: Apache-2.0
// The part of `meshdnsd check` that looks at this machine: the files that a configuration names,
// and the addresses that it is to listen on.
#pragma once

#include <functional>
#include <string>

#include "dnsd/config/load.hpp"
#include "registry/base/finding.hpp"
#include "registry/base/result.hpp"

namespace meshdns::dnsd {

// An Error says why no source can be read at the path: nothing is there, it is neither a file nor a
// directory, or this user may not read it.
Result<void> may_be_source(const std::string& path);

// Reads the files by the functions that the daemon reads them with, and hands a finding to `add`
// for each that it could not use, at the line of its key.  The checker reads the files of
// resources; here may_be_source() looks at their root.  As root it looks whether the user of the
// service may read them all, too: an error for the configuration of the service, a warning for any
// other.  An address that this machine does not have is a warning, and so is a path of an admin
// endpoint that cannot be bound; without its directory it is a note.  REQUIRES: `loaded` is valid,
// and comes from `files`; there is one thread.
void check_named_files(const LoadedConfig& loaded, const ConfigFiles& files,
                       const std::function<void(registry::Finding)>& add);

}  // namespace meshdns::dnsd
