// SPDX-License-Identifier: Apache-2.0
// The aliases between a question and the name whose records answer it.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "registry/base/host_name.hpp"
#include "wire/message_writer.hpp"

namespace meshdns::dnsd {

// A value; never allocates.
class AliasChain {
 public:
  // Links after which a chain counts as a loop.
  static constexpr std::size_t kMaxLinks = 8;

  AliasChain() {}  // NOLINT(modernize-use-equals-default): links_ stays uninitialised
  AliasChain(const AliasChain& other) { *this = other; }
  AliasChain& operator=(const AliasChain& other) {
    size_ = other.size_;
    std::memcpy(links_.data(), other.links_.data(), size_ * sizeof(Link));
    return *this;
  }

  // Goes on to `front`.`target` (an empty front is none).  False when the chain is full, or the
  // target is longer than a name.
  bool add(std::string_view front, std::string_view target, std::uint32_t ttl);
  void clear() { size_ = 0; }
  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  bool is_full() const { return size_ == kMaxLinks; }
  // Lower case, no final dot.
  std::string_view target(std::size_t i) const { return {links_[i].text.data(), links_[i].size}; }
  // REQUIRES: not empty.
  std::string_view last() const { return target(size_ - 1); }

  // Writes the CNAME records; the first one is owned by the question.  False when one did not fit.
  // `owner`: where the last target lies.
  bool write(wire::MessageWriter& writer, wire::MessageWriter::NameRef& owner) const;

 private:
  struct Link {
    std::uint32_t ttl;
    std::uint8_t size;
    std::array<char, kMaxHostLength> text;
  };
  std::size_t size_ = 0;
  std::array<Link, kMaxLinks> links_;
};

}  // namespace meshdns::dnsd
