// SPDX-License-Identifier: Apache-2.0
#include "registry/source/kubernetes/credentials.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "tests/registry/source/kubernetes/fake_api.hpp"

namespace meshdns::registry::kubernetes {
namespace {

using ::testing::HasSubstr;

class CredentialsTest : public ::testing::Test {
 protected:
  CredentialsTest() {
    uv_loop_init(&loop_);
    std::string pattern = (std::filesystem::temp_directory_path() / "credentials.XXXXXX").string();
    directory_ = mkdtemp(pattern.data());
  }
  ~CredentialsTest() override {
    credentials_.reset();
    uv_run(&loop_, UV_RUN_DEFAULT);
    EXPECT_EQ(uv_loop_close(&loop_), 0) << "a handle is left open";
    std::filesystem::remove_all(directory_);
  }
  std::string write(const std::string& name, const std::string& text) {
    std::ofstream(directory_ / name) << text;
    return (directory_ / name).string();
  }
  std::string write_program(const std::string& text) {
    const std::string path = write("plugin", "#!/bin/sh\n" + text);
    chmod(path.c_str(), 0700);
    return path;
  }
  void use(ClusterAccess access) {
    credentials_ = std::make_unique<Credentials>(&loop_, scheduler_, std::move(access));
  }
  void use_plugin(const std::string& text) {
    ClusterAccess access;
    access.server = "https://a";
    access.exec.emplace();
    access.exec->api_version = "client.authentication.k8s.io/v1";
    access.exec->command = write_program(text);
    use(std::move(access));
  }
  // The token, or why there is none.
  std::string token() {
    std::string found;
    bool is_done = false;
    credentials_->obtain([&](const Result<Proof>& proof) {
      found = proof ? proof->bearer_token : "error: " + proof.error().message;
      is_done = true;
    });
    while (!is_done) uv_run(&loop_, UV_RUN_ONCE);
    return found;
  }

