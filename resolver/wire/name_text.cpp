// SPDX-License-Identifier: Apache-2.0
#include "resolver/wire/name_text.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "registry/base/host_name.hpp"
#include "resolver/wire/types.hpp"

namespace meshdns::wire {
namespace {

void append_escaped(std::string& text, char c) {
  const auto octet = static_cast<std::uint8_t>(c);
  if (octet <= 0x20 || octet >= 0x7f) {
    text += '\\';
    text += static_cast<char>('0' + octet / 100);
    text += static_cast<char>('0' + octet / 10 % 10);
    text += static_cast<char>('0' + octet % 10);
    return;
  }
  if (std::string_view(".\\\"();@$").find(c) != std::string_view::npos) text += '\\';
  text += c;
}

// Reads one octet, escaped or not, from the front of `text`.
Result<char> take_octet(std::string_view& text) {
  const char c = text.front();
  text.remove_prefix(1);
  if (c != '\\') return c;
  if (text.empty()) return fail("ends in a lone backslash");
  const auto is_digit = [](char d) { return d >= '0' && d <= '9'; };
  if (!is_digit(text.front())) {
    const char escaped = text.front();
    text.remove_prefix(1);
    return escaped;
  }
  if (text.size() < 3 || !std::all_of(text.begin(), text.begin() + 3, is_digit))
    return fail("has a backslash with fewer than three digits after it");
  const int value = (text[0] - '0') * 100 + (text[1] - '0') * 10 + (text[2] - '0');
  if (value > 255) return fail("has an escape above \\255");
  text.remove_prefix(3);
  return static_cast<char>(value);
}

}  // namespace

std::string name_to_text(std::string_view wire) {
  if (wire == std::string_view("\0", 1)) return ".";
  std::string text;
  while (!wire.empty() && wire.front() != 0) {
    const auto length = static_cast<std::uint8_t>(wire.front());
    if (length > kMaxLabelLength || length >= wire.size()) return text + "<malformed>";
    for (const char c : wire.substr(1, length)) append_escaped(text, c);
    text += '.';
    wire.remove_prefix(std::size_t{1} + length);
  }
  return wire.size() == 1 ? text : text + "<malformed>";
}

Result<std::string> name_from_text(std::string_view text) {
  const auto wrong = [whole = text](std::string_view what) {
    std::string message = "\"";
    message.append(whole.substr(0, 300)).append("\" is not a domain name: it ").append(what);
    return fail(std::move(message));
  };
  if (text.empty()) return wrong("is empty; the root is \".\"");
  if (text == ".") return std::string(1, '\0');
  std::string wire(1, '\0');
  std::size_t label_at = 0;
  while (!text.empty()) {
    if (text.front() == '.') {
      if (wire.size() == label_at + 1) return wrong("has an empty label");
      text.remove_prefix(1);
      label_at = wire.size();
      wire += '\0';
      continue;
    }
    const Result<char> octet = take_octet(text);
    if (!octet) return wrong(octet.error().message);
    wire += *octet;
    const std::size_t length = wire.size() - label_at - 1;
    if (length > kMaxLabelLength) return wrong("has a label of more than 63 octets");
    wire[label_at] = static_cast<char>(length);
  }
  if (wire.size() != label_at + 1) wire += '\0';  // no final dot
  if (wire.size() > kMaxNameLength) return wrong("is longer than 255 octets");
  return wire;
}

std::string wire_from_host(std::string_view host) {
  if (host.ends_with('.')) host.remove_suffix(1);
  if (host.empty()) return std::string(1, '\0');
  if (host.size() > kMaxNameLength - 2) return {};
  std::string wire;
  wire.reserve(host.size() + 2);
  for (std::size_t start = 0; start <= host.size();) {
    const std::size_t end = std::min(host.find('.', start), host.size());
    const std::size_t length = end - start;
    if (length == 0 || length > kMaxLabelLength) return {};
    wire += static_cast<char>(length);
    wire += host.substr(start, length);
    start = end + 1;
  }
  wire += '\0';
  return wire;
}

bool host_from_wire(std::string_view wire, std::string& host) {
  host.clear();
  bool plain = true;
  while (wire.size() > 1) {
    const auto length = static_cast<std::uint8_t>(wire.front());
    if (!host.empty()) host += '.';
    for (const char c : wire.substr(1, length)) {
      plain = plain && c != '.' && c != '\0';
      host += to_lower(c);
    }
    wire.remove_prefix(std::min<std::size_t>(std::size_t{1} + length, wire.size()));
  }
  return plain;
}

bool is_wire_name(std::string_view wire) {
  if (wire.size() > kMaxNameLength) return false;
  std::size_t at = 0;
  while (at < wire.size() && wire[at] != 0) {
    const auto length = static_cast<std::uint8_t>(wire[at]);
    if (length > kMaxLabelLength) return false;
    at += std::size_t{1} + length;
  }
  return at + 1 == wire.size();
}

}  // namespace meshdns::wire
