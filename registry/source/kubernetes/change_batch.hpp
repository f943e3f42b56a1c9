// SPDX-License-Identifier: Apache-2.0
// Gathers single changes into a batch for the registry: the last word on an object counts, whatever
// came before it.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "registry/source/source.hpp"

namespace meshdns::registry::kubernetes {

class ChangeBatch {
 public:
  void upsert(const std::string& origin, Resource&& resource);
  void remove(const std::string& origin, ResourceKey&& key);
  // The end of a list: what is not in `retained` goes.  As with drop(), take() has to follow before
  // anything new of that origin: a batch adds first and takes away last.
  void retain(const std::string& origin, std::vector<std::uint64_t>&& retained);
  // Everything of the origin goes.
  void drop(const std::string& origin);
  // The origin's findings are other ones now, even if nothing else changes.
  void touch(const std::string& origin) { updates_[origin]; }

  bool empty() const { return updates_.empty() && ends_.empty(); }
  std::size_t size() const { return size_; }  // objects

  // The changes, each with its origin, in order; the batch is empty then.
  std::vector<OriginChange> take();

 private:
  std::map<std::string, OriginChange> updates_;
  std::vector<OriginChange> ends_;  // Retain and Remove
  std::size_t size_ = 0;
};

}  // namespace meshdns::registry::kubernetes
