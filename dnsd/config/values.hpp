// SPDX-License-Identifier: Apache-2.0
// The notations of single values in the configuration.  Pure functions; the Error is a sentence
// without place or key, which the caller knows.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "registry/base/ip_address.hpp"
#include "registry/base/result.hpp"

namespace meshdns::dnsd {

// Takes the next word of `line`, as resolv.conf(5) and hosts(5) part them; empty at its end.
inline std::string_view take_word(std::string_view& line) {
  constexpr std::string_view blank = " \t\r\v\f";
  line.remove_prefix(std::min(line.find_first_not_of(blank), line.size()));
  const std::string_view word = line.substr(0, line.find_first_of(blank));
  line.remove_prefix(word.size());
  return word;
}

// Takes the next line of `text`, without its end.
inline std::string_view take_line(std::string_view& text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(line.size() + 1, text.size()));
  return line;
}

// A small file, read as a whole.

inline constexpr std::size_t kMaxTextSize = std::size_t{1} << 20;

// An Error ("PATH: reason") where `path` cannot be opened, is a directory, or is larger than
// `max_size`.  A byte order mark at its beginning is left out.
Result<std::string> read_text_file(const std::string& path, std::size_t max_size = kMaxTextSize);

// "500ms", "2s", "5m", "1h", "1h30m"; "0" needs no unit, everything else does.  At most 10 years.
Result<std::chrono::milliseconds> parse_duration(std::string_view text);
// The shortest text that parse_duration reads back as the same value: "1h", "1500ms", "0s".
std::string format_duration(std::chrono::milliseconds duration);

// "64MiB", "512KiB", "1GiB", or plain octets.  At most 1 TiB.
Result<std::uint64_t> parse_size(std::string_view text);
std::string format_size(std::uint64_t octets);

// Decimal digits only; no sign, no leading zeros' octal.
Result<std::uint64_t> parse_unsigned(std::string_view text);

// A decimal number from 0 to 1.
Result<double> parse_share(std::string_view text);

// The zones that an entry of `upstream.zones` or `mesh.reverse_zones` stands for: a zone name
// (returned canonical, the root "." as ""), or a prefix, which becomes its reverse zones: one where
// it ends on a label ("10.0.0.0/8" is "10.in-addr.arpa"), else as many as cover it ("10.96.0.0/12"
// is 16 of them; never more than 128).
Result<std::vector<std::string>> parse_zones(std::string_view text);

// A host or domain name: returned canonical.  Underscores are accepted (RFC 2181, section 11).
Result<std::string> parse_domain(std::string_view text);

}  // namespace meshdns::dnsd
