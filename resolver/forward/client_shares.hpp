// SPDX-License-Identifier: Apache-2.0
// Divides the places on the connections to an upstream among clients, so that none can take them
// all: a client gets another place only while it holds fewer than are free.  One client alone gets
// half of all places, each of two a third, and a new client always finds some.
#pragma once

#include <cstddef>
#include <unordered_map>
#include <utility>

#include "registry/base/ip_address.hpp"

namespace meshdns::dnsd {

// The reactor's thread.
class ClientShares {
 public:
  explicit ClientShares(std::size_t places) : free_(places) {}

  // A place, given back at the end.  REQUIRES: the ClientShares outlives it.
  class Place {
   public:
    Place() = default;  // none
    Place(Place&& other) noexcept { swap(other); }
    Place& operator=(Place&& other) noexcept {
      Place(std::move(other)).swap(*this);
      return *this;
    }
    ~Place() {
      if (shares_ != nullptr) shares_->give_back(client_);
    }
    explicit operator bool() const { return shares_ != nullptr; }

   private:
    friend class ClientShares;
    Place(ClientShares& shares, const IpAddress& client) : shares_(&shares), client_(client) {}
    void swap(Place& other) noexcept {
      std::swap(shares_, other.shares_);
      std::swap(client_, other.client_);
    }
    ClientShares* shares_ = nullptr;
    IpAddress client_;
  };

  // `client`: see limit_key_of().  None where its share is in use.
  Place take(const IpAddress& client) {
    const auto held = held_.find(client);
    if ((held == held_.end() ? 0 : held->second) >= free_) return {};
    --free_;
    held == held_.end() ? void(held_.emplace(client, 1)) : void(++held->second);
    return {*this, client};
  }
  std::size_t free() const { return free_; }

 private:
  void give_back(const IpAddress& client) {
    ++free_;
    const auto held = held_.find(client);
    if (--held->second == 0) held_.erase(held);
  }

  std::size_t free_;
  std::unordered_map<IpAddress, std::size_t> held_;
};

}  // namespace meshdns::dnsd
