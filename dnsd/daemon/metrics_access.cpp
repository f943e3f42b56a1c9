// SPDX-License-Identifier: Apache-2.0
#include "dnsd/daemon/metrics_access.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <utility>

namespace meshdns::dnsd {
namespace {

// At this address every Pod may ask.  Enough for several scrapers behind one address.
constexpr std::size_t kMaxConnectionsOfPeer = 32;

Result<std::shared_ptr<const PasswordFile>> read_passwords(const std::string& path) {
  auto file = PasswordFile::read(path);
  if (!file) return std::unexpected(file.error());
  return std::make_shared<const PasswordFile>(*std::move(file));
}

}  // namespace

MetricsAccess::Stamp MetricsAccess::stamp_of(const std::string& path) {
  struct stat status{};
  if (path.empty() || ::stat(path.c_str(), &status) != 0) return {};
  constexpr std::int64_t kNanoseconds = 1'000'000'000;
  return {status.st_dev, status.st_ino,
          status.st_ctim.tv_sec * kNanoseconds + status.st_ctim.tv_nsec, status.st_size};
}

MetricsAccess::Stamps MetricsAccess::look() const {
  Stamps stamps;
  std::ranges::transform(files_, stamps.begin(), stamp_of);
  return stamps;
}

Result<HttpAccess> MetricsAccess::read_files() const {
  const auto& [certificate_file, key_file, password_file] = files_;
  HttpAccess access;
  access.connections_per_peer = kMaxConnectionsOfPeer;
  if (!certificate_file.empty()) {
    auto certificate = TlsCertificate::read(certificate_file, key_file);
    if (!certificate) return fail("admin.metrics_cert_file: " + certificate.error().message);
    access.certificate = *std::move(certificate);
  }
  if (!password_file.empty()) {
    auto passwords = read_passwords(password_file);
    if (!passwords) return fail("admin.metrics_password_file: " + passwords.error().message);
    access.passwords = *std::move(passwords);
  }
  return access;
}

Result<void> MetricsAccess::read(const AdminConfig& admin) {
  const Files files = {admin.metrics_cert_file, admin.metrics_key_file,
                       admin.metrics_password_file};
  if (std::exchange(files_, files) != files) access_.reset();
  // Before the files: one that changes meanwhile is read again.
  read_ = seen_ = look();
  trouble_.clear();
  auto access = read_files();
  if (access) {
    access_ = *std::move(access);
    return {};
  }
  trouble_ = access.error().message;
  return std::unexpected(access.error());
}

bool MetricsAccess::has_changed() {
  const Stamps now = look();
  const bool is_quiet = std::exchange(seen_, now) == now;
  return is_quiet && now != read_;
}

}  // namespace meshdns::dnsd
