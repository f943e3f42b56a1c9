// SPDX-License-Identifier: Apache-2.0
#include "dnsd/cli/named_files.hpp"

#include <grp.h>
#include <pwd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "dnsd/admin/admin_token.hpp"
#include "dnsd/admin/password_gate.hpp"
#include "dnsd/admin/tls_certificate.hpp"
#include "dnsd/cli/admin_client.hpp"
#include "dnsd/cli/arguments.hpp"
#include "dnsd/config/admin_address.hpp"
#include "dnsd/config/config.hpp"
#include "dnsd/config/cookie_secrets.hpp"
#include "dnsd/config/hosts_file.hpp"
#include "dnsd/config/values.hpp"
#include "dnsd/net/open_socket.hpp"
#include "registry/base/printable.hpp"
#include "registry/base/result.hpp"
#include "registry/source/file_source.hpp"
#include "registry/source/istiod/istiod_source.hpp"
#include "registry/source/kubernetes/cluster_access.hpp"
#include "registry/source/tree_walk.hpp"
#include "resolver/forward/tls_client.hpp"

namespace meshdns::dnsd {
namespace {

using registry::Finding;
using registry::Severity;

// --- what a configuration names ------------------------------------------------------------------

struct NamedPath {
  std::string key;
  std::string path;
};

// Files that are read together.
struct NamedFiles {
  std::vector<NamedPath> paths;
  std::function<Result<void>()> load;
  bool is_resource = false;  // one path, which the checker reads for whoever runs this program
};

template <typename T>
Result<void> without_value(const Result<T>& result) {
  if (!result) return std::unexpected(result.error());
  return {};
}

// A file or a directory that the daemon writes, and makes if it is not there.
Result<void> may_write(const std::string& path, int mode) {
  if (::access(path.c_str(), mode) == 0) return {};
  if (errno != ENOENT) return fail(path + ": cannot be written: " + std::strerror(errno));
  const std::string parent = std::filesystem::path(path).parent_path().string();
  if (::access(parent.empty() ? "." : parent.c_str(), W_OK | X_OK) == 0) return {};
  return fail(path + ": does not exist and cannot be created: " + std::strerror(errno));
}

// Names the first file of a source that cannot be read.
Result<void> may_read_tree(const std::string& path) {
  const auto refuse = [](const std::string& what) {
    return fail(what + ": " + std::strerror(errno));
  };
  std::error_code error;
  if (!std::filesystem::is_directory(path, error))
    return ::access(path.c_str(), R_OK) == 0 ? Result<void>() : refuse(path);
  registry::FileSourceOptions options;
  options.path = path;
  const registry::TreeWalk tree = registry::walk_tree(options, -1);
  for (const auto& [where, complaint] : tree.complaints)
    return fail(where + ": " + complaint.reason);
  for (const registry::FoundFile& file : tree.files)
    if (::access(file.path.c_str(), R_OK) != 0) return refuse(file.path);
  return {};
}

Result<void> check_kubeconfig(const std::string& path) {
  using namespace registry::kubernetes;  // NOLINT(google-build-using-namespace): all that follows
  const auto access = path.empty() ? in_cluster_access() : read_kubeconfig(path);
  return access ? check_files(*access) : without_value(access);
}

Result<void> check_istiod_files(const IstiodSource& source) {
  registry::IstiodSourceOptions options;
  options.ca_file = source.ca_file;
  options.token_file = source.token_file;
  options.cert_file = source.cert_file;
  options.key_file = source.key_file;
  if (auto read = registry::check_access_files(options); !read) return read;
  if (auto trust = without_value(TlsClient::create(source.ca_file, "")); !trust) return trust;
  if (source.cert_file.empty()) return {};
  return without_value(TlsCertificate::read(source.cert_file, source.key_file));
}

class NamedFilesOf {
 public:
  explicit NamedFilesOf(const Config& config) { collect(config); }
  const std::vector<NamedFiles>& all() const { return all_; }

 private:
  template <typename Load>
  void add(std::vector<NamedPath> paths, const Load& load, bool is_resource = false) {
    if (!paths.front().path.empty()) all_.push_back({std::move(paths), load, is_resource});
  }
  template <typename T>
  void add_read(const std::string& key, const std::string& path,
                Result<T> (*read)(const std::string&)) {
    add({{key, path}}, [=] { return without_value(read(path)); });
  }

