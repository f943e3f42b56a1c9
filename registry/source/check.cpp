// SPDX-License-Identifier: Apache-2.0
#include "registry/source/check.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <map>
#include <system_error>
#include <vector>

#include "registry/base/counted.hpp"
#include "registry/base/durable_file.hpp"
#include "registry/model/name_owners.hpp"
#include "registry/source/advice.hpp"
#include "registry/source/file_source.hpp"
#include "registry/source/tree_walk.hpp"

namespace meshdns::registry {

namespace {

// Trees beyond these bounds are no manifests; the file system as a whole, say.
constexpr std::size_t kMaxFiles = 1'000'000;
constexpr std::size_t kMaxDirectories = 200'000;
constexpr std::size_t kMaxFileBytes = std::size_t{64} << 20;

std::string reason_of(int error) { return std::generic_category().message(error); }

Result<std::string> read_whole_text(const std::string& path) {
  const FileDescriptor file = open_for_reading(path);
  struct stat status{};
  if (!file || fstat(file.get(), &status) != 0) return fail(reason_of(errno));
  if (!S_ISREG(status.st_mode)) return fail("neither a file nor a directory");
  auto text = read_to_end(file.get(), kMaxFileBytes);
  if (!text) return fail(reason_of(errno));
  if (text->size() > kMaxFileBytes) return fail("larger than 64 MiB; split it into several files");
  return text;
}

Result<std::string> read_standard_input() {
  auto text = read_to_end(STDIN_FILENO, kMaxFileBytes);
  if (!text) return fail(reason_of(errno));
  if (text->size() > kMaxFileBytes) return fail("larger than 64 MiB");
  return text;
}

// "*.yaml, *.yml or *.json"
std::string patterns_of(const std::vector<std::string>& endings) {
  std::string out;
  for (std::size_t i = 0; i < endings.size(); ++i) {
    if (i > 0) out += i + 1 == endings.size() ? " or " : ", ";
    out += "*" + endings[i];
  }
  return out;
}

}  // namespace

// Counts objects, and finds those that two files define.
class Checker::Sink : public ManifestSink {
 public:
  explicit Sink(Checker& checker) : checker_(checker) {}

  void start_file(const std::string& path) { path_ = path; }
  void on_resource(Resource&& resource, std::uint32_t line) override {
    note(key_of(resource), line);
    if (checker_.resource_listener_) checker_.resource_listener_(resource, path_, line);
    for (Advice& advice : advice_on(resource)) warn(key_of(resource), line, std::move(advice));
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
        checker_.add(
            {Severity::Warning, said.path, said.line, std::string(to_string(said.key.kind)),
             said.key.ns + "/" + said.key.name,
             said.key.kind == Kind::ServiceEntry ? list_element("spec.hosts", i) : std::string(),
             "\"" + said.hosts[i] + "\" is not served with mesh.claims: strict: " +
                 std::string(rule_of(claim).reason)});
      }
  }
  void on_refused(const ResourceKey& key, std::uint32_t line) override { note(key, line); }
  void on_finding(Finding&& finding) override { checker_.add(std::move(finding)); }

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
    warn(key, line,
         {{},
          "also defined at " + first->second.path + ":" + std::to_string(first->second.line) +
              "; only one of them is used"});
  }

  void warn(const ResourceKey& key, std::uint32_t line, Advice advice) {
    checker_.add({Severity::Warning, path_, line, std::string(to_string(key.kind)),
                  key.ns.empty() ? key.name : key.ns + "/" + key.name, std::move(advice.field),
                  std::move(advice.message)});
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
  return counted(resources, "resource") + ", " + counted(errors, "error") + ", " +
         counted(warnings, "warning") + (notes > 0 ? ", " + counted(notes, "note") : std::string());
}

int CheckSummary::exit_status() const {
  if (cannot_run) return 2;
  return errors > 0 ? 1 : 0;
}

Checker::Checker(Strictness strictness, FindingListener listener)
    : strictness_(strictness),
      listener_(std::move(listener)),
      sink_(std::make_unique<Sink>(*this)) {}

Checker::~Checker() = default;

void Checker::check(const std::string& path, Reader reader, const ManifestOptions& source) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (error) return cannot_run(path, "cannot be read: " + error.message());
  if (std::filesystem::is_directory(status)) return check_directory(path, reader, source);
  check_file(path, reader, source, read_whole_text(path));
}

void Checker::check_standard_input(const ManifestOptions& source) {
  check_file("standard input", read_manifest, source, read_standard_input());
}

void Checker::check_claims(const MeshSettings& settings) {
  if (settings.claims == Claims::Strict) sink_->check_claims(settings);
}

void Checker::check_directory(const std::string& path, Reader reader,
                              const ManifestOptions& source) {
  const FileSourceOptions of_source;
  FileSourceOptions options;
  options.path = path;
  options.max_files = kMaxFiles;
  options.max_directories = kMaxDirectories;
  const TreeWalk tree = walk_tree(options, -1);
  for (const FoundFile& file : tree.files)
    check_file(file.path, reader, source, read_whole_text(file.path));
  for (const auto& [where, complaint] : tree.complaints) cannot_run(where, complaint.reason);
  if (tree.files.empty() && tree.complaints.empty())
    warn(path, "holds no file named " + patterns_of(options.endings));
  if (tree.directories > of_source.max_directories)
    warn(path, "holds " + counted(tree.directories, "directory") + "; a source reads only " +
                   std::to_string(of_source.max_directories) + " of them; divide it");
  if (tree.files.size() > of_source.max_files)
    warn(path, "holds " + counted(tree.files.size(), "file") + "; a source reads only " +
                   std::to_string(of_source.max_files) + " of them; divide it");
}

void Checker::check_file(const std::string& path, Reader reader, ManifestOptions options,
                         const Result<std::string>& text) {
  if (!text) return cannot_run(path, "cannot be read: " + text.error().message);
  options.path = path;
  sink_->start_file(path);
  // A text that cannot be read to its end has left a finding.
  static_cast<void>(reader(*text, options, *sink_));
}

void Checker::cannot_run(const std::string& path, std::string message) {
  summary_.cannot_run = true;
  add({Severity::Error, path, 0, {}, {}, {}, std::move(message)});
}

void Checker::warn(const std::string& path, std::string message) {
  add({Severity::Warning, path, 0, {}, {}, {}, std::move(message)});
}

void Checker::add(Finding finding) {
  const bool is_raised =
      strictness_ == Strictness::WarningsAreErrors && finding.severity == Severity::Warning;
  if (is_raised) finding.severity = Severity::Error;
  ++(finding.severity == Severity::Error     ? summary_.errors
     : finding.severity == Severity::Warning ? summary_.warnings
                                             : summary_.notes);
  listener_(finding);
}

}  // namespace meshdns::registry
