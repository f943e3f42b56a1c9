// SPDX-License-Identifier: Apache-2.0
// The hosts that one commit must derive again, and the sources that each of them gains or loses.
//
// Control thread.
#pragma once

#include <functional>
#include <memory_resource>
#include <string_view>
#include <vector>

#include "registry/snapshot/stored_resource.hpp"
#include "registry/tables/host_key.hpp"

namespace meshdns::registry {

// The changed sources of one host in one namespace.  The last change of a source wins.
struct SourceChange {
  void note(const StoredRef& source, bool is_added);
  std::vector<StoredRef> added;
  std::vector<StoredRef> removed;
};

class HostMarks {
 public:
  // A null `source` means another change of the host.
  void mark(const SymbolRef& ns, std::string_view host, StoredRef source = {}, bool added = false);
  void mark(const HostKey& key) { mark(key.ns, key.host); }
  bool empty() const { return marks_.empty(); }

  // Visits each marked host once and forgets the marks.  The namespaces of one host are neighbours,
  // in the order of their symbols.  Names of the cluster set come last, since they are derived from
  // others.
  void take(const std::function<void(const HostKey&, const SourceChange&)>& visit);

 private:
  struct Mark {
    SymbolRef ns;
    std::string_view host;  // in texts_
    StoredRef source;
    bool added = false;
  };
  // Vectors, not a map: with 100,000 hosts the nodes of a map would fragment the heap.
  std::pmr::monotonic_buffer_resource texts_;
  std::vector<Mark> marks_;
};

}  // namespace meshdns::registry
