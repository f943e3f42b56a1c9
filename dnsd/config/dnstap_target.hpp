// SPDX-License-Identifier: Apache-2.0
// The target of dnstap frames.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "registry/base/result.hpp"

namespace meshdns::dnsd {

struct DnstapTarget {
  enum class Kind : std::uint8_t { Socket, File };
  Kind kind = Kind::Socket;
  std::string path;  // absolute
  friend bool operator==(const DnstapTarget&, const DnstapTarget&) = default;
};

// "unix:/run/dnstap.sock", "file:/var/lib/meshdns/answers.fstrm": as parse_dnstap_target() reads.
std::string to_string(const DnstapTarget& target);
Result<DnstapTarget> parse_dnstap_target(std::string_view text);

}  // namespace meshdns::dnsd
