// SPDX-License-Identifier: Apache-2.0
#include "dnsd/mesh/kept_state.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "registry/base/file_descriptor.hpp"

namespace meshdns::dnsd {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

std::string text_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Asks until it is so, for half a minute at most.
bool becomes(const std::function<bool()>& is_so) {
  const auto end = std::chrono::steady_clock::now() + 30s;
  while (!is_so() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  return is_so();
}

bool exists(const std::string& path) { return std::filesystem::exists(path); }

// The state of one process, whose log is a file.
class Process {
 public:
  Process(const std::string& state_dir, std::string log_file)
      : log_file_(std::move(log_file)), config(config_for(state_dir)) {}

  void ask(const std::string& host, std::uint32_t questions = 1) {
    dependencies.add(
        {.ns = "shop", .workload = "cart", .host_ns = "prod", .host = host, .questions = questions},
        0, 1'700'000'000);
  }
  // "a=1 b=2", by host.
  std::string asked() const {
    std::string text;
    dependencies.for_each({}, [&](const Dependency& row) {
      text += (text.empty() ? "" : " ") + row.host + "=" + std::to_string(row.questions);
    });
    return text;
  }
  void use(const std::string& state_dir) {
    config.state_dir = state_dir;
    kept.follow();
  }
  // It is time to save, which another thread does.
  void tick_later() { kept.tick(std::chrono::steady_clock::now() + SavedFile::kSavePause + 1s); }
  std::string logged() {
    log.flush();
    return text_of(log_file_);
  }

 private:
  static Config config_for(const std::string& state_dir) {
    Config config;
    config.state_dir = state_dir;
    return config;
  }

  const std::string log_file_;
  FileDescriptor log_fd_{::creat(log_file_.c_str(), 0600)};
  ForwardListener listener_;

 public:
  Config config;
  Log log{{.level = LogLevel::Info, .fd = log_fd_.get()}};
  registry::Registry registry{config.mesh};
  RegistryFeed feed{registry, log};
  Dependencies dependencies;
  KeptState kept{config,       registry,
                 feed,         std::make_shared<ForwardShared>(config.cache, listener_),
                 dependencies, log};
};

class KeptDependenciesTest : public testing::Test {
 protected:
  KeptDependenciesTest() {
    std::filesystem::create_directory(a_);
    std::filesystem::create_directory(b_);
  }
  ~KeptDependenciesTest() override { std::filesystem::remove_all(directory_); }

  std::unique_ptr<Process> start(const std::string& state_dir) {
    auto process =
        std::make_unique<Process>(state_dir, directory_ + "/log." + std::to_string(++processes_));
    process->kept.take(0ms);
    return process;
  }
  static void end(std::unique_ptr<Process> process) { process->kept.close(); }
  // A process that has run, and has asked for `host`.
  void run(const std::string& state_dir, const std::string& host) {
    auto process = start(state_dir);
    process->ask(host);
    end(std::move(process));
  }

  std::string directory_ = [] {
    std::string name = (std::filesystem::temp_directory_path() / "kept-state-XXXXXX").string();
    return std::string(::mkdtemp(name.data()));
  }();
  std::string a_ = directory_ + "/a";
  std::string b_ = directory_ + "/b";
  std::string file_ = a_ + "/dependencies";
  int processes_ = 0;
};

TEST_F(KeptDependenciesTest, AreThereAfterARestart) {
  run(a_, "db");
  struct stat status{};
  ASSERT_EQ(::stat(file_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
  auto next = start(a_);
  EXPECT_EQ(next->asked(), "db=1");
  EXPECT_THAT(next->logged(), HasSubstr("restored the dependencies of the last run rows=1"));
  next->ask("db");
  next->ask("api");
  end(std::move(next));
  EXPECT_EQ(start(a_)->asked(), "api=1 db=2");
}

TEST_F(KeptDependenciesTest, AreWrittenFromTimeToTimeIfTheyHaveChanged) {
  const auto process = start(a_);
  process->tick_later();
  process->ask("db");
  process->kept.tick(std::chrono::steady_clock::now());
  EXPECT_FALSE(exists(file_)) << "there was nothing; and it is not time yet";
  process->tick_later();
  ASSERT_TRUE(becomes([&] { return exists(file_); }));
  std::filesystem::remove(file_);
  process->kept.close();
  EXPECT_FALSE(exists(file_)) << "nothing is new";
}

TEST_F(KeptDependenciesTest, OfAPredecessorAreReadWhenItHasEnded) {
  auto before = start(a_);
  before->ask("db");
  const auto next = start(a_);
  next->ask("db", 10);
  next->kept.follow();
  EXPECT_NE(next->kept.trouble(), "");
  EXPECT_EQ(next->asked(), "db=10");
  before->ask("api");
  end(std::move(before));
  next->kept.follow();
  EXPECT_EQ(next->kept.trouble(), "");
  EXPECT_EQ(next->asked(), "api=1 db=11");
  next->kept.follow();
  EXPECT_EQ(next->asked(), "api=1 db=11") << "once is enough";
}

// The file of an earlier run in the second directory is not read.
TEST_F(KeptDependenciesTest, MoveWithTheDirectory) {
  run(b_, "old");
  auto process = start(a_);
  process->ask("db");
  process->tick_later();
  ASSERT_TRUE(becomes([&] { return exists(file_); }));
  process->use(b_);
  EXPECT_EQ(process->asked(), "db=1");
  process->use(a_);
  process->ask("db");
  EXPECT_EQ(process->asked(), "db=2") << "its own file is not read";
  process->use("");
  process->use(b_);
  end(std::move(process));
  EXPECT_EQ(start(b_)->asked(), "db=2");
  EXPECT_EQ(start(a_)->asked(), "db=1");
}

TEST_F(KeptDependenciesTest, OfADirectoryThatComesLaterAreRead) {
  run(a_, "db");
  const auto process = start("");
  process->ask("api");
  process->use(a_);
  EXPECT_EQ(process->asked(), "api=1 db=1");
}

// Neither in memory nor on the disk.
TEST_F(KeptDependenciesTest, AreForgottenWhenNothingIsToBeRecorded) {
  for (const bool from_the_start : {false, true}) {
    run(a_, "db");
    auto process = std::make_unique<Process>(a_, directory_ + "/log");
    if (from_the_start) process->dependencies.configure({.memory = 0});
    process->kept.take(0ms);
    process->dependencies.configure({.memory = 0});
    EXPECT_EQ(process->asked(), "");
    end(std::move(process));
    EXPECT_EQ(start(a_)->asked(), "");
    EXPECT_EQ(text_of(file_).find("db"), std::string::npos);
  }
}

// The run goes on without it, and its own record takes its place.
TEST_F(KeptDependenciesTest, ThatAreDamagedAreSetAside) {
  for (const bool is_of_another_version : {false, true}) {
    run(a_, "db");
    std::string octets = text_of(file_);
    if (is_of_another_version)
      octets = "meshdns-dependencies 99\n";
    else
      octets.back() = static_cast<char>(octets.back() ^ 1);
    std::ofstream(file_, std::ios::binary) << octets;
    auto process = start(a_);
    EXPECT_EQ(process->asked(), "");
    EXPECT_THAT(process->logged(),
                HasSubstr("cannot use the saved dependencies; starting without them"));
    EXPECT_THAT(process->logged(),
                HasSubstr(is_of_another_version ? "another version" : "checksum differs"));
    EXPECT_FALSE(exists(file_));
    std::size_t set_aside = 0;
    for (const auto& item : std::filesystem::directory_iterator(a_))
      if (item.path().filename().string().starts_with("dependencies.bad-")) {
        EXPECT_EQ(text_of(item.path()), octets);
        std::filesystem::remove(item.path());
        ++set_aside;
      }
    EXPECT_EQ(set_aside, 1U);
    process->ask("api");
    end(std::move(process));
    EXPECT_EQ(start(a_)->asked(), "api=1");
    std::filesystem::remove(file_);
  }
}

TEST_F(KeptDependenciesTest, ThatCouldNotBeWrittenAreWrittenLater) {
  auto process = start(a_);
  process->ask("db");
  std::filesystem::create_directory(file_ + ".new");
  process->tick_later();
  ASSERT_TRUE(becomes(
      [&] { return process->logged().find("cannot save the dependencies") != std::string::npos; }));
  std::filesystem::remove(file_ + ".new");
  end(std::move(process));
  EXPECT_EQ(start(a_)->asked(), "db=1");
}

}  // namespace
}  // namespace meshdns::dnsd