  void collect(const Config& config) {
    add_read("server.cookies.secret_file", config.server.cookies.secret_file, read_cookie_secrets);
    const AdminConfig& admin = config.admin;
    add_read("admin.token_file", admin.token_file, read_admin_token);
    add({{"admin.metrics_cert_file", admin.metrics_cert_file},
         {"admin.metrics_key_file", admin.metrics_key_file}},
        [admin] {
          return without_value(
              TlsCertificate::read(admin.metrics_cert_file, admin.metrics_key_file));
        });
    add_read("admin.metrics_password_file", admin.metrics_password_file, PasswordFile::read);
    add({{"upstream.tls.ca_file", config.upstream.tls_ca_file}},
        [file = config.upstream.tls_ca_file] {
          return without_value(TlsClient::create(file, ""));
        });
    add_read("hosts.file", config.hosts.file, read_hosts_file);
    add({{"state_dir", config.state_dir}},
        [path = config.state_dir] { return may_write(path, W_OK | X_OK); });
    if (config.log.dnstap && config.log.dnstap->kind == DnstapTarget::Kind::File)
      add({{"log.dnstap", config.log.dnstap->path}},
          [path = config.log.dnstap->path] { return may_write(path, W_OK); });
    for (std::size_t i = 0; i < config.sources.size(); ++i)
      collect("sources[" + std::to_string(i) + "].", config.sources[i]);
  }

  void collect(const std::string& prefix, const SourceConfig& source) {
    if (const auto* files = std::get_if<FilesSource>(&source))
      add(
          {{prefix + "files.path", files->path}},
          [path = files->path] { return may_read_tree(path); }, true);
    if (const auto* table = std::get_if<NameTableSource>(&source))
      add(
          {{prefix + "name_table.path", table->path}},
          [path = table->path] { return may_read_tree(path); }, true);
    if (const auto* kubernetes = std::get_if<KubernetesSource>(&source)) {
      const std::string& path = kubernetes->kubeconfig;
      // Outside of the cluster, the files of its Pods say nothing.
      const bool is_in_pod = path.empty() && std::getenv("KUBERNETES_SERVICE_HOST") != nullptr;
      add({{prefix + "kubernetes.kubeconfig", is_in_pod ? "serviceaccount" : path}},
          [path] { return check_kubeconfig(path); });
    }
    if (const auto* istiod = std::get_if<IstiodSource>(&source))
      add({{prefix + "istiod.ca_file", istiod->ca_file},
           {prefix + "istiod.token_file", istiod->token_file},
           {prefix + "istiod.cert_file", istiod->cert_file},
           {prefix + "istiod.key_file", istiod->key_file}},
          [source = *istiod] { return check_istiod_files(source); });
  }

  std::vector<NamedFiles> all_;
};

// The key of the file that the message names first.
const std::string& key_of(const NamedFiles& files, std::string_view message) {
  const auto place = [&](const NamedPath& named) {
    return named.path.empty() ? std::string_view::npos : message.find(named.path);
  };
  return std::ranges::min_element(files.paths, {}, place)->key;
}

// --- the user of the service ---------------------------------------------------------------------

struct ServiceUser {
  std::string name;
  uid_t uid = 0;
  gid_t gid = 0;
};

std::optional<ServiceUser> service_user() {
  const passwd* const user = ::geteuid() == 0 ? ::getpwnam(kServiceUser) : nullptr;
  if (user == nullptr) return std::nullopt;
  return ServiceUser{kServiceUser, user->pw_uid, user->pw_gid};
}

// While it lives, this process has the rights of the user, also for access(2).  Root stays the
// saved user.
class RightsOf {
 public:
  explicit RightsOf(const ServiceUser& user) {
    const int count = ::getgroups(0, nullptr);
    groups_.resize(static_cast<std::size_t>(std::max(count, 0)));
    has_begun_ = ::getgroups(count, groups_.data()) == count &&
                 ::initgroups(user.name.c_str(), user.gid) == 0;
    is_taken_ = has_begun_ && ::setresgid(user.gid, user.gid, 0) == 0 &&
                ::setresuid(user.uid, user.uid, 0) == 0;
  }
  ~RightsOf() {
    if (!has_begun_) return;
    if (::setresuid(0, 0, 0) != 0 || ::setresgid(0, 0, 0) != 0 ||
        ::setgroups(groups_.size(), groups_.data()) != 0)
      std::abort();
  }
  RightsOf(const RightsOf&) = delete;
  RightsOf& operator=(const RightsOf&) = delete;
  // False where this root may not become another user.
  bool is_taken() const { return is_taken_; }

 private:
  std::vector<gid_t> groups_;
  bool has_begun_ = false;
  bool is_taken_ = false;
};

// --- findings ------------------------------------------------------------------------------------

class MachineCheck {
 public:
  MachineCheck(const LoadedConfig& loaded, const ConfigFiles& files,
               const std::function<void(Finding)>& add)
      : loaded_(loaded), files_(files), add_(add), user_(service_user()) {}

