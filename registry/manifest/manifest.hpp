// SPDX-License-Identifier: Apache-2.0
// From the text of a manifest (YAML or JSON, multi-document, List kinds, NameTable dumps excepted)
// to resources and findings.  No files, no clock, no log here; any thread.
#pragma once

#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "registry/base/finding.hpp"
#include "registry/base/result.hpp"
#include "registry/model/resources.hpp"

namespace meshdns::registry {

// Receives the content of a manifest, in the order of the text.
class ManifestSink {
 public:
  virtual ~ManifestSink() = default;
  // A valid resource; `line` is 1-based, of the object's first line.
  virtual void on_resource(Resource&& resource, std::uint32_t line) = 0;
  // An object of a known kind that was refused; its findings came before.  A holder of an
  // earlier good version keeps it.  `key` has at least the kind and, where readable, the name.
  virtual void on_refused(const ResourceKey& key, std::uint32_t line) = 0;
  virtual void on_finding(Finding&& finding) = 0;
};

struct ManifestOptions {
  std::string path;     // for findings: the file, or the name of the source
  std::string cluster;  // stamped on every object's meta
  std::string network;
  std::string default_namespace = "default";  // for namespaced objects without one
  // Written by hand, perhaps.  False for objects of the API: its server knows more fields than we
  // do, and what an object lacks is yet to come.
  bool from_file = true;
  // `mesh.gateway_names.kinds`: of the kinds that give names to gateways, those that are read.  A
  // Service is read anyway; with Kind::Service, its annotations of external-dns are, too.
  std::vector<Kind> gateway_kinds = {};
  std::stop_token stop = {};  // once requested, the reading of a text ends soon and with an error
};

// Reads every document.  A syntax error is one finding with its line; documents before it are
// delivered, those after it are not, and the Result is an Error (so that a half-written file never
// replaces a good one).  Bounds: 64 MiB of text, 64 levels, aliases
// refused except small ones.  Kinds without meaning for names (Deployment, and all
// of groups that are not read) are silent; unknown kinds of the groups that are read are warnings.
Result<void> read_manifest(std::string_view text, const ManifestOptions& options,
                           ManifestSink& sink);

}  // namespace meshdns::registry
