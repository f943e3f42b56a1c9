// SPDX-License-Identifier: Apache-2.0
#include "dnsd/query/alias_chain.hpp"

namespace meshdns::dnsd {

bool AliasChain::add(std::string_view front, std::string_view target, std::uint32_t ttl) {
  const std::size_t dot = front.empty() ? 0 : 1;
  const std::size_t size = front.size() + dot + target.size();
  if (is_full() || size > kMaxHostLength) return false;
  Link& link = links_[size_++];
  link.ttl = ttl;
  link.size = static_cast<std::uint8_t>(size);
  if (dot != 0) {
    std::memcpy(link.text.data(), front.data(), front.size());
    link.text[front.size()] = '.';
  }
  std::memcpy(link.text.data() + front.size() + dot, target.data(), target.size());
  return true;
}

bool AliasChain::write(wire::MessageWriter& writer, wire::MessageWriter::NameRef& owner) const {
  owner = wire::MessageWriter::kQuestionName;
  for (std::size_t i = 0; i < size_; ++i) {
    wire::MessageWriter::NameRef next = 0;
    if (!writer.add_name_record(wire::Section::Answer, owner, wire::Type::Cname, links_[i].ttl,
                                target(i), &next))
      return false;
    owner = next;
  }
  return true;
}

}  // namespace meshdns::dnsd
