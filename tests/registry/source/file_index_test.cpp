// SPDX-License-Identifier: Apache-2.0
// The index of a file source without its threads: time passes when the test says so.
#include "registry/source/file_index.hpp"

#include <random>

#include "tests/fewer.hpp"
#include "tests/registry/source/file_source_fixture.hpp"

namespace meshdns::registry {
namespace {

constexpr std::size_t kMaxBytes = 20'000;

class FileIndexTest : public testing::Test {
 protected:
  FileIndexTest() {
    std::string pattern = (fs::temp_directory_path() / "file-index-XXXXXX").string();
    base_ = mkdtemp(pattern.data());
    dir_ = base_ / "config";
    fs::create_directory(dir_);
    registry_.root = dir_.string() + "/";
    FileSourceOptions options;
    options.name = "files";
    options.path = dir_.string();
    options.max_file_bytes = kMaxBytes;
    index_ = std::make_unique<FileIndex>(options, read_lines, -1);
    index_->set_unheard("no test needs it", "");
  }
  ~FileIndexTest() override { fs::remove_all(base_); }

  SourceStatus look_once(bool everything = false) {
    FileIndex::Outcome outcome = index_->look({now_, everything, {}});
    registry_.apply(std::move(outcome.batch));
    return outcome.status;
  }
  // Looks until each pause is over.
  SourceStatus look(bool everything = false) {
    look_once(everything);
    for (int i = 0; i < 3; ++i) {
      now_ += Milliseconds{1'000};
      look_once();
    }
    return look_once();
  }

  fs::path base_;
  fs::path dir_;
  Milliseconds now_{0};
  FakeRegistryOfFiles registry_;
  std::unique_ptr<FileIndex> index_;
};

// One file, as the rules for it are: what is served of it, and what is said about it.
class FileModel {
 public:
  void take(const std::string& text) {
    text_ = text;
    is_hidden_ = false;
    if (text.size() > kMaxBytes) {
      findings_ = "larger";
      return;
    }
    if (text.find_first_not_of('\n') == std::string::npos && lines_ > 0) {
      findings_ = "empty";
      return;
    }
    read(text);
  }
  void lead_nowhere() {
    is_hidden_ = true;
    findings_ = "link";
  }
  void come_back() { take(text_); }
  void remove() { *this = FileModel(); }

  const std::optional<std::set<std::string>>& served() const { return served_; }
  const std::string& findings() const { return findings_; }
  // The text that was read last, whatever the file has held since.
  const std::string& text_read() const { return text_read_; }
  bool is_hidden() const { return is_hidden_; }

 private:
  void read(const std::string& text) {
    text_read_ = text;
    std::set<std::string> names;
    std::size_t lines = 0;
    bool is_broken = false;
    findings_.clear();
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line) && !is_broken;) {
      if (line.empty() || line.starts_with("#")) continue;
      is_broken = line == "broken";
      if (is_broken) findings_ += "sense";
      if (is_broken) break;
      ++lines;
      const bool is_refused = line.starts_with("refuse ");
      if (is_refused) findings_ += "refused";
      const std::string name = is_refused ? line.substr(7) : line;
      if (!is_refused || (served_ && served_->contains(name))) names.insert(name);
    }
    if (is_broken && is_good_) return;
    is_good_ = !is_broken;
    served_ = names;
    lines_ = lines;
  }

