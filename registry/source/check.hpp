// SPDX-License-Identifier: Apache-2.0
// `meshdnsd check`: reads files and directories of manifests and reports their errors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "registry/base/finding.hpp"
#include "registry/base/result.hpp"
#include "registry/manifest/manifest.hpp"
#include "registry/model/mesh_settings.hpp"

namespace meshdns::registry {

struct CheckSummary {
  std::size_t resources = 0;  // objects of kinds that are read, good or refused
  std::size_t errors = 0;
  std::size_t warnings = 0;
  std::size_t notes = 0;
  bool cannot_run = false;  // a file could not be read; a finding has the reason

  std::string to_string()
      const;  // "3 resources, 1 error, 0 warnings", and ", 2 notes" if there are any
  // 0 without errors, 1 with errors, 2 when it could not run.
  int exit_status() const;
};

enum class Strictness : std::uint8_t { Usual, WarningsAreErrors };

class Checker {
 public:
  using FindingListener = std::function<void(const Finding&)>;
  // Hears of each good resource, with its file and line.
  using ResourceListener =
      std::function<void(const Resource&, const std::string& path, std::uint32_t line)>;
  using Reader = Result<void> (*)(std::string_view, const ManifestOptions&, ManifestSink&);

  // Findings go to `listener` as they are found.
  Checker(Strictness strictness, FindingListener listener);
  ~Checker();

  // Call it first.
  void set_resource_listener(ResourceListener listener) {
    resource_listener_ = std::move(listener);
  }

  // A file of any name, or a directory: its files *.yaml, *.yml and
  // *.json that do not begin with a dot, in the order of their names, and so on in its directories,
  // as a file source finds them (registry/source/tree_walk.hpp).  A directory without any such file
  // is a warning, and so is one that is larger than a source may be; it is checked nevertheless.
  // The objects get the cluster and the network of `source`: those of two clusters are two, also by
  // the same name.
  void check(const std::string& path, Reader reader = read_manifest,
             const ManifestOptions& source = {});

  void check_standard_input(const ManifestOptions& source);

  // Says which hosts of all that has been checked `mesh.claims: strict` refuses; nothing with other
  // settings.  Call it last.
  void check_claims(const MeshSettings& settings);

  // Counts a finding, also one from elsewhere, and hands it to the listener.
  void add(Finding finding);

  const CheckSummary& summary() const { return summary_; }

 private:
  class Sink;

  void check_directory(const std::string& path, Reader reader, const ManifestOptions& source);
  void check_file(const std::string& path, Reader reader, ManifestOptions options,
                  const Result<std::string>& text);
  void cannot_run(const std::string& path, std::string message);
  void warn(const std::string& path, std::string message);

  Strictness strictness_;
  FindingListener listener_;
  ResourceListener resource_listener_;
  CheckSummary summary_;
  std::unique_ptr<Sink> sink_;
};

}  // namespace meshdns::registry
