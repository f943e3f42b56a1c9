// SPDX-License-Identifier: Apache-2.0
#include "dnsd/admin/password_gate.hpp"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>

#include "registry/base/check_loop.hpp"

namespace meshdns::dnsd {

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
