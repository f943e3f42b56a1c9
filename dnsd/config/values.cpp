// SPDX-License-Identifier: Apache-2.0
#include "dnsd/config/values.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <ranges>
#include <utility>
#include <vector>

#include "registry/base/durable_file.hpp"
#include "registry/base/host_name.hpp"
#include "registry/base/ip_address.hpp"
#include "registry/base/printable.hpp"

namespace meshdns::dnsd {
namespace {

constexpr std::size_t kMebi = std::size_t{1} << 20;
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

std::unexpected<Error> fail_with_errno(const std::string& path) {
  return fail(path + ": " + std::strerror(errno));
}

}  // namespace

Result<std::string> read_text_file(const std::string& path, std::size_t max_size) {
  const FileDescriptor file = open_for_reading(path);
  if (!file) return fail_with_errno(path);
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) return fail_with_errno(path);
  // A FIFO without a writer looks like an empty file.
  if (S_ISFIFO(status.st_mode)) return fail(path + ": is a pipe, not a file");
  auto text = read_to_end(file.get(), max_size);
  if (!text) return fail_with_errno(path);
  if (text->size() > max_size)
    return fail(path + ": larger than " +
                (max_size % kMebi == 0 ? std::to_string(max_size / kMebi) + " MiB"
                                       : std::to_string(max_size >> 10) + " KiB"));
  if (text->starts_with(kByteOrderMark)) text->erase(0, kByteOrderMark.size());
  return text;
}

