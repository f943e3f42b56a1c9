// SPDX-License-Identifier: Apache-2.0
#include "registry/source/kubernetes/credentials.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

namespace meshdns::registry::kubernetes {
namespace {

// Service account tokens are exchanged long before they expire.
constexpr Milliseconds kTokenFileAge{10'000};
// Before its end, so that no request is under way with what has just expired.
constexpr std::chrono::seconds kBeforeExpiry{30};
constexpr Milliseconds kPluginPause{1'000};

std::string trimmed(std::string text) {
  constexpr std::string_view space = " \t\r\n";
  text.erase(text.find_last_not_of(space) + 1);
  return text;
}

}  // namespace

Credentials::Credentials(uv_loop_s* loop, Scheduler& scheduler, ClusterAccess access)
    : loop_(loop), scheduler_(scheduler), access_(std::move(access)) {}

Credentials::~Credentials() = default;

void Credentials::renew() {
  token_read_ = false;
  from_plugin_.reset();
}

bool Credentials::is_plugin_due() const {
  if (!access_.exec) return false;
  if (!from_plugin_) return true;
  return from_plugin_->expires &&
         std::chrono::system_clock::now() + kBeforeExpiry >= *from_plugin_->expires;
}

void Credentials::obtain(std::function<void(const Result<Proof>&)> ready) {
  if (!is_plugin_due()) return ready(proof());
  const bool has_just_failed =
      !plugin_error_.empty() && scheduler_.now() - plugin_failed_at_ < kPluginPause;
  if (has_just_failed) return ready(fail(plugin_error_));
  waiting_.push_back(std::move(ready));
  if (!plugin_) run_plugin();
}

// A file that cannot be read for a moment leaves the token that was read before.
Result<Proof> Credentials::proof() {
  Proof proof;
  proof.tls = access_.tls;
  proof.bearer_token = access_.token;
  if (!access_.user.empty()) proof.user_and_password = access_.user + ":" + access_.password;
  if (from_plugin_) {
    if (!from_plugin_->token.empty()) proof.bearer_token = from_plugin_->token;
    if (!from_plugin_->certificate_pem.empty()) {
      proof.tls.certificate_pem = from_plugin_->certificate_pem;
      proof.tls.key_pem = from_plugin_->key_pem;
    }
  }
  if (access_.token_file.empty()) return proof;
  const Milliseconds now = scheduler_.now();
  if (!token_read_ || now - token_read_at_ >= kTokenFileAge) {
    std::ostringstream text;
    std::error_code error;
    if (std::filesystem::is_regular_file(access_.token_file, error))
      text << std::ifstream(access_.token_file, std::ios::binary).rdbuf();
    token_read_ = true;
    token_read_at_ = now;
    if (std::string token = trimmed(text.str()); !token.empty()) token_ = std::move(token);
  }
  if (token_.empty()) return fail("the token file " + access_.token_file + " cannot be read");
  proof.bearer_token = token_;
  return proof;
}

void Credentials::run_plugin() {
  ExecCommand command;
  command.program = access_.exec->command;
  command.arguments = access_.exec->arguments;
  command.environment = access_.exec->environment;
  command.environment.emplace_back("KUBERNETES_EXEC_INFO", exec_info(access_));
  plugin_ = run_program(loop_, std::move(command), [this](Result<std::string> output) {
    take_plugin_output(std::move(output));
  });
}

void Credentials::take_plugin_output(Result<std::string> output) {
  plugin_.reset();
  Result<ExecCredential> credential =
      output ? parse_exec_credential(*output) : std::unexpected(output.error());
  plugin_error_.clear();
  if (credential) {
    from_plugin_ = *std::move(credential);
  } else {
    plugin_failed_at_ = scheduler_.now();
    plugin_error_ = "exec plugin " + access_.exec->command + ": " + credential.error().message;
    if (!access_.exec->install_hint.empty())
      plugin_error_ += " (" + access_.exec->install_hint + ")";
  }
  for (const auto& ready : std::exchange(waiting_, {}))
    ready(plugin_error_.empty() ? proof() : Result<Proof>(fail(plugin_error_)));
}

}  // namespace meshdns::registry::kubernetes
