// SPDX-License-Identifier: Apache-2.0
// A FileSource on a temporary directory, with a text of names and a registry that keeps them.
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <thread>

#include "registry/source/file_source.hpp"
#include "tests/registry/source/fake_registry.hpp"

namespace meshdns::registry {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A text of one object per line: its name; "refuse NAME" for one that is refused; "broken" for what
// no reader can make sense of; "#" for comments.
inline Result<void> read_lines(std::string_view text, const ManifestOptions& options,
                               ManifestSink& sink) {
  std::uint32_t number = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string line(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    Finding finding;
    finding.path = options.path;
    finding.line = number;
    if (line.empty() || line.starts_with('#')) continue;
    if (line == "broken") {
      finding.message = "no sense in this";
      sink.on_finding(std::move(finding));
      return fail("broken");
    }
    if (line.starts_with("refuse ")) {
      finding.message = "refused";
      sink.on_finding(std::move(finding));
      sink.on_refused({Kind::Namespace, "", "", line.substr(7)}, number);
      continue;
    }
    Namespace object;
    object.meta.name = line;
    sink.on_resource(std::move(object), number);
  }
  return {};
}

// A registry of names, and all that it held before.
class FakeRegistryOfFiles final : public FakeRegistry {
 public:
  FakeRegistryOfFiles()
      : FakeRegistry([](const StoredResource& object) { return std::string(object.name()); }) {}
  void apply(SourceBatch&& batch) override {
    if (on_change) std::ranges::for_each(batch.changes, on_change);
    FakeRegistry::apply(std::move(batch));
    std::erase_if(findings, [](const auto& item) { return item.second.empty(); });
    history.push_back(print());
  }
  // "a.yaml: api db | b.yaml: web", paths from `root` on.
  std::string print() const {
    std::string text;
    for (const auto& [origin, held] : origins) {
      if (!text.empty()) text += " | ";
      text.append(origin.starts_with(root) ? origin.substr(root.size()) : origin).append(":");
      for (const std::string& name : texts_of(origin)) text.append(" ").append(name);
    }
    return text;
  }
  std::string findings_of(const std::string& path) const {
    std::string text;
    const auto found = findings.find(root + path);
    if (found == findings.end()) return text;
    for (const Finding& finding : found->second) text.append(finding.message).append("\n");
    return text;
  }

  std::string root;
  std::vector<std::string> history;
  std::function<void(const OriginChange&)> on_change;
};

inline void write(const fs::path& path, std::string_view text) {
  std::ofstream(path, std::ios::trunc) << text;
}
// As rename(2): replaces what is there at once.
inline void rename_over(const fs::path& path, std::string_view text) {
  const fs::path temporary = path.parent_path() / ("." + path.filename().string() + ".tmp");
  write(temporary, text);
  fs::rename(temporary, path);
}
inline void swap_link(const fs::path& link, const fs::path& target) {
  const fs::path temporary = link.string() + "_tmp";
  fs::create_symlink(target, temporary);
  fs::rename(temporary, link);
}

class FileSourceTest : public testing::Test {
 public:
  ~FileSourceTest() override {
    source_.reset();
    uv_close(reinterpret_cast<uv_handle_t*>(&ticker_), nullptr);
    uv_run(&loop_, UV_RUN_DEFAULT);
    EXPECT_EQ(uv_loop_close(&loop_), 0) << "a handle was left open";
    fs::remove_all(base_);
  }

 protected:
  FileSourceTest() {
    std::string pattern = (fs::temp_directory_path() / "file-source-XXXXXX").string();
    base_ = mkdtemp(pattern.data());
    dir_ = base_ / "config";
    fs::create_directory(dir_);
    uv_loop_init(&loop_);
    uv_timer_init(&loop_, &ticker_);
    // Makes run_until look at its condition and its limit from time to time.
    uv_timer_start(&ticker_, [](uv_timer_t*) {}, 10, 10);
  }
  FileSourceOptions options(const fs::path& path) {
    FileSourceOptions options;
    options.name = "files";
    options.path = path.string();
    options.poll = milliseconds{600'000};  // what is seen is seen by inotify
    return options;
  }
  void open(FileSourceOptions options) {
    registry_.root = options.path + "/";
    source_ = std::make_unique<FileSource>(
        &loop_, std::move(options),
        [this](std::string_view text, const ManifestOptions& manifest, ManifestSink& sink) {
          ++texts_read_;
          return read_lines(text, manifest, sink);
        },
        registry_);
    source_->start();
  }
  void open() { open_at(dir_); }
  // For what must leave no gap, however slow the machine is: pauses are short beside this.
  void open_patiently() {
    FileSourceOptions patient = options(dir_);
    patient.removal_grace = milliseconds{3'000};
    open(patient);
    ASSERT_TRUE(run_until([this] { return registry_.complete; }));
  }
  void open_at(const fs::path& path) {
    open(options(path));
    ASSERT_TRUE(run_until([this] { return registry_.complete; }));
  }

  bool run_until(const std::function<bool()>& condition, milliseconds limit = milliseconds{8'000}) {
    const std::uint64_t end = uv_hrtime() + static_cast<std::uint64_t>(limit.count()) * 1'000'000;
    while (!condition() && uv_hrtime() < end) uv_run(&loop_, UV_RUN_ONCE);
    return condition();
  }
  void run_for(milliseconds duration) {
    run_until([] { return false; }, duration);
  }
  testing::AssertionResult becomes(const std::string& state) {
    if (run_until([&] { return registry_.print() == state; })) return testing::AssertionSuccess();
    return testing::AssertionFailure()
           << "is \"" << registry_.print() << "\", not \"" << state << "\"";
  }
  testing::AssertionResult complains(const std::string& path, const std::string& text) {
    if (run_until([&] { return registry_.findings_of(path).find(text) != std::string::npos; }))
      return testing::AssertionSuccess();
    return testing::AssertionFailure() << "says \"" << registry_.findings_of(path) << "\"";
  }
  std::size_t count_watches() const {
    std::size_t count = 0;
    for (const auto& entry : fs::directory_iterator("/proc/self/fdinfo")) {
      std::ifstream file(entry.path());
      for (std::string line; std::getline(file, line);)
        count += line.starts_with("inotify ") ? 1 : 0;
    }
    return count;
  }
  static std::size_t count_descriptors() {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator()));
  }

  fs::path base_;
  fs::path dir_;
  uv_loop_t loop_{};
  uv_timer_t ticker_{};
  FakeRegistryOfFiles registry_;
  std::atomic<int> texts_read_ = 0;
  std::unique_ptr<Source> source_;
};

}  // namespace meshdns::registry