namespace {

using std::chrono::milliseconds;

struct Unit {
  std::string_view name;
  std::uint64_t factor;
};
// "m" after "ms", so that the longer name is tried first.
constexpr std::array kTimeUnits = {Unit{"ms", 1}, Unit{"s", 1000}, Unit{"m", 60'000},
                                   Unit{"h", 3'600'000}};
constexpr std::array kSizeUnits = {Unit{"KiB", 1ULL << 10}, Unit{"MiB", 1ULL << 20},
                                   Unit{"GiB", 1ULL << 30}};
constexpr std::uint64_t kMaxDuration = 10ULL * 365 * 24 * 3'600'000;
constexpr std::uint64_t kMaxSize = 1ULL << 40;

// Takes the digits at the front of `text`; nullopt where there is none, they do not fit, or they
// begin with a needless 0: "010" is 8 in YAML 1.1 and C, and 10 to people.
std::optional<std::uint64_t> take_number(std::string_view& text) {
  const bool is_padded = text.size() > 1 && text[0] == '0' && text[1] >= '0' && text[1] <= '9';
  if (is_padded) return std::nullopt;
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

template <typename Units>
const Unit* take_unit(std::string_view& text, const Units& units) {
  const auto unit =
      std::ranges::find_if(units, [&](const Unit& u) { return text.starts_with(u.name); });
  if (unit == units.end()) return nullptr;
  text.remove_prefix(unit->name.size());
  return &*unit;
}

bool multiply_add(std::uint64_t& sum, std::uint64_t value, std::uint64_t factor,
                  std::uint64_t limit) {
  if (value > limit / factor) return false;
  sum += value * factor;
  return sum <= limit;
}

std::vector<std::string> reverse_zones(const IpPrefix& prefix) {
  const unsigned bits = bits_of_reverse_label(prefix.address);
  const std::size_t labels = (prefix.length + bits - 1) / bits;
  if (labels == 0) return {reverse_name(prefix.address, 0)};
  const std::string parent = reverse_name(prefix.address, labels - 1);
  const unsigned count = 1U << (labels * bits - prefix.length);
  const unsigned first = reverse_label_value(prefix.address, labels - 1) & ~(count - 1);
  std::vector<std::string> zones;
  for (unsigned i = 0; i < count; ++i)
    zones.push_back(reverse_label(prefix.address, first + i) + "." + parent);
  return zones;
}

// Habits of other servers.
std::string remedy_for_domain(std::string_view text) {
  std::string_view below = text;
  if (below.starts_with('*')) below.remove_prefix(1);
  if (below.starts_with('.') && parse_domain(below.substr(1)))
    return "; write " + in_quotes(below.substr(1)) + ", which covers all names below it";
  if (std::ranges::any_of(text, [](char c) { return static_cast<unsigned char>(c) >= 0x80; }))
    return "; write its ASCII form (xn--...), which the program idn2 prints";
  if (IpPrefix::parse(text) || text.find("://") != std::string_view::npos)
    return "; write the name of a domain, such as \"corp.example\"";
  return {};
}

bool is_domain_label(std::string_view label) {
  return !label.empty() && label.size() <= 63 && std::ranges::all_of(label, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  });
}

}  // namespace

Result<milliseconds> parse_duration(std::string_view text) {
  if (text == "0") return milliseconds{0};
  const std::string whole = in_quotes(text);
  const auto refused = fail(whole + " is not a duration; write 500ms, 2s, 5m or 1h");
  std::uint64_t sum = 0;
  do {
    const auto number = take_number(text);
    if (!number) return refused;
    if (text.empty())
      return fail(whole + " has no unit; write " + std::to_string(*number) + "s for seconds");
    const Unit* unit = take_unit(text, kTimeUnits);
    if (unit == nullptr) return refused;
    if (!multiply_add(sum, *number, unit->factor, kMaxDuration))
      return fail(whole + " is longer than ten years");
  } while (!text.empty());
  return milliseconds{static_cast<milliseconds::rep>(sum)};
}

std::string format_duration(milliseconds duration) {
  const auto count = static_cast<std::uint64_t>(duration.count());
  if (count == 0) return "0s";
  for (auto unit = kTimeUnits.rbegin(); unit != kTimeUnits.rend(); ++unit)
    if (count % unit->factor == 0)
      return std::to_string(count / unit->factor) + std::string(unit->name);
  return {};  // not reached: every count is a multiple of 1 ms
}

Result<std::uint64_t> parse_size(std::string_view text) {
  const std::string whole = in_quotes(text);
  const auto refused = fail(whole + " is not a size; write 64MiB, 512KiB, 1GiB or plain bytes");
  const auto number = take_number(text);
  if (!number) return refused;
  const Unit plain{"", 1};
  const Unit* unit = text.empty() ? &plain : take_unit(text, kSizeUnits);
  if (unit == nullptr || !text.empty()) return refused;
  std::uint64_t size = 0;
  if (!multiply_add(size, *number, unit->factor, kMaxSize))
    return fail(whole + " is larger than 1024GiB");
  return size;
}

std::string format_size(std::uint64_t octets) {
  for (auto unit = kSizeUnits.rbegin(); unit != kSizeUnits.rend(); ++unit)
    if (octets != 0 && octets % unit->factor == 0)
      return std::to_string(octets / unit->factor) + std::string(unit->name);
  return std::to_string(octets);
}

Result<std::uint64_t> parse_unsigned(std::string_view text) {
  std::string_view rest = text;
  const auto number = take_number(rest);
  if (!number || !rest.empty()) return fail(in_quotes(text) + " is not a whole number");
  return *number;
}

Result<double> parse_share(std::string_view text) {
  double share = 0;
  // No sign, no "nan" and no "inf"; an exponent is how JSON writes a small one.
  const auto is_digit_at = [&](std::size_t i) {
    return i < text.size() && text[i] >= '0' && text[i] <= '9';
  };
  const bool has_needless_zero = text.starts_with('0') && is_digit_at(1);
  const bool is_plain = (is_digit_at(0) || text.starts_with('.')) && !has_needless_zero;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), share);
  if (!is_plain || error != std::errc{} || end != text.data() + text.size() ||
      !(share >= 0 && share <= 1))
    return fail(in_quotes(text) + " is not a number from 0 to 1");
  return share;
}

Result<std::string> parse_domain(std::string_view text) {
  std::string name = canonical_host(text);
  const auto refuse = [&] {
    return fail(in_quotes(text) + " is not a domain name" + remedy_for_domain(text));
  };
  if (name.empty() || name.size() > kMaxHostLength) return refuse();
  const bool labels_good = std::ranges::all_of(std::views::split(name, '.'), [](const auto& label) {
    return is_domain_label(std::string_view(label.begin(), label.end()));
  });
  if (!labels_good) return refuse();
  return name;
}

Result<std::vector<std::string>> parse_zones(std::string_view text) {
  if (text == ".") return std::vector{std::string()};
  if (text.find('/') == std::string_view::npos) {
    auto domain = parse_domain(text);
    if (!domain) return std::unexpected(domain.error());
    return std::vector{*std::move(domain)};
  }
  const auto prefix = IpPrefix::parse(text);
  if (!prefix) return fail(in_quotes(text) + " is neither a zone name nor a prefix");
  return reverse_zones(*prefix);
}

}  // namespace meshdns::dnsd
