// SPDX-License-Identifier: Apache-2.0
// The rules for one host of a NameTable (istio.networking.nds.v1), for every form that a table
// comes in: a dump as JSON, and istiod's own messages.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "registry/model/resources.hpp"

namespace meshdns::registry {

// Builds one entry from the texts of its fields, in any order.  A complaint is fit to stand behind
// the place of the text.  Any thread.
class NameEntryBuilder {
 public:
  using Complaint = std::optional<std::string>;

  // `meta` has the cluster and the network, if any.
  explicit NameEntryBuilder(ObjectMeta meta = {}) { entry_.meta = std::move(meta); }

  // A complaint about the host, or about another name of it, refuses the entry.
  [[nodiscard]] Complaint set_host(std::string_view host);
  [[nodiscard]] Complaint add_alt_host(std::string_view host);
  // A complaint about an address leaves out the address only.
  [[nodiscard]] Complaint add_ip(std::string_view text);
  // After the last address.  Refuses an entry that has none but texts that are no addresses:
  // without any address the host would be forwarded.
  [[nodiscard]] Complaint check_ips() const;
  void set_registry(std::string_view name) { entry_.kubernetes = name == "Kubernetes"; }
  void set_short_name(std::string_view name);
  void set_namespace(std::string_view ns);

  const NameTableEntry& entry() const { return entry_; }
  NameTableEntry take() { return std::move(entry_); }
  ResourceKey key() const {
    return {Kind::NameTableEntry, entry_.meta.cluster, entry_.meta.ns, entry_.meta.name};
  }

 private:
  NameTableEntry entry_;
  bool has_bad_ip_ = false;
};

}  // namespace meshdns::registry
