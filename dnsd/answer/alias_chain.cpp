// SPDX-License-Identifier: Apache-2.0
#include "dnsd/answer/alias_chain.hpp"

#include <utility>

#include "dnsd/answer/forwarded_answer.hpp"

namespace meshdns::dnsd {

bool AliasChain::add(std::string_view front, std::string_view target, std::uint32_t ttl) {
  const std::size_t dot = front.empty() ? 0 : 1;
  const std::size_t size = front.size() + dot + target.size();
  if (is_full() || size > kMaxHostLength) return false;
  Link& link = links_[size_++];
  link.ttl = ttl;
  link.reply = 0;
  link.size = static_cast<std::uint8_t>(size);
  if (dot != 0) {
    std::memcpy(link.text.data(), front.data(), front.size());
    link.text[front.size()] = '.';
  }
  std::memcpy(link.text.data() + front.size() + dot, target.data(), target.size());
  return true;
}

bool AliasChain::add(RepliedAliases aliases, std::string_view target) {
  if (!add({}, target, 0)) return false;
  replies_.push_back(std::move(aliases));
  links_[size_ - 1].reply = static_cast<std::uint8_t>(replies_.size());
  return true;
}

bool AliasChain::write(wire::MessageWriter& writer, Millis now,
                       wire::MessageWriter::NameRef& owner) const {
  owner = wire::MessageWriter::kQuestionName;
  for (std::size_t i = 0; i < size_; ++i) {
    if (links_[i].reply != 0) {
      if (!write_aliases(replies_[links_[i].reply - 1U], now, writer, owner)) return false;
      continue;
    }
    wire::MessageWriter::NameRef next = 0;
    if (!writer.add_name_record(wire::Section::Answer, owner, wire::Type::Cname, links_[i].ttl,
                                target(i), &next))
      return false;
    owner = next;
  }
  return true;
}

}  // namespace meshdns::dnsd
