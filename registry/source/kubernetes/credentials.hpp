// SPDX-License-Identifier: Apache-2.0
// The credentials for the API server, kept fresh: token files are read again, and exec plugins run
// again before their credentials expire.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "registry/base/result.hpp"
#include "registry/source/kubernetes/cluster_access.hpp"
#include "registry/source/scheduler.hpp"

namespace meshdns::registry::kubernetes {

struct ExecCommand {
  std::string program;  // a path, or a name that is looked for in PATH
  std::vector<std::string> arguments;
  // Beside PATH and HOME, which are all that it gets of our own environment.
  std::vector<std::pair<std::string, std::string>> environment;
  Milliseconds timeout{30'000};
};

// Destruction kills the program, with what it has started, and calls nobody.
class ExecProcess {
 public:
  struct Run;
  explicit ExecProcess(Run* run) : run_(run) {}
  ~ExecProcess();
  ExecProcess(const ExecProcess&) = delete;
  ExecProcess& operator=(const ExecProcess&) = delete;
  std::shared_ptr<bool> alive() const { return alive_; }

 private:
  Run* run_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

// `done` gets the standard output of a program that ended well, or why there is none: 1 MiB at
// most. The program has no input, the standard error is ours, no other descriptors, the default
// actions and mask of signals, and a session of its own.  Never called from within this call; the
// process may be destroyed in it.
[[nodiscard]] std::unique_ptr<ExecProcess> run_program(
    uv_loop_s* loop, ExecCommand command, std::function<void(Result<std::string>)> done);

// The credentials of one request.
struct Proof {
  std::string bearer_token;  // empty: none
  std::string user_and_password;
  TlsIdentity tls;
};

// Control thread.
class Credentials {
 public:
  // REQUIRES: the loop runs on for the handles to close after destruction.
  Credentials(uv_loop_s* loop, Scheduler& scheduler, ClusterAccess access);
  ~Credentials();

  const ClusterAccess& access() const { return access_; }
  // `ready` is called once there is something to ask with, at once where there is; or with why
  // there is nothing.  It may be called from within this call.
  void obtain(std::function<void(const Result<Proof>&)> ready);
  // Forgets the credentials, which the server has refused: the next obtain() reads new ones.
  void renew();

 private:
  Result<Proof> proof();
  bool is_plugin_due() const;
  void run_plugin();
  void take_plugin_output(Result<std::string> output);

  uv_loop_s* loop_;
  Scheduler& scheduler_;
  const ClusterAccess access_;
  std::string token_;  // of the file
  bool token_read_ = false;
  Milliseconds token_read_at_{0};
  std::optional<ExecCredential> from_plugin_;
  std::string plugin_error_;
  Milliseconds plugin_failed_at_{0};
  std::unique_ptr<ExecProcess> plugin_;
  std::vector<std::function<void(const Result<Proof>&)>> waiting_;
};

}  // namespace meshdns::registry::kubernetes
