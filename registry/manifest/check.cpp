// SPDX-License-Identifier: Apache-2.0
#include "registry/manifest/check.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <map>
#include <memory>
#include <system_error>
#include <vector>

#include "registry/claims/name_owners.hpp"

namespace meshdns::registry {

namespace {

constexpr unsigned kMaxDepth = 32;
constexpr std::size_t kMaxFileBytes = std::size_t{64} << 20;

std::string reason_of(int error) { return std::generic_category().message(error); }

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

Result<std::string> read_text(const std::string& path) {
  // Opening a FIFO without a writer must not block.
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) return fail(reason_of(errno));
  struct stat status{};
  if (fstat(file.get(), &status) != 0) return fail(reason_of(errno));
  if (!S_ISREG(status.st_mode)) return fail("neither a file nor a directory");
  std::string text;
  std::array<char, 65536> buffer;
  for (;;) {
    const ssize_t count = read(file.get(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return fail(reason_of(errno));
    if (count == 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(count));
    if (text.size() > kMaxFileBytes) return fail("larger than 64 MiB; split it into several files");
  }
}

bool is_manifest_name(const std::string& name) {
  constexpr std::array<std::string_view, 3> endings = {".yaml", ".yml", ".json"};
  return std::ranges::any_of(endings, [&](auto ending) { return name.ends_with(ending); });
}

}  // namespace

// Counts objects, and finds those that two files define.
class Checker::Sink : public ManifestSink {
 public:
  explicit Sink(Checker& checker) : checker_(checker) {}

  void start_file(const std::string& path) { path_ = path; }
  void on_resource(Resource&& resource, std::uint32_t line) override {
    note(key_of(resource), line);
    owners_.add(resource, [](std::string_view) {});
    if (auto* entry = std::get_if<ServiceEntry>(&resource)) {
      claims_.push_back({path_, line, key_of(resource), std::move(entry->hosts)});
    } else if (const auto* name = std::get_if<NameTableEntry>(&resource);
               name != nullptr && !name->kubernetes) {
      std::vector<std::string> hosts = name->alt_hosts;
      hosts.insert(hosts.begin(), name->meta.name);
      claims_.push_back({path_, line, key_of(resource), std::move(hosts)});
    }
  }
  void check_claims(const MeshSettings& settings) {
    for (const auto& said : claims_)
      for (std::size_t i = 0; i < said.hosts.size(); ++i) {
        const Claim claim = claim_of(said.hosts[i], said.key.ns, settings, owners_);
        if (ruling_of(claim, said.key.ns, settings) != Ruling::Refused) continue;
        checker_.add({Severity::Warning, said.path, said.line,
                      std::string(to_string(said.key.kind)), said.key.ns + "/" + said.key.name,
                      said.key.kind == Kind::ServiceEntry ? "spec.hosts[" + std::to_string(i) + "]"
                                                          : std::string(),
                      "\"" + said.hosts[i] + "\" is not served with mesh.claims: strict: " +
                          std::string(rule_of(claim).reason)});
      }
  }
  void on_refused(const ResourceKey& key, std::uint32_t line) override { note(key, line); }
  void on_finding(Finding&& finding) override { checker_.add(finding); }

 private:
  struct Place {
    std::string path;
    std::uint32_t line = 0;
  };

  void note(const ResourceKey& key, std::uint32_t line) {
    ++checker_.summary_.resources;
    if (key.name.empty()) return;
    const auto [first, is_new] = places_.try_emplace(key, Place{path_, line});
    // Twice in one file is the reader's to say.
    if (is_new || first->second.path == path_) return;
    checker_.add({Severity::Warning,
                  path_,
                  line,
                  std::string(to_string(key.kind)),
                  key.ns.empty() ? key.name : key.ns + "/" + key.name,
                  {},
                  "also defined at " + first->second.path + ":" +
                      std::to_string(first->second.line) + "; only one of them is used"});
  }

  // A statement of a ServiceEntry about a name.
  struct Said {
    std::string path;
    std::uint32_t line = 0;
    ResourceKey key;
    std::vector<std::string> hosts;
  };

  Checker& checker_;
  NameOwners owners_;
  std::vector<Said> claims_;
  std::string path_;
  std::map<ResourceKey, Place> places_;
};

std::string CheckSummary::to_string() const {
  return std::to_string(resources) + " resources, " + std::to_string(errors) + " errors, " +
         std::to_string(warnings) + " warnings";
}

int CheckSummary::exit_status() const {
  if (cannot_run) return 2;
  return errors > 0 ? 1 : 0;
}

Checker::Checker(ManifestOptions options, FindingListener listener)
    : options_(std::move(options)),
      listener_(std::move(listener)),
      sink_(std::make_unique<Sink>(*this)) {}

Checker::~Checker() = default;

void Checker::check(const std::string& path, Reader reader) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (error) return cannot_read(path, error.message());
  if (std::filesystem::is_directory(status)) return check_directory(path, reader, 0);
  check_file(path, reader);
}

void Checker::check_claims(const MeshSettings& settings) {
  if (settings.claims == Claims::Strict) sink_->check_claims(settings);
}

void Checker::check_directory(const std::string& path, Reader reader, unsigned depth) {
  // Also where links go round in circles.
  if (depth > kMaxDepth) return cannot_read(path, "directories more than 32 levels deep");
  std::error_code error;
  std::vector<std::filesystem::directory_entry> entries;
  for (std::filesystem::directory_iterator at(path, error), end; !error && at != end;
       at.increment(error))
    if (!at->path().filename().native().starts_with('.')) entries.push_back(*at);
  if (error) return cannot_read(path, error.message());
  std::ranges::sort(entries);
  for (const auto& entry : entries) {
    const std::string& name = entry.path().native();
    std::error_code unreadable;
    if (entry.is_directory(unreadable))
      check_directory(name, reader, depth + 1);
    else if (is_manifest_name(name))
      check_file(name, reader);
  }
}

void Checker::check_file(const std::string& path, Reader reader) {
  const Result<std::string> text = read_text(path);
  if (!text) return cannot_read(path, text.error().message);
  options_.path = path;
  sink_->start_file(path);
  // A text that cannot be read to its end has left a finding.
  static_cast<void>(reader(*text, options_, *sink_));
}

void Checker::cannot_read(const std::string& path, const std::string& reason) {
  summary_.cannot_run = true;
  add({Severity::Error, path, 0, {}, {}, {}, "cannot be read: " + reason});
}

void Checker::add(const Finding& finding) {
  ++(finding.severity == Severity::Error ? summary_.errors : summary_.warnings);
  listener_(finding);
}

}  // namespace meshdns::registry
