// SPDX-License-Identifier: Apache-2.0
// The names that somebody may have meant by a name that does not exist.  For explanations and the
// analysis; no answer depends on it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "registry/snapshot/snapshot.hpp"

namespace meshdns::registry {

// A name, and how far hosts are from it.  REQUIRES: outlived by the text that it is given.
class MeantName {
 public:
  // `name`: lower case, no final dot; any text is safe.  `search`: the domains that resolvers
  // append to it.
  MeantName(std::string_view name, std::string_view cluster_domain,
            std::span<const std::string> search);

  // The name, and without appended domains.
  std::span<const std::string_view> spellings() const { return spellings_; }
  // The number of typing errors between the name, as it is or without appended domains, and the
  // host; nullopt: too many for the number of letters in the labels that differ.  Of a wildcard
  // its suffix counts, too, which the name or its parent may be.
  std::optional<std::size_t> typing_errors(std::string_view host) const;
  // The same, and of a Service "web.shop.svc.cluster.local" also what is in front of "svc": behind
  // it the name may have anything, or nothing.  A namespace that is missing is one error, one that
  // is another is two.
  std::optional<std::size_t> distance(std::string_view host) const;

 private:
  // A resolver appends one domain, somebody may have typed another one.
  static constexpr std::size_t kMaxSpellings = 4;

  std::string_view without_domain(std::string_view name, std::span<const std::string> search) const;
  void add_service(std::string_view spelling);
  // "web.shop"; empty: no name of a Service.
  std::string_view service_of(std::string_view host) const;

  std::string service_zone_;                         // "svc.cluster.local"
  std::vector<std::string_view> spellings_;          // the name first
  std::vector<std::string_view> service_spellings_;  // "web.shop", "web"
};

struct NearName {
  std::string name;  // "web.shop.svc.cluster.local", "*.wild.example.org"
  std::string ns;    // of the service that the client gets
};

struct NearNames {
  std::vector<NearName> names;  // the nearest first, then by name
  std::size_t compared = 0;     // hosts and wildcards, seen by the client or not
  std::size_t known = 0;        // as many there are
  // No name was left out that is nearer than these, or that there is room for.
  bool is_complete = true;
};

inline constexpr std::size_t kMaxNearNames = 5;

// The hosts and wildcards near `name` that the client sees.  `most_compared`: so many of all are
// looked at.
NearNames near_names(const Snapshot& snapshot, const Client& client, std::string_view name,
                     std::size_t most_compared);

}  // namespace meshdns::registry
