// SPDX-License-Identifier: Apache-2.0
#include "registry/base/ip_address.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>

namespace meshdns {

unsigned bits_of_reverse_label(const IpAddress& address) { return address.is_v4() ? 8 : 4; }

unsigned reverse_label_value(const IpAddress& address, std::size_t index) {
  if (address.is_v4()) return address.octets()[12 + index];
  const unsigned octet = address.octets()[index / 2];
  return index % 2 == 0 ? octet >> 4 : octet & 0xf;
}

std::string reverse_label(const IpAddress& address, unsigned value) {
  return address.is_v4() ? std::to_string(value) : std::string(1, "0123456789abcdef"[value]);
}

std::string reverse_name(const IpAddress& address, std::size_t labels) {
  std::string name;
  for (std::size_t i = labels; i-- > 0;)
    name += reverse_label(address, reverse_label_value(address, i)) + ".";
  return name += address.is_v4() ? "in-addr.arpa" : "ip6.arpa";
}

std::string reverse_name(const IpAddress& address) {
  return reverse_name(address, address.is_v4() ? 4 : 32);
}

namespace {

std::optional<std::uint8_t> parse_length(std::string_view text, unsigned max) {
  if (text.empty() || text.size() > 3 || (text.size() > 1 && text[0] == '0')) return std::nullopt;
  unsigned value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value > max) return std::nullopt;
  return static_cast<std::uint8_t>(value);
}

}  // namespace

std::optional<IpAddress> IpAddress::parse(std::string_view text) {
  std::array<char, INET6_ADDRSTRLEN> buffer;
  // A NUL inside would end inet_pton's text early.
  if (text.size() >= buffer.size() || text.find('\0') != std::string_view::npos)
    return std::nullopt;
  std::ranges::copy(text, buffer.begin());
  buffer[text.size()] = '\0';
  if (text.find(':') != std::string_view::npos) {
    std::array<std::uint8_t, 16> octets;
    if (inet_pton(AF_INET6, buffer.data(), octets.data()) != 1) return std::nullopt;
    return v6(octets);
  }
  std::array<std::uint8_t, 4> octets;
  if (inet_pton(AF_INET, buffer.data(), octets.data()) != 1) return std::nullopt;
  return v4(octets);
}

std::optional<IpAddress> IpAddress::from_sockaddr(const sockaddr* address) {
  if (address == nullptr) return std::nullopt;
  if (address->sa_family == AF_INET) {
    sockaddr_in in;
    std::memcpy(&in, address, sizeof in);
    std::array<std::uint8_t, 4> octets;
    std::memcpy(octets.data(), &in.sin_addr, octets.size());
    return v4(octets);
  }
  if (address->sa_family == AF_INET6) {
    sockaddr_in6 in6;
    std::memcpy(&in6, address, sizeof in6);
    std::array<std::uint8_t, 16> octets;
    std::memcpy(octets.data(), &in6.sin6_addr, octets.size());
    return v6(octets);
  }
  return std::nullopt;
}

bool IpAddress::is_unspecified() const { return *this == IpAddress() || *this == v4({0, 0, 0, 0}); }

bool IpAddress::is_loopback() const {
  if (is_v4()) return octets_[12] == 127;
  return octets_[15] == 1 && std::all_of(octets_.begin(), octets_.end() - 1,
                                         [](std::uint8_t octet) { return octet == 0; });
}

std::string IpAddress::to_string() const {
  std::array<char, INET6_ADDRSTRLEN> buffer;
  if (is_v4())
    inet_ntop(AF_INET, octets_.data() + 12, buffer.data(), buffer.size());
  else
    inet_ntop(AF_INET6, octets_.data(), buffer.data(), buffer.size());
  return buffer.data();
}

std::optional<IpPrefix> IpPrefix::parse(std::string_view text) {
  const std::size_t slash = text.find('/');
  const auto address = IpAddress::parse(text.substr(0, slash));
  if (!address) return std::nullopt;
  const std::uint8_t bits = address->is_v4() ? 32 : 128;
  if (slash == std::string_view::npos) return IpPrefix{*address, bits};
  // The length of an IPv4-mapped prefix counts the bits of IPv6: ::ffff:10.0.0.0/104 is
  // 10.0.0.0/8.
  const bool is_mapped = address->is_v4() && text.find(':') != std::string_view::npos;
  const auto length = parse_length(text.substr(slash + 1), is_mapped ? 128 : bits);
  if (!length || (is_mapped && *length < 96)) return std::nullopt;
  return IpPrefix{*address, static_cast<std::uint8_t>(is_mapped ? *length - 96 : *length)};
}

bool IpPrefix::contains(const IpAddress& other) const {
  if (address.is_v4() != other.is_v4()) return false;
  const std::size_t bits = length + (address.is_v4() ? 96U : 0U);
  const std::size_t whole = bits / 8;
  if (!std::equal(address.octets().begin(), address.octets().begin() + static_cast<long>(whole),
                  other.octets().begin()))
    return false;
  const unsigned rest = bits % 8;
  if (rest == 0) return true;
  const unsigned mask = (0xff00U >> rest) & 0xffU;
  return (address.octets()[whole] & mask) == (other.octets()[whole] & mask);
}

IpPrefix IpPrefix::network() const {
  const std::size_t bits = length + (address.is_v4() ? 96U : 0U);
  std::array<std::uint8_t, 16> octets = address.octets();
  for (std::size_t i = 0; i < octets.size(); ++i) {
    const std::size_t kept = bits <= 8 * i ? 0 : std::min<std::size_t>(bits - 8 * i, 8);
    octets[i] &= static_cast<std::uint8_t>(0xff00U >> kept);
  }
  return {IpAddress::v6(octets), length};
}

std::string IpPrefix::to_string() const {
  return address.to_string() + "/" + std::to_string(length);
}

}  // namespace meshdns
