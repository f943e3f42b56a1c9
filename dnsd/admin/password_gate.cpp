// SPDX-License-Identifier: Apache-2.0
#include "dnsd/admin/password_gate.hpp"

#include <crypt.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>
#include <utility>

#include "dnsd/config/values.hpp"
#include "registry/base/handle.hpp"

namespace meshdns::dnsd {
namespace {

constexpr std::size_t kMaxPasswordFile = std::size_t{64} << 10;
constexpr int kMaxRounds = 100'000;
// SHA-512 crypt takes longer with long passwords; bcrypt uses the first 72 bytes.
constexpr std::size_t kMaxPassword = 512;

std::string_view without_space(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const auto begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

std::optional<int> number_at_start(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() ? std::optional(number) : std::nullopt;
}

bool is_bcrypt(std::string_view hash) {
  constexpr std::size_t kLength = 60;
  return hash.size() == kLength &&
         (hash.starts_with("$2a$") || hash.starts_with("$2b$") || hash.starts_with("$2y$"));
}

// Empty: the hash can be checked, in reasonable time.
std::string complaint_about_hash(const std::string& hash) {
  constexpr std::string_view kRounds = "$6$rounds=";
  constexpr std::size_t kCostAt = 4;
  if (!is_bcrypt(hash) && !hash.starts_with("$6$"))
    return "the hash is neither bcrypt nor SHA-512 crypt; make it with `htpasswd -nB NAME`";
  if (is_bcrypt(hash) && number_at_start(hash.substr(kCostAt)) > PasswordFile::kMaxCost)
    return "the cost of the hash is higher than " + std::to_string(PasswordFile::kMaxCost);
  if (hash.starts_with(kRounds) && number_at_start(hash.substr(kRounds.size())) > kMaxRounds)
    return "the hash has more than " + std::to_string(kMaxRounds) + " rounds";
  if (crypt_checksalt(hash.c_str()) != CRYPT_SALT_OK) return "the hash is not valid";
  return {};
}

std::string hash_of(const std::string& password, const std::string& like) {
  const auto work = std::make_unique<crypt_data>();
  const char* const hash = crypt_r(password.c_str(), like.c_str(), work.get());
  std::string made = hash == nullptr ? "" : hash;
  OPENSSL_cleanse(work.get(), sizeof *work);
  return made;
}

}  // namespace

Result<PasswordFile> PasswordFile::parse(std::string_view text) {
  PasswordFile file;
  std::size_t number = 0;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    const std::string_view line = without_space(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::string place = "line " + std::to_string(++number) + ": ";
    if (line.empty() || line.starts_with('#')) continue;
    const auto colon = line.find(':');
    if (colon == std::string_view::npos || colon == 0) return fail(place + "is not NAME:HASH");
    User user{std::string(line.substr(0, colon)), std::string(line.substr(colon + 1))};
    if (auto complaint = complaint_about_hash(user.hash); !complaint.empty())
      return fail(place + std::move(complaint));
    if (std::ranges::find(file.users_, user.name, &User::name) != file.users_.end())
      return fail(place + "the name occurs twice");
    if (file.users_.size() == kMaxUsers)
      return fail(place + "more than " + std::to_string(kMaxUsers) + " names");
    file.users_.push_back(std::move(user));
  }
  if (file.users_.empty()) return fail("has no names");
  return file;
}

Result<PasswordFile> PasswordFile::read(const std::string& path) {
  const auto text = read_text_file(path, kMaxPasswordFile);
  if (!text) return std::unexpected(text.error());
  auto file = parse(*text);
  if (!file) return fail(path + ": " + file.error().message);
  return file;
}

bool PasswordFile::admits(const Credentials& credentials) const {
  if (credentials.password.size() > kMaxPassword) return false;
  const auto found = std::ranges::find(users_, credentials.user, &User::name);
  const std::string& wanted = found == users_.end() ? users_.front().hash : found->hash;
  const std::string made = hash_of(credentials.password, wanted);
  const bool is_same =
      made.size() == wanted.size() && CRYPTO_memcmp(made.data(), wanted.data(), made.size()) == 0;
  return is_same && found != users_.end();
}

struct PasswordGate::Work {
  uv_work_t handle{};
  PasswordGate* gate = nullptr;
  std::shared_ptr<const PasswordFile> passwords;
  Credentials credentials;
  bool is_right = false;
};

// A name has no colon (RFC 7617, section 2), so the text is that of one pair only.
PasswordGate::Digest PasswordGate::digest_of(const Credentials& credentials) {
  static_assert(sizeof(Digest) == SHA256_DIGEST_LENGTH);
  const std::string text = credentials.user + ":" + credentials.password;
  Digest digest{};
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  return digest;
}

void PasswordGate::set_passwords(std::shared_ptr<const PasswordFile> passwords) {
  if (passwords == passwords_) return;
  passwords_ = std::move(passwords);
  right_.clear();
}

bool PasswordGate::remembers(const Credentials& credentials) const {
  const Digest digest = digest_of(credentials);
  return std::ranges::any_of(right_, [&](const Digest& right) {
    return CRYPTO_memcmp(right.data(), digest.data(), digest.size()) == 0;
  });
}

bool PasswordGate::check(Credentials credentials, Verdict on_verdict) {
  if (waiting_.size() >= kMaxWaiting) return false;
  waiting_.push_back({std::move(credentials), std::move(on_verdict)});
  start_next();
  return true;
}

void PasswordGate::close() { waiting_.clear(); }

void PasswordGate::start_next() {
  if (is_checking_ || waiting_.empty()) return;
  is_checking_ = true;
  auto* const work =
      new Work{.gate = this, .passwords = passwords_, .credentials = waiting_.front().credentials};
  work->handle.data = work;
  check_loop(uv_queue_work(
                 loop_, &work->handle,
                 [](uv_work_t* handle) {
                   auto* const running = static_cast<Work*>(handle->data);
                   // Without passwords, none is needed any more.
                   running->is_right =
                       !running->passwords || running->passwords->admits(running->credentials);
                 },
                 [](uv_work_t* handle, int) {
                   const std::unique_ptr<Work> done(static_cast<Work*>(handle->data));
                   done->gate->finish(*done);
                 }),
             "hand work to a thread");
}

void PasswordGate::finish(const Work& work) {
  is_checking_ = false;
  if (waiting_.empty()) return;  // closed
  // With other passwords than now, the check says nothing.
  if (work.passwords != passwords_) return start_next();
  Verdict on_verdict = std::move(waiting_.front().on_verdict);
  waiting_.pop_front();
  if (work.is_right && !remembers(work.credentials)) {
    if (right_.size() == kMaxRemembered) right_.pop_front();
    right_.push_back(digest_of(work.credentials));
  }
  start_next();
  on_verdict(work.is_right);
}

}  // namespace meshdns::dnsd
