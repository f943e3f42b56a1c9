// SPDX-License-Identifier: Apache-2.0
// A queue of work for clients, in which they take turns: one with a thousand items delays another
// one's first item by one.
#pragma once

#include <cstddef>
#include <deque>
#include <unordered_map>
#include <utility>

#include "registry/base/ip_address.hpp"

namespace meshdns::dnsd {

// One thread only.
template <typename Item>
class FairQueue {
 public:
  // `client`: see limit_key_of().
  void push(const IpAddress& client, Item item) {
    std::deque<Item>& items = items_[client];
    if (items.empty()) turns_.push_back(client);
    items.push_back(std::move(item));
    ++size_;
  }

  // The oldest item of the client whose turn it is.  REQUIRES: size() > 0.
  Item pop() {
    const auto of_client = items_.find(turns_.front());
    Item item = std::move(of_client->second.front());
    of_client->second.pop_front();
    --size_;
    if (of_client->second.empty())
      items_.erase(of_client);
    else
      turns_.push_back(turns_.front());
    turns_.pop_front();
    return item;
  }

  std::size_t size() const { return size_; }

 private:
  std::unordered_map<IpAddress, std::deque<Item>> items_;  // of clients that have some
  std::deque<IpAddress> turns_;                            // these clients, the next one first
  std::size_t size_ = 0;
};

}  // namespace meshdns::dnsd
