// SPDX-License-Identifier: Apache-2.0
#include "dnsd/config/hosts_file.hpp"

#include <algorithm>

#include "dnsd/config/text_file.hpp"
#include "dnsd/config/values.hpp"
#include "dnsd/config/words.hpp"

namespace meshdns::dnsd {
namespace {

constexpr std::size_t kMaxHostsSize = std::size_t{32} << 20;

// "fe80::1%eth0": DNS has no place for the interface.
std::string_view without_zone(std::string_view address) {
  return address.substr(0, address.find('%'));
}

// False when a part of the line cannot be understood; the rest of it counts.
bool read_line(std::string_view line, std::uint32_t number, HostsFile& out) {
  line = line.substr(0, line.find('#'));
  const std::string_view first = take_word(line);
  if (first.empty()) return true;
  const auto address = IpAddress::parse(without_zone(first));
  if (!address) return false;
  HostsFile::Entry entry{*address, number, {}};
  bool good = true;
  for (auto word = take_word(line); !word.empty(); word = take_word(line)) {
    auto name = parse_domain(word);
    if (name)
      entry.names.push_back(*std::move(name));
    else
      good = false;
  }
  if (entry.names.empty()) return false;
  out.entries.push_back(std::move(entry));
  return good;
}

}  // namespace

HostsFile parse_hosts(std::string_view text) {
  HostsFile hosts;
  for (std::uint32_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (!read_line(text.substr(0, end), number, hosts)) {
      ++hosts.skipped;
      if (hosts.first_skipped == 0) hosts.first_skipped = number;
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return hosts;
}

Result<HostsFile> read_hosts_file(const std::string& path) {
  const auto text = read_text_file(path, kMaxHostsSize);
  if (!text) return std::unexpected(text.error());
  return parse_hosts(*text);
}

}  // namespace meshdns::dnsd
