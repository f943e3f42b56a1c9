// SPDX-License-Identifier: Apache-2.0
#include "dnsd/admin/admin_token.hpp"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>

#include "dnsd/config/values.hpp"
#include "registry/base/host_name.hpp"

namespace meshdns::dnsd {
namespace {

constexpr std::size_t kMaxFileSize = 4'096;
constexpr std::string_view kSpace = " \t\r\n";
constexpr std::string_view kScheme = "bearer ";

std::string_view trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

using Digest = std::array<unsigned char, SHA256_DIGEST_LENGTH>;
Digest digest_of(std::string_view text) {
  Digest digest{};
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  return digest;
}

// "Bearer TOKEN"; the scheme's case does not count (RFC 9110, section 11.1).
std::string_view token_of(std::string_view authorization) {
  if (!equals_ignoring_case(authorization.substr(0, kScheme.size()), kScheme)) return {};
  return trimmed(authorization.substr(kScheme.size()));
}

}  // namespace

Result<std::string> read_admin_token(const std::string& path) {
  const auto text = read_text_file(path, kMaxFileSize);
  if (!text) return std::unexpected(text.error());
  const std::string_view content = trimmed(*text);
  std::string token(trimmed(content.substr(0, content.find('\n'))));
  if (token.size() < kMinTokenLength)
    return fail(path + ": the token is shorter than " + std::to_string(kMinTokenLength) +
                " characters");
  if (!std::ranges::all_of(token, [](char c) { return c > 0x20 && c < 0x7f; }))
    return fail(path + ": the token has characters other than printable ASCII");
  return token;
}

// Digests have one length, so that not even the token's length shows in the time.
bool is_same_token(std::string_view given, std::string_view wanted) {
  if (wanted.empty()) return false;
  const Digest a = digest_of(given);
  const Digest b = digest_of(wanted);
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::optional<HttpResponse> refuse_change(const HttpRequest& request,
                                          const std::string& token_file) {
  if (request.is_local) return std::nullopt;
  if (token_file.empty())
    return HttpResponse{403, "text/plain",
                        "a request over TCP that changes something needs a token, and none is "
                        "configured: set admin.token_file, or use a Unix socket as admin.listen\n"};
  const auto token = read_admin_token(token_file);
  if (!token)
    return HttpResponse{403, "text/plain", "admin.token_file: " + token.error().message + "\n"};
  if (!is_same_token(token_of(request.authorization), *token))
    return HttpResponse{401, "text/plain",
                        "a request over TCP that changes something needs the header "
                        "\"Authorization: Bearer TOKEN\" with the token of admin.token_file\n"};
  return std::nullopt;
}

}  // namespace meshdns::dnsd
