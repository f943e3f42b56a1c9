// SPDX-License-Identifier: Apache-2.0
#include "dnsd/config/hosts_file.hpp"

#include <algorithm>

#include "dnsd/config/values.hpp"
#include "registry/base/printable.hpp"

namespace meshdns::dnsd {
namespace {

constexpr std::size_t kMaxHostsSize = std::size_t{32} << 20;

// "fe80::1%eth0": DNS has no place for the interface.
std::string_view without_zone(std::string_view address) {
  return address.substr(0, address.find('%'));
}

// Lists of blocked names have many formats.
std::string reason_of_address(std::string_view first, std::string_view rest) {
  const std::string begin = in_quotes(first) + " is not an IP address";
  const std::string_view second = take_word(rest);
  if (first.find("=/") != std::string_view::npos)
    return begin + "; this is a line of dnsmasq; write ADDRESS NAME";
  if (first.starts_with("||") || first.ends_with('^'))
    return begin + "; this is a rule of a content blocker; write ADDRESS NAME";
  if (IpAddress::parse(without_zone(second))) return begin + "; write the address before the name";
  if (second.empty() && parse_domain(first))
    return begin + "; write \"0.0.0.0 NAME\" to block a name";
  return begin + "; write ADDRESS NAME";
}

// The problem of the line, empty: none.  The parts without a problem count.
std::string read_line(std::string_view line, std::uint32_t number, HostsFile& out) {
  line = line.substr(0, line.find('#'));
  const std::string_view first = take_word(line);
  if (first.empty()) return {};
  const auto address = IpAddress::parse(without_zone(first));
  if (!address) return reason_of_address(first, line);
  HostsFile::Entry entry{*address, number, {}};
  std::string problem;
  for (auto word = take_word(line); !word.empty(); word = take_word(line)) {
    auto name = parse_domain(word);
    if (name)
      entry.names.push_back(*std::move(name));
    else if (problem.empty())
      problem = name.error().message;
  }
  if (entry.names.empty()) return problem.empty() ? in_quotes(first) + " has no name" : problem;
  out.entries.push_back(std::move(entry));
  return problem;
}

}  // namespace

HostsFile parse_hosts(std::string_view text) {
  HostsFile hosts;
  for (std::uint32_t number = 1; !text.empty(); ++number) {
    std::string problem = read_line(take_line(text), number, hosts);
    if (!problem.empty() && ++hosts.skipped <= HostsFile::kMaxProblems)
      hosts.problems.push_back({number, std::move(problem)});
  }
  return hosts;
}

Result<HostsFile> read_hosts_file(const std::string& path) {
  const auto text = read_text_file(path, kMaxHostsSize);
  if (!text) return std::unexpected(text.error());
  return parse_hosts(*text);
}

}  // namespace meshdns::dnsd
