// SPDX-License-Identifier: Apache-2.0
#include "dnsd/config/dnstap_target.hpp"

#include "dnsd/config/admin_address.hpp"
#include "registry/base/printable.hpp"

namespace meshdns::dnsd {
namespace {

constexpr std::string_view kSocketScheme = "unix:";
constexpr std::string_view kFileScheme = "file:";

}  // namespace

std::string to_string(const DnstapTarget& target) {
  const bool is_file = target.kind == DnstapTarget::Kind::File;
  return std::string(is_file ? kFileScheme : kSocketScheme) + target.path;
}

Result<DnstapTarget> parse_dnstap_target(std::string_view text) {
  const bool is_file = text.starts_with(kFileScheme);
  if (!is_file && !text.starts_with(kSocketScheme))
    return fail(in_quotes(text) + " is neither unix:PATH nor file:PATH");
  const std::string_view path = text.substr(kSocketScheme.size());  // both schemes are that long
  if (!path.starts_with('/') || path.ends_with('/') || path.find('\0') != std::string_view::npos)
    return fail(in_quotes(text) + " is not an absolute path; write unix:/run/dnstap.sock");
  if (!is_file && path.size() > UnixAddress::kMaxLength)
    return fail(in_quotes(text) + " is longer than " + std::to_string(UnixAddress::kMaxLength) +
                " bytes, the maximum for the path of a socket");
  return DnstapTarget{is_file ? DnstapTarget::Kind::File : DnstapTarget::Kind::Socket,
                      std::string(path)};
}

}  // namespace meshdns::dnsd
