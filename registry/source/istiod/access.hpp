// SPDX-License-Identifier: Apache-2.0
// The credentials that prove istiod to us and us to istiod, from files that others replace.
#pragma once

#include <string>

#include "registry/base/result.hpp"

namespace meshdns::registry::istiod {

struct AccessFiles {
  std::string ca;
  std::string token;  // empty: none
  std::string cert;   // empty: none
  std::string key;
};

struct Access {
  std::string ca_pem;
  std::string token;
  std::string cert_pem;
  std::string key_pem;
};

// Reads the files that are named; each at most 1 MiB, and never waits for a FIFO.  An Error names
// the file.
Result<Access> read_access(const AccessFiles& files);

}  // namespace meshdns::registry::istiod
