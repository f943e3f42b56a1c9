// SPDX-License-Identifier: Apache-2.0
// Builds DNS responses octet by octet, right ones and wrong ones.
#pragma once

#include <arpa/inet.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace meshdns::resolver {

using Bytes = std::vector<std::uint8_t>;

inline constexpr std::uint16_t kA = 1;
inline constexpr std::uint16_t kCname = 5;
inline constexpr std::uint16_t kSoa = 6;
inline constexpr std::uint16_t kAaaa = 28;

// "n7.example.org" from "n", 7, ".example.org".
inline std::string numbered(std::string_view prefix, int number, std::string_view suffix) {
  std::string text(prefix);
  text.append(std::to_string(number)).append(suffix);
  return text;
}

inline void put16(Bytes& out, std::uint16_t value) {
  out.push_back(static_cast<std::uint8_t>(value >> 8));
  out.push_back(static_cast<std::uint8_t>(value & 0xff));
}
inline void put32(Bytes& out, std::uint32_t value) {
  put16(out, static_cast<std::uint16_t>(value >> 16));
  put16(out, static_cast<std::uint16_t>(value & 0xffff));
}
inline Bytes name_bytes(std::string_view name) {
  Bytes out;
  while (!name.empty()) {
    const std::size_t dot = std::min(name.find('.'), name.size());
    out.push_back(static_cast<std::uint8_t>(dot));
    out.insert(out.end(), name.begin(), name.begin() + static_cast<std::ptrdiff_t>(dot));
    name.remove_prefix(std::min(dot + 1, name.size()));
  }
  out.push_back(0);
  return out;
}
inline Bytes address_bytes(const std::string& text) {
  const bool v6 = text.find(':') != std::string::npos;
  Bytes out(v6 ? 16 : 4);
  inet_pton(v6 ? AF_INET6 : AF_INET, text.c_str(), out.data());
  return out;
}

class MessageBuilder {
 public:
  MessageBuilder(std::string_view qname, std::uint16_t qtype, std::uint16_t id = 0) {
    put16(bytes_, id);
    bytes_.push_back(0x81);  // QR, RD
    bytes_.push_back(0x80);  // RA, NOERROR
    put16(bytes_, 1);
    put16(bytes_, 0);
    put16(bytes_, 0);
    put16(bytes_, 0);
    append(name_bytes(qname));
    put16(bytes_, qtype);
    put16(bytes_, 1);
  }
  MessageBuilder& rcode(std::uint8_t rcode) {
    bytes_[3] = static_cast<std::uint8_t>((bytes_[3] & 0xf0) | rcode);
    return *this;
  }
  MessageBuilder& flags_high(std::uint8_t flags) {
    bytes_[2] = flags;
    return *this;
  }
  MessageBuilder& answer(std::string_view owner, std::uint16_t type, std::uint32_t ttl,
                         const Bytes& data) {
    return record(7, owner, type, ttl, data);
  }
  MessageBuilder& authority(std::string_view owner, std::uint16_t type, std::uint32_t ttl,
                            const Bytes& data) {
    return record(9, owner, type, ttl, data);
  }
  MessageBuilder& additional(std::string_view owner, std::uint16_t type, std::uint32_t ttl,
                             const Bytes& data) {
    return record(11, owner, type, ttl, data);
  }
  // An OPT record with that cookie, and the upper bits of the response code.
  MessageBuilder& cookie(const Bytes& cookie, std::uint8_t extended_rcode = 0) {
    Bytes option;
    put16(option, 10);
    put16(option, static_cast<std::uint16_t>(cookie.size()));
    option.insert(option.end(), cookie.begin(), cookie.end());
    return additional("", 41, std::uint32_t{extended_rcode} << 24, option);
  }
  MessageBuilder& soa(std::uint32_t ttl, std::uint32_t minimum) {
    Bytes data = name_bytes("ns.example.org");
    const Bytes mailbox = name_bytes("root.example.org");
    data.insert(data.end(), mailbox.begin(), mailbox.end());
    for (const std::uint32_t value : {1U, 2U, 3U, 4U, minimum}) put32(data, value);
    return authority("example.org", kSoa, ttl, data);
  }
  MessageBuilder& raw(const Bytes& bytes) {
    append(bytes);
    return *this;
  }
  MessageBuilder& count(std::size_t at, std::uint8_t count) {
    bytes_[at] = count;
    return *this;
  }
  const Bytes& bytes() const { return bytes_; }

 private:
  void append(const Bytes& more) { bytes_.insert(bytes_.end(), more.begin(), more.end()); }
  MessageBuilder& record(std::size_t count_at, std::string_view owner, std::uint16_t type,
                         std::uint32_t ttl, const Bytes& data) {
    append(name_bytes(owner));
    put16(bytes_, type);
    put16(bytes_, 1);
    put32(bytes_, ttl);
    put16(bytes_, static_cast<std::uint16_t>(data.size()));
    append(data);
    if (++bytes_[count_at] == 0) ++bytes_[count_at - 1];
    return *this;
  }
  Bytes bytes_;
};

}  // namespace meshdns::resolver
