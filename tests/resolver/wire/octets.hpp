// SPDX-License-Identifier: Apache-2.0
// Messages for tests, written with a comment per field.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "resolver/wire/name_text.hpp"
#include "resolver/wire/query_message.hpp"
#include "resolver/wire/types.hpp"

namespace meshdns::wire {

using Octets = std::vector<std::uint8_t>;

// Reproducible, and of a result that needs no casts.
class Random {
 public:
  explicit Random(std::uint32_t seed) : engine_(seed) {}
  std::uint32_t operator()() { return static_cast<std::uint32_t>(engine_()); }

 private:
  std::mt19937 engine_;
};

// Builds a message field by field: Message().header(0x0100, 1, 0, 0,
// 0).name("www.example.org").u16(1)...
class Message {
 public:
  Message& u8(unsigned value) {
    octets_.push_back(static_cast<std::uint8_t>(value));
    return *this;
  }
  Message& u16(unsigned value) { return u8(value >> 8).u8(value & 0xff); }
  Message& u32(std::uint32_t value) { return u16(value >> 16).u16(value & 0xffff); }
  Message& text(std::string_view octets) {
    octets_.insert(octets_.end(), octets.begin(), octets.end());
    return *this;
  }
  Message& name(std::string_view presentation) { return text(*name_from_text(presentation)); }
  Message& pointer(unsigned offset) { return u16(0xc000u | offset); }
  Message& header(unsigned flags, unsigned questions, unsigned answers = 0, unsigned authority = 0,
                  unsigned additional = 0, unsigned id = 0x1234) {
    return u16(id).u16(flags).u16(questions).u16(answers).u16(authority).u16(additional);
  }
  Message& question(std::string_view presentation, Type type = Type::A, Class qclass = Class::In) {
    return name(presentation).u16(static_cast<unsigned>(type)).u16(static_cast<unsigned>(qclass));
  }
  // Type, class IN, TTL and rdata; the owner comes before.
  Message& record(Type type, std::uint32_t ttl, std::string_view rdata) {
    return u16(static_cast<unsigned>(type))
        .u16(1)
        .u32(ttl)
        .u16(static_cast<unsigned>(rdata.size()))
        .text(rdata);
  }
  Message& opt(unsigned payload = 1232, std::string_view options = {}, unsigned version = 0,
               bool dnssec_ok = false) {
    return u8(0)
        .u16(41)
        .u16(payload)
        .u8(0)
        .u8(version)
        .u16(dnssec_ok ? 0x8000 : 0)
        .u16(static_cast<unsigned>(options.size()))
        .text(options);
  }
  Message& option(unsigned code, std::string_view value) {
    return u16(code).u16(static_cast<unsigned>(value.size())).text(value);
  }

  // NOLINTNEXTLINE(google-explicit-constructor): a message is written where octets are expected
  operator const Octets&() const { return octets_; }
  const Octets& octets() const { return octets_; }
  std::string string() const { return {octets_.begin(), octets_.end()}; }
  std::size_t size() const { return octets_.size(); }

 private:
  Octets octets_;
};

inline Octets query_for(std::string_view name, Type type = Type::A) {
  return Message().header(0x0100, 1).question(name, type);
}

// A query with EDNS.
inline Octets edns_query_for(std::string_view name, Type type = Type::A,
                             std::string_view options = {}) {
  return Message().header(0x0100, 1, 0, 0, 1).question(name, type).opt(1232, options);
}

}  // namespace meshdns::wire
