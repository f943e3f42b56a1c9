// SPDX-License-Identifier: Apache-2.0
// Whether a name exists for a client, whatever an upstream server says of it.  A denial of such a
// name would be wrong for all types and for all names below it (RFC 2308, section 5; RFC 8020): a
// cache in front of us would lose the addresses that we answer.
#pragma once

#include <array>
#include <cstring>
#include <string_view>

#include "dnsd/answer/decision.hpp"
#include "registry/base/host_name.hpp"

namespace meshdns::dnsd {

// A name put together from parts, without memory of its own on the heap.
// Text too long for a name becomes empty, which no record takes.
class NameBuffer {
 public:
  std::string_view join(std::string_view front, std::string_view zone) {
    if (front.empty()) return zone;
    const std::size_t size = front.size() + 1 + zone.size();
    if (size > text_.size()) return {};
    std::memcpy(text_.data(), front.data(), front.size());
    text_[front.size()] = '.';
    std::memcpy(text_.data() + front.size() + 1, zone.data(), zone.size());
    return {text_.data(), size};
  }

 private:
  std::array<char, kMaxHostLength> text_;
};

// Returns whether some type of the name is answered here, or a name below it is known.  A host that
// is left to the upstream as a whole (without addresses of ours) is not known here.
// REQUIRES: the name is not the root.
bool is_known_name(const registry::View& view, const Asked& asked);

// The same for a question that decide() leaves to the upstream: its own type is not looked at
// again.
bool is_known_by_other_types(const registry::View& view, const Asked& asked);

// Returns whether the name is answered here for its addresses, so that it is no alias.
bool has_own_addresses(const registry::View& view, const Asked& asked);

// Returns whether the client knows a name below this one, or the name is that of a translated
// address.
bool has_known_name_below(const registry::View& view, const Asked& asked);

}  // namespace meshdns::dnsd
