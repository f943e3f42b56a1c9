#include "registry/source/kubernetes/credentials.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include <filesystem>
#include <fstream>

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

}  // namespace
}  // namespace meshdns::registry::kubernetes