  void check_files() {
    if (!files_.path.empty() && files_.path != kStandardInput)
      check_for_user(
          {{{"", files_.path}}, [this] { return without_value(read_text_file(files_.path)); }});
    const NamedFilesOf named(loaded_.config);
    for (const NamedFiles& files : named.all()) {
      const auto read = files.is_resource ? may_be_source(files.paths.front().path) : files.load();
      if (read)
        check_for_user(files);
      else
        report(Severity::Error, key_of(files, read.error().message), read.error().message);
    }
  }

  void check_addresses() {
    const Config& config = loaded_.config;
    for (std::size_t i = 0; i < config.server.listen.size(); ++i)
      check_address("server.listen[" + std::to_string(i) + "]", config.server.listen[i], "query");
    for (std::size_t i = 0; i < config.admin.listen.size(); ++i)
      check_admin_address("admin.listen[" + std::to_string(i) + "]", config.admin.listen[i]);
    if (config.admin.metrics_listen)
      check_admin_address("admin.metrics_listen", *config.admin.metrics_listen);
  }

 private:
  void check_for_user(const NamedFiles& files) {
    if (!user_) return;
    Result<void> read;
    {
      const RightsOf rights(*user_);
      if (!rights.is_taken()) return;
      read = files.load();
    }
    if (read) return;
    const std::string& message = read.error().message;
    report(files_.path == kDefaultConfigPath ? Severity::Error : Severity::Warning,
           key_of(files, message),
           "the user of the service, " + user_->name + ", cannot use it: " + message);
  }

  // `what`: arrives at the address.
  void check_address(const std::string& key, const SocketAddress& address, const char* what) {
    sockaddr_storage unused{};
    const auto with_zone = address.to_sockaddr(unused);
    if (with_zone && is_on_this_machine(address)) return;
    report(Severity::Warning, key,
           with_zone ? address.to_string() + ": no interface of this machine has the address; no " +
                           what + " arrives there until one has it"
                     : with_zone.error().message);
  }

  // A socket at the path may be that of the daemon which runs.
  void check_admin_address(const std::string& key, const AdminAddress& address) {
    const auto* const path = std::get_if<UnixAddress>(&address);
    if (path == nullptr) return check_address(key, std::get<SocketAddress>(address), "request");
    std::error_code error;
    // A directory that is not there may come: RuntimeDirectory= of a unit makes it.
    const std::filesystem::path directory = std::filesystem::path(path->path).parent_path();
    const bool may_come = !std::filesystem::exists(directory, error) && !error;
    std::string obstacle = obstacle_at(*path);
    std::string user;
    if (obstacle.empty() && user_) {
      const RightsOf rights(*user_);
      if (rights.is_taken()) obstacle = obstacle_at(*path);
      user = " by the user of the service, " + user_->name;
    }
    if (obstacle.empty()) return;
    report(may_come ? Severity::Note : Severity::Warning, key,
           to_string(address) + ": the daemon serves without it while it cannot be bound" + user +
               ": " + obstacle);
  }

  void report(Severity severity, const std::string& key, std::string message) {
    add_({severity, files_.name(), line_of(key), {}, {}, key, std::move(message)});
  }

  // That of the section where a key is left out; 0 for what is not in the text.
  std::uint32_t line_of(std::string key) const {
    for (;;) {
      if (const auto found = loaded_.lines.find(key); found != loaded_.lines.end())
        return found->second;
      const auto end = key.find_last_of(".[");
      if (end == std::string::npos) return 0;
      key.resize(end);
    }
  }

  const LoadedConfig& loaded_;
  const ConfigFiles& files_;
  const std::function<void(Finding)>& add_;
  const std::optional<ServiceUser> user_;
};

}  // namespace

Result<void> may_be_source(const std::string& path) {
  struct stat status{};
  const auto refuse = [&](const char* why) { return fail(path + ": " + why); };
  if (::stat(path.c_str(), &status) != 0) return refuse(std::strerror(errno));
  const bool is_directory = S_ISDIR(status.st_mode);
  if (!is_directory && !S_ISREG(status.st_mode)) return refuse("neither a file nor a directory");
  if (::access(path.c_str(), is_directory ? R_OK | X_OK : R_OK) != 0)
    return refuse(std::strerror(errno));
  return {};
}

void check_named_files(const LoadedConfig& loaded, const ConfigFiles& files,
                       const std::function<void(Finding)>& add) {
  MachineCheck check(loaded, files, add);
  check.check_files();
  check.check_addresses();
}

}  // namespace meshdns::dnsd