  std::string text_;
  std::string text_read_;
  bool is_hidden_ = false;
  bool is_good_ = false;
  std::size_t lines_ = 0;  // of the state that is served
  std::optional<std::set<std::string>> served_;
  std::string findings_;
};

// The words of the messages that tell them apart.
std::string shortened(const std::string& findings) {
  std::string result;
  std::istringstream lines(findings);
  for (std::string line; std::getline(lines, line);)
    for (const char* word : {"larger", "empty", "link", "sense", "refused"})
      if (line.find(word) != std::string::npos) result += word;
  return result;
}

// Files are written, broken, emptied, hidden and shown again, in any order; the folder goes away
// and returns.
TEST_F(FileIndexTest, WhatIsServedAndSaidFollowsTheRulesOfEachFileOverRandomHistories) {
  std::mt19937 random(7);
  const auto pick = [&](std::size_t bound) { return random() % bound; };
  std::map<std::string, FileModel> models;
  for (const std::string name : {"a.yaml", "b.yaml", "c.yaml"}) models[name];
  // No two texts have one size: a look after the next tick of the clock is another test's.
  std::size_t size = 0;
  const auto padded = [&](std::string text, char with) { return text.append(++size, with); };
  bool is_away = false;
  for (int step = 0; step < test::fewer(400); ++step) {
    auto& [name, model] = *std::next(models.begin(), static_cast<std::ptrdiff_t>(pick(3)));
    const fs::path path = dir_ / name;
    std::string what = name;
    if (is_away || pick(12) == 0) {
      what = is_away ? "the folder returns" : "the folder goes";
      fs::rename(is_away ? base_ / "away" : dir_, is_away ? dir_ : base_ / "away");
      is_away = !is_away;
    } else if (model.is_hidden()) {
      what += " comes back";
      fs::rename(dir_ / ("." + name), path);
      model.come_back();
    } else if (fs::exists(path) && pick(5) == 0) {
      what += " leads nowhere";
      fs::rename(path, dir_ / ("." + name));
      fs::create_symlink("nowhere", path);
      model.lead_nowhere();
    } else if (fs::exists(path) && pick(8) == 0) {
      what += " is removed";
      fs::remove(path);
      model.remove();
    } else {
      std::string text;
      for (std::size_t i = pick(4); i-- > 0;)
        text +=
            std::string(pick(3) == 0 ? "refuse " : "") + name[0] + std::to_string(pick(3)) + "\n";
      const std::size_t form = pick(10);
      if (form == 0) text += "broken\n";
      if (form < 2) text.insert(0, "a9\n");
      if (form == 2) {
        text = padded("\n", '\n');
      } else if (form == 4 && !model.text_read().empty()) {
        text = model.text_read();
      } else {
        text.append(form == 3 ? kMaxBytes : 1, '#');
        text = padded(text, '#');
      }
      what += " is written: " + text.substr(0, 60);
      write(path, text);
      model.take(text);
    }
    const bool everything = pick(6) == 0;
    look(everything);
    for (const auto& [file, expected] : models) {
      SCOPED_TRACE(std::string("step ")
                       .append(std::to_string(step))
                       .append(", ")
                       .append(what)
                       .append(": ")
                       .append(file));
      const auto served = registry_.origins.find(registry_.root + file);
      ASSERT_EQ(served != registry_.origins.end(), expected.served().has_value());
      if (expected.served()) {
        ASSERT_EQ(registry_.texts_of(served->first), *expected.served());
      }
      if (!is_away) {
        ASSERT_EQ(shortened(registry_.findings_of(file)), expected.findings());
      }
    }
  }
}

// A second write within a tick of the file system's clock leaves all that stat() says as it is.
TEST_F(FileIndexTest, ReadsAFileThatHasChangedOnceMore) {
  write(dir_ / "a.yaml", "a");
  auto reads = [this, before = std::uint64_t{0}]() mutable {
    const std::uint64_t now = look_once().reads;
    return now - std::exchange(before, now);
  };
  EXPECT_EQ(reads(), 2U) << "of the folder and of the file";
  EXPECT_EQ(reads(), 2U);
  EXPECT_EQ(reads(), 1U);
  write(dir_ / "a.yaml", "b b");
  EXPECT_EQ(reads(), 2U);
  EXPECT_EQ(reads(), 2U);
  EXPECT_EQ(reads(), 1U);
}

TEST_F(FileIndexTest, CountsWhatIsNotServedAsBroken) {
  write(dir_ / "a.yaml", "a");
  EXPECT_EQ(look().broken, 0U) << "polling finds the same";
  EXPECT_THAT(look().last_error, HasSubstr("cannot be watched"));
  write(dir_ / "b.yaml", "broken");
  EXPECT_EQ(look().broken, 1U);
  fs::create_symlink("nowhere", dir_ / "c.yaml");
  EXPECT_EQ(look().broken, 2U);
}

}  // namespace
}  // namespace meshdns::registry
