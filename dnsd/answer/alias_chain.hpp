// SPDX-License-Identifier: Apache-2.0
// The aliases between a question and the name whose records answer it.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "registry/base/host_name.hpp"
#include "resolver/cache/cached_message.hpp"
#include "resolver/wire/message_writer.hpp"

namespace meshdns::dnsd {

// The aliases of one upstream server's reply, as far as they are followed: records of the message's
// answer, up to the alias that leads on.
struct RepliedAliases {
  MessageRef message;
  std::size_t records = 0;
  Freshness freshness = Freshness::Fresh;
};

// A value; allocates for aliases of replies only.
class AliasChain {
 public:
  // Links after which a chain counts as a loop.  The aliases of one reply are one link: their
  // number is limited by the size of the reply.
  static constexpr std::size_t kMaxLinks = 12;

  AliasChain() {}  // NOLINT(modernize-use-equals-default): links_ stays uninitialised
  AliasChain(const AliasChain& other) { *this = other; }
  AliasChain& operator=(const AliasChain& other) {
    size_ = other.size_;
    replies_ = other.replies_;
    std::memcpy(links_.data(), other.links_.data(), size_ * sizeof(Link));
    return *this;
  }

  // Goes on to `front`.`target` (an empty front is none).  False when the chain is full, or the
  // target is longer than a name.
  bool add(std::string_view front, std::string_view target, std::uint32_t ttl);
  // Goes on to `target`, to which the aliases of a reply to a question for last() (or for the
  // question, if the chain is empty) lead.
  bool add(RepliedAliases aliases, std::string_view target);
  void clear() {
    size_ = 0;
    replies_.clear();
  }
  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  bool is_full() const { return size_ == kMaxLinks; }
  // Lower case, no final dot.
  std::string_view target(std::size_t i) const { return {links_[i].text.data(), links_[i].size}; }
  // REQUIRES: not empty.
  std::string_view last() const { return target(size_ - 1); }

  // Writes the CNAME records, and what replies have beside theirs (DNAME, signatures); the first
  // one is owned by the question.  False when one did not fit.  `owner`: where the last target
  // lies.
  bool write(wire::MessageWriter& writer, Millis now, wire::MessageWriter::NameRef& owner) const;

 private:
  struct Link {
    std::uint32_t ttl;
    std::uint8_t reply;  // one more than the index in replies_; 0 = an alias of our own
    std::uint8_t size;
    std::array<char, kMaxHostLength> text;
  };
  std::size_t size_ = 0;
  std::array<Link, kMaxLinks> links_;
  std::vector<RepliedAliases> replies_;
};

}  // namespace meshdns::dnsd
