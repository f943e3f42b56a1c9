// SPDX-License-Identifier: Apache-2.0
// Numbers and texts as a run of octets: integers are LEB128, texts carry their length first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace meshdns::registry {

// Appends to a text.  REQUIRES: which outlives it.
class Encoder {
 public:
  explicit Encoder(std::string& out) : out_(out) {}
  void number(std::uint64_t v) {
    while (v >= 0x80) {
      out_.push_back(static_cast<char>(v | 0x80));
      v >>= 7;
    }
    out_.push_back(static_cast<char>(v));
  }
  void text(std::string_view s) {
    number(s.size());
    out_.append(s);
  }
  void octets(const void* data, std::size_t n) { out_.append(static_cast<const char*>(data), n); }

 private:
  std::string& out_;
};

// Reads the output of Encoder.  Anything else ends in bad(), with numbers 0 and texts empty from
// there on.
class Decoder {
 public:
  explicit Decoder(std::string_view in) : in_(in) {}
  std::uint64_t number() {
    std::uint64_t v = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (in_.empty()) return refuse();
      const auto octet = static_cast<unsigned char>(in_.front());
      in_.remove_prefix(1);
      v |= static_cast<std::uint64_t>(octet & 0x7f) << shift;
      if (octet < 0x80) return v;
    }
    return refuse();
  }
  std::string_view text() {
    const std::uint64_t n = number();
    if (n > in_.size()) return refuse(), std::string_view();
    const std::string_view s = in_.substr(0, n);
    in_.remove_prefix(n);
    return s;
  }
  void octets(void* data, std::size_t n) {
    if (n > in_.size()) {
      refuse();
      return;
    }
    std::memcpy(data, in_.data(), n);
    in_.remove_prefix(n);
  }
  // A list's length: every element has at least one octet, so a length beyond the rest is a lie.
  std::uint64_t length() {
    const std::uint64_t n = number();
    return n > in_.size() ? refuse() : n;
  }
  bool bad() const { return bad_; }
  bool at_end() const { return in_.empty(); }

 private:
  std::uint64_t refuse() {
    bad_ = true;
    in_ = {};
    return 0;
  }
  std::string_view in_;
  bool bad_ = false;
};

}  // namespace meshdns::registry
