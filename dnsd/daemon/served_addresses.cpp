// SPDX-License-Identifier: Apache-2.0
#include "dnsd/daemon/served_addresses.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <thread>
#include <utility>
#include <variant>

#include "dnsd/daemon/signals.hpp"
#include "dnsd/mesh/configured_sources.hpp"

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

namespace {

// The interval of tries to bind an address that is in use: its other user may be about to end.
constexpr std::chrono::seconds kBindAgain{5};
// The time that a start waits for an address that another process has: the daemon that this one
// replaces may be draining its queries.
constexpr std::chrono::seconds kBindWait{3};
constexpr std::chrono::milliseconds kBindRetry{50};

// All addresses that cannot be used, so that a person sees every conflict at once: with another
// daemon on the ports for DNS, the port of the admin endpoint is often taken, too.
Error all_of(const std::vector<Error>& failures, const std::vector<AdminAddress>& admin) {
  std::string text;
  for (const Error& failure : failures) text += (text.empty() ? "" : "; and ") + failure.message;
  for (const AdminAddress& address : admin) {
    if (is_unix(address)) continue;
    if (const auto opened = HttpServer::try_address(address); !opened)
      text += "; and admin.listen: " + opened.error().message;
  }
  return {std::move(text)};
}

}  // namespace

void ServedAddresses::inherit(std::vector<InheritedSocket> sockets) {
  inherited_ = std::move(sockets);
  are_inherited_ = !inherited_.empty();
}

Result<void> ServedAddresses::open() {
  auto inherited = ListenerSet::adopt(std::move(inherited_), worker_count(config_.server));
  if (!inherited) return std::unexpected(inherited.error());
  return open_beside(*inherited);
}

Result<void> ServedAddresses::take_over(std::vector<HandedListener> handed) {
  auto taken = ListenerSet::take_over(std::move(handed), worker_count(config_.server));
  if (!taken) return std::unexpected(taken.error());
  const std::size_t missing = config_.server.listen.size() - taken->listeners().size();
  if (missing > 0)
    log_.warn("the other daemon listens on other addresses; opening those that it does not have",
              {{"listen", std::string_view(joined(config_.server.listen))},
               {"handed_over", std::string_view(joined(taken->addresses()))}});
  return open_beside(*taken);
}

// Opens what the configuration has and `present` has not.
Result<void> ServedAddresses::open_beside(const ListenerSet& present) {
  auto change = present.change_to(config_.server.listen);
  if (change.is_in_use) {
    log_.warn("waiting for another process to release an address",
              {{"reason", change.failures.front().message}});
    wait_until_ = std::chrono::steady_clock::now() + kBindWait;
  }
  while (change.is_in_use && may_wait()) change = present.change_to(config_.server.listen);
  if (!change.failures.empty())
    return std::unexpected(all_of(change.failures, config_.admin.listen));
  listeners_ = std::move(change.set);
  return {};
}

// Waits a moment.  False: the time is up, or the process is to end.
bool ServedAddresses::may_wait() const {
  if (std::chrono::steady_clock::now() >= wait_until_ || is_end_pending()) return false;
  std::this_thread::sleep_for(kBindRetry);
  return true;
}

// Clients of the DNS do not wait for an admin endpoint: any user may have a port or a path first.
void ServedAddresses::open_admin() {
  read_metrics_files();
  unbound_ = serve_admin();
  while (!unbound_.empty() && may_wait()) unbound_ = serve_admin();
  log_unbound({});
}

// Returns why addresses cannot be bound.  Keys may exchange theirs.
std::vector<std::string> ServedAddresses::serve_admin() {
  metrics_.leave(config_.admin.listen);
  std::vector<std::string> failures;
  for (const auto& opened : {admin_.serve_at(config_.admin.listen), serve_metrics()})
    if (!opened) failures.push_back(opened.error().message);
  return failures;
}

// Logs the failures that are not among `said`.
void ServedAddresses::log_unbound(const std::vector<std::string>& said) {
  for (const auto& failure : unbound_)
    if (std::ranges::find(said, failure) == said.end()) log_.error(failure);
  bind_again_at_ = std::chrono::steady_clock::now() + kBindAgain;
}

// The address is closed rather than served without what is to protect it.
Result<void> ServedAddresses::serve_metrics() {
  const auto& access = metrics_access_.access();
  const auto& wanted = config_.admin.metrics_listen;
  if (!access || !wanted) return metrics_.serve_at({});
  return metrics_.serve_at({*wanted}, *access);
}

void ServedAddresses::read_metrics_files() {
  const std::string said = metrics_access_.trouble();
  const auto read = metrics_access_.read(config_.admin);
  if (read || !config_.admin.metrics_listen || read.error().message == said) return;
  log_.error(
      metrics_access_.access()
          ? "cannot use a changed file of admin.metrics_listen; the previous one stays in use"
          : "cannot use a file of admin.metrics_listen; the address is closed",
      {{"reason", std::string_view(read.error().message)}});
}

bool ServedAddresses::have_metrics_files_changed() {
  return config_.admin.metrics_listen && metrics_access_.has_changed();
}

std::string ServedAddresses::metrics_trouble() const {
  const std::string& trouble = metrics_access_.trouble();
  if (!config_.admin.metrics_listen || trouble.empty()) return {};
  return trouble + (metrics_access_.access() ? "; the previous files stay in use"
                                             : "; admin.metrics_listen is closed");
}

void ServedAddresses::replace_admin_of(pid_t other) {
  admin_.replace(other);
  wait_until_ = std::chrono::steady_clock::now() + kBindWait;
}

void ServedAddresses::open_free_admin() {
  if (!admin_.serve_at(config_.admin.listen)) return;  // open_admin() tries the others again
}

void ServedAddresses::leave_admin_ports() {
  admin_.close_ports();
  metrics_.close();
}

void ServedAddresses::close_admin() {
  admin_.close();
  metrics_.close();
}

std::string ServedAddresses::admin_text() const {
  std::string text;
  for (const AdminAddress& address : admin_.addresses())
    text += (text.empty() ? "" : ",") + to_string(address);
  return text.empty() ? "off" : text;
}

void ServedAddresses::bind() {
  const std::vector<std::string> said = std::exchange(unbound_, {});
  const std::vector<AdminAddress> dns(config_.server.listen.begin(), config_.server.listen.end());
  admin_.leave(dns);
  metrics_.leave(dns);
  apply_listeners();
  read_metrics_files();
  std::ranges::move(serve_admin(), std::back_inserter(unbound_));
  log_unbound(said);
}

std::vector<SocketAddress> ServedAddresses::udp_addresses() const {
  std::vector<SocketAddress> addresses;
  for (const Listener& listener : listeners_.listeners())
    if (!listener.udp.empty()) addresses.push_back(listener.address);
  return addresses;
}

void ServedAddresses::apply_listeners() {
  auto change = listeners_.change_to(config_.server.listen);
  for (const auto& failure : change.failures) unbound_.push_back(failure.message);
  if (change.opened.empty() && change.closed.empty()) return;
  if (!change.opened.empty()) log_.info("listening", {{"address", joined(change.opened)}});
  if (!change.closed.empty())
    log_.info("no longer listening", {{"address", joined(change.closed)}});
  listeners_ = change.set;
  workers_.change_listeners(listeners_);
}

}  // namespace meshdns::dnsd