  uv_loop_t loop_{};
  FakeScheduler scheduler_;
  std::filesystem::path directory_;
  std::unique_ptr<Credentials> credentials_;
};

constexpr const char* kPrintToken =
    "echo run >> \"$(dirname \"$0\")/runs\"\n"
    "n=$(wc -l < \"$(dirname \"$0\")/runs\")\n"
    "echo \"{\\\"kind\\\":\\\"ExecCredential\\\",\\\"status\\\":{\\\"token\\\":\\\"t$n\\\"}}\"\n";

TEST_F(CredentialsTest, ReadsATokenFileAnewAsItRotates) {
  ClusterAccess access;
  access.token_file = write("token", "one\n");
  use(access);
  EXPECT_EQ(token(), "one");
  write("token", "two\n");
  EXPECT_EQ(token(), "one") << "not with every request";
  scheduler_.pass(Milliseconds(10'000));
  EXPECT_EQ(token(), "two");
  write("token", "three\n");
  credentials_->renew();
  EXPECT_EQ(token(), "three");
}

TEST_F(CredentialsTest, KeepsTheTokenWhileItsFileIsAway) {
  ClusterAccess access;
  access.token_file = write("token", "one");
  use(access);
  EXPECT_EQ(token(), "one");
  std::filesystem::remove(access.token_file);
  scheduler_.pass(Milliseconds(10'000));
  EXPECT_EQ(token(), "one");
}

TEST_F(CredentialsTest, SaysThatATokenFileCannotBeRead) {
  ClusterAccess access;
  access.token_file = "/nonexistent/token";
  use(access);
  EXPECT_THAT(token(), HasSubstr("/nonexistent/token cannot be read"));
}

TEST_F(CredentialsTest, RunsAPluginOnceUntilItIsRenewed) {
  use_plugin(kPrintToken);
  EXPECT_EQ(token(), "t1");
  EXPECT_EQ(token(), "t1");
  credentials_->renew();
  EXPECT_EQ(token(), "t2");
}

TEST_F(CredentialsTest, RunsOnePluginForAllWhoWait) {
  use_plugin(kPrintToken);
  int told = 0;
  for (int i = 0; i < 5; ++i)
    credentials_->obtain([&](const Result<Proof>& proof) {
      EXPECT_EQ(proof->bearer_token, "t1");
      ++told;
    });
  while (told < 5) uv_run(&loop_, UV_RUN_ONCE);
}

TEST_F(CredentialsTest, RunsAPluginAgainWhenWhatItGaveExpires) {
  use_plugin(
      "echo '{\"kind\":\"ExecCredential\",\"status\":{\"token\":\"old\","
      "\"expirationTimestamp\":\"2020-01-01T00:00:00Z\"}}'; echo x >> \"$0.runs\"\n");
  EXPECT_EQ(token(), "old");
  EXPECT_EQ(token(), "old");
  EXPECT_EQ(std::filesystem::file_size(directory_ / "plugin.runs"), 4U);
}

TEST_F(CredentialsTest, TellsWhyAPluginGaveNothing) {
  use_plugin("exit 3\n");
  EXPECT_THAT(token(), HasSubstr("ended with status 3"));
  ClusterAccess access;
  access.exec.emplace();
  access.exec->command = "/nonexistent/plugin";
  access.exec->install_hint = "install it";
  use(access);
  EXPECT_THAT(token(), HasSubstr("cannot be started"));
  EXPECT_THAT(token(), HasSubstr("install it"));
}

TEST_F(CredentialsTest, EndsAPluginThatIsNoLongerWaitedFor) {
  use_plugin("exec sleep 1000\n");
  credentials_->obtain([](const Result<Proof>&) { FAIL() << "nobody is there to be told"; });
  credentials_.reset();
  uv_run(&loop_, UV_RUN_DEFAULT);
}

TEST_F(CredentialsTest, EndsAProgramThatTakesTooLong) {
  ExecCommand command;
  command.program = write_program("exec sleep 1000\n");
  command.timeout = Milliseconds(50);
  std::string why;
  auto process = run_program(&loop_, command,
                             [&](Result<std::string> result) { why = result.error().message; });
  uv_run(&loop_, UV_RUN_DEFAULT);
  EXPECT_THAT(why, HasSubstr("did not end in time"));
}

// Returns the output of the program, or the reason why there is none.
std::string output_of(uv_loop_t* loop, ExecCommand command) {
  std::string text;
  const auto process = run_program(loop, std::move(command), [&](Result<std::string> result) {
    text = result ? *result : "error: " + result.error().message;
  });
  uv_run(loop, UV_RUN_DEFAULT);
  return text;
}

TEST_F(CredentialsTest, GivesAProgramNothingOfOurEnvironmentButPathAndHome) {
  setenv("NOTIFY_SOCKET", "/run/notify", 1);
  setenv("AWS_SECRET_ACCESS_KEY", "secret", 1);
  setenv("LISTEN_FDS", "2", 1);
  ExecCommand command;
  command.program = "/usr/bin/env";
  command.environment = {{"FROM_FILE", "a"}, {"FROM_FILE", "b"}, {"HOME", "/home/plugin"}};
  const char* const path = getenv("PATH");
  ASSERT_NE(path, nullptr);
  EXPECT_EQ(output_of(&loop_, command),
            "FROM_FILE=b\nHOME=/home/plugin\nPATH=" + std::string(path) + "\n");
  for (const char* const name : {"NOTIFY_SOCKET", "AWS_SECRET_ACCESS_KEY", "LISTEN_FDS"})
    unsetenv(name);
}

TEST_F(CredentialsTest, GivesAProgramThreeDescriptorsAndASessionOfItsOwn) {
  // Not a shell, which opens descriptors and blocks signals of its own.
  const auto run = [&](std::string program, std::vector<std::string> arguments) {
    ExecCommand command;
    command.program = std::move(program);
    command.arguments = std::move(arguments);
    return output_of(&loop_, std::move(command));
  };
  sigset_t mask;
  sigset_t before;
  sigemptyset(&mask);
  sigaddset(&mask, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &mask, &before);
  std::signal(SIGPIPE, SIG_IGN);
  const int left_open = dup(2);  // without close-on-exec
  EXPECT_EQ(run("ls", {"/proc/self/fd"}), "0\n1\n2\n3\n") << "the last one is the directory";
  const std::string signals = run("grep", {"-E", "Sig(Blk|Ign)", "/proc/self/status"});
  std::istringstream ids(run("cut", {"-d ", "-f1,6", "/proc/self/stat"}));
  close(left_open);
  std::signal(SIGPIPE, SIG_DFL);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  EXPECT_EQ(signals, "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
  pid_t pid = 0;
  pid_t session = -1;
  ids >> pid >> session;
  EXPECT_EQ(pid, session);
}

TEST_F(CredentialsTest, EndsAProgramThatPrintsWithoutEnd) {
  ExecCommand command;
  command.program = write_program("exec yes\n");
  EXPECT_THAT(output_of(&loop_, command), HasSubstr("printed more than 1048576 bytes"));
}

TEST_F(CredentialsTest, EndsWhatAProgramHasStarted) {
  const std::string pid_file = (directory_ / "pid").string();
  ExecCommand command;
  command.program = write_program("sleep 1000 & echo $! > " + pid_file + "; wait\n");
  command.timeout = Milliseconds(300);
  EXPECT_THAT(output_of(&loop_, command), HasSubstr("did not end in time"));
  pid_t child = 0;
  std::ifstream(pid_file) >> child;
  ASSERT_GT(child, 1);
  // Init may not have reaped it yet.
  const auto is_gone = [&] {
    std::string name;
    std::string state;
    std::ifstream status("/proc/" + std::to_string(child) + "/stat");
    return !(status >> name >> name >> state) || state == "Z" || state == "X";
  };
  for (int tries = 0; tries < 10'000 && !is_gone(); ++tries) std::this_thread::yield();
  EXPECT_TRUE(is_gone());
}

}  // namespace
}  // namespace meshdns::registry::kubernetes
