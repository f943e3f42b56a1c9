// SPDX-License-Identifier: Apache-2.0
// A name put together from parts, without memory of its own on the heap.
#pragma once

#include <array>
#include <cstring>
#include <string_view>

#include "registry/base/host_name.hpp"

namespace meshdns::dnsd {

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

}  // namespace meshdns::dnsd
