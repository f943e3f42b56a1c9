// SPDX-License-Identifier: Apache-2.0
// The certificate and the passwords of admin.metrics_listen, through changes of their files.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "dnsd/admin/http_access.hpp"
#include "dnsd/config/config.hpp"
#include "registry/base/result.hpp"

namespace meshdns::dnsd {

// Control thread.
class MetricsAccess {
 public:
  // Reads the files that `admin` names.  An Error names the key and the file.  access() is as
  // before then, if the names are; otherwise it is empty.
  Result<void> read(const AdminConfig& admin);
  // Call every second or so.  Whether a file has changed since read(), and not since the last call:
  // a certificate and its key are often written one after the other.
  bool has_changed();

  // Nullopt: the files cannot be used, and nothing must be served without them.
  const std::optional<HttpAccess>& access() const { return access_; }
  // Why the files as they are now are not used; empty: they are.
  const std::string& trouble() const { return trouble_; }

 private:
  // Differs after a file was written, replaced or given other permissions; all 0 if there is none.
  struct Stamp {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    std::int64_t changed_ns = 0;
    std::int64_t size = 0;
    friend bool operator==(const Stamp&, const Stamp&) = default;
  };
  using Files = std::array<std::string, 3>;  // certificate, key, passwords; empty = none
  using Stamps = std::array<Stamp, 3>;

  static Stamp stamp_of(const std::string& path);
  Stamps look() const;
  Result<HttpAccess> read_files() const;

  Files files_;
  Stamps read_;  // as of read()
  Stamps seen_;  // as of the last has_changed()
  std::optional<HttpAccess> access_;
  std::string trouble_;
};

}  // namespace meshdns::dnsd
