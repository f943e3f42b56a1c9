// SPDX-License-Identifier: Apache-2.0
#include "registry/source/kubernetes/credentials.hpp"

#include <linux/close_range.h>
#include <unistd.h>
#include <uv.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <utility>

#include "registry/base/handle.hpp"

namespace meshdns::registry::kubernetes {
namespace {

// Service account tokens are exchanged long before they expire.
constexpr Milliseconds kTokenFileAge{10'000};
// Before its end, so that no request is under way with what has just expired.
constexpr std::chrono::seconds kBeforeExpiry{30};
constexpr Milliseconds kPluginPause{1'000};
constexpr std::size_t kMaxOutput = std::size_t{1} << 20;

}  // namespace

Credentials::Credentials(uv_loop_s* loop, Scheduler& scheduler, ClusterAccess access)
    : loop_(loop), scheduler_(scheduler), access_(std::move(access)) {}

Credentials::~Credentials() = default;

void Credentials::renew() {
  token_read_ = false;
  from_plugin_.reset();
}

bool Credentials::is_plugin_due() const {
  if (!access_.exec) return false;
  if (!from_plugin_) return true;
  return from_plugin_->expires &&
         std::chrono::system_clock::now() + kBeforeExpiry >= *from_plugin_->expires;
}

void Credentials::obtain(std::function<void(const Result<Proof>&)> ready) {
  if (!is_plugin_due()) return ready(proof());
  const bool has_just_failed =
      !plugin_error_.empty() && scheduler_.now() - plugin_failed_at_ < kPluginPause;
  if (has_just_failed) return ready(fail(plugin_error_));
  waiting_.push_back(std::move(ready));
  if (!plugin_) run_plugin();
}

// A file that cannot be read for a moment leaves the token that was read before.
Result<Proof> Credentials::proof() {
  Proof proof;
  proof.tls = access_.tls;
  proof.bearer_token = access_.token;
  if (!access_.user.empty()) proof.user_and_password = access_.user + ":" + access_.password;
  if (from_plugin_) {
    if (!from_plugin_->token.empty()) proof.bearer_token = from_plugin_->token;
    if (!from_plugin_->certificate_pem.empty()) {
      proof.tls.certificate_pem = from_plugin_->certificate_pem;
      proof.tls.key_pem = from_plugin_->key_pem;
    }
  }
  if (access_.token_file.empty()) return proof;
  const Milliseconds now = scheduler_.now();
  if (!token_read_ || token_.empty() || now - token_read_at_ >= kTokenFileAge) {
    token_read_ = true;
    token_read_at_ = now;
    auto token = read_token_file(access_.token_file);
    if (!token && token_.empty()) return std::unexpected(token.error());
    if (token) token_ = *std::move(token);
  }
  proof.bearer_token = token_;
  return proof;
}

void Credentials::run_plugin() {
  ExecCommand command;
  command.program = access_.exec->command;
  command.arguments = access_.exec->arguments;
  command.environment = access_.exec->environment;
  command.environment.emplace_back("KUBERNETES_EXEC_INFO", exec_info(access_));
  plugin_ = run_program(loop_, std::move(command), [this](Result<std::string> output) {
    take_plugin_output(std::move(output));
  });
}

void Credentials::take_plugin_output(Result<std::string> output) {
  plugin_.reset();
  Result<ExecCredential> credential =
      output ? parse_exec_credential(*output) : std::unexpected(output.error());
  plugin_error_.clear();
  if (credential) {
    from_plugin_ = *std::move(credential);
  } else {
    plugin_failed_at_ = scheduler_.now();
    plugin_error_ = "exec plugin " + access_.exec->command + ": " + credential.error().message;
    if (!access_.exec->install_hint.empty())
      plugin_error_ += " (" + access_.exec->install_hint + ")";
  }
  for (const auto& ready : std::exchange(waiting_, {}))
    ready(plugin_error_.empty() ? proof() : Result<Proof>(fail(plugin_error_)));
}

// --- programs ------------------------------------------------------------------------------------

// Lives until libuv has closed the handles of the process and of its output.
struct ExecProcess::Run {
  uv_process_t process{};
  uv_pipe_t output{};
  loop::Timer timer;
  unsigned open_handles = 0;
  bool has_ended = false;  // the program
  bool output_ended = false;
  std::int64_t exit_status = 0;
  int signal = 0;
  std::string killed_why;  // empty: it was not killed by us
  std::string text;
  std::array<char, 16'384> buffer{};
  std::function<void(Result<std::string>)> done;

  template <typename HandleType>
  void close(HandleType& handle) {
    auto* const base = reinterpret_cast<uv_handle_t*>(&handle);
    if (uv_is_closing(base) == 0)
      uv_close(base, [](uv_handle_t* h) {
        auto* const run = static_cast<Run*>(h->data);
        if (--run->open_handles == 0) delete run;
      });
  }
  void close_all() {
    close(process);
    close(output);
    timer.close();
  }

  // With all that it has started and that is still of its process group, unless it has ended.
  void kill_group() {
    if (!has_ended) ::kill(-process.pid, SIGKILL);
  }
  // Output that other processes of its group still write is not waited for.
  void kill(std::string why) {
    killed_why = std::move(why);
    kill_group();
    output_ended = true;
    finish_if_over();
  }

  void finish_if_over() {
    if (!has_ended || !output_ended || !done) return;
    const auto tell = std::move(done);
    done = nullptr;
    Result<std::string> result = std::move(text);
    if (!killed_why.empty())
      result = fail(killed_why);
    else if (signal != 0 || exit_status != 0)
      result = fail("the program ended with " + std::string(signal != 0 ? "signal " : "status ") +
                    std::to_string(signal != 0 ? signal : exit_status));
    close_all();
    tell(std::move(result));
  }
};

ExecProcess::~ExecProcess() {
  // After `done` the run has seen to its own end.
  if (!*alive_) return;
  run_->done = nullptr;
  if (run_->has_ended) {
    run_->close_all();
    return;
  }
  // The handle stays until the program is gone, so that no zombie does.
  run_->kill_group();
  run_->close(run_->output);
  run_->timer.close();
}

namespace {

// A plugin gets only the variables that find a program and its files: others hold tokens and the
// supervisor's sockets, by which a program could speak for the daemon.
std::vector<std::string> environment_of(const ExecCommand& command) {
  std::map<std::string, std::string> all{{"PATH", "/usr/local/bin:/usr/bin:/bin"}, {"HOME", "/"}};
  for (auto& [name, value] : all)
    if (const char* const ours = std::getenv(name.c_str()); ours != nullptr) value = ours;
  for (const auto& [name, value] : command.environment) all.insert_or_assign(name, value);
  std::vector<std::string> texts;
  for (const auto& [name, value] : all)
    texts.push_back(std::string(name).append("=").append(value));
  return texts;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (auto& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

int read_output(ExecProcess::Run& run) {
  return uv_read_start(
      reinterpret_cast<uv_stream_t*>(&run.output),
      [](uv_handle_t* handle, std::size_t, uv_buf_t* into) {
        auto& buffer = static_cast<ExecProcess::Run*>(handle->data)->buffer;
        *into = uv_buf_init(buffer.data(), static_cast<unsigned>(buffer.size()));
      },
      [](uv_stream_t* stream, ssize_t count, const uv_buf_t* from) {
        auto* const r = static_cast<ExecProcess::Run*>(stream->data);
        if (r->output_ended || count == 0) return;
        if (count < 0) {
          r->output_ended = true;
          return r->finish_if_over();
        }
        r->text.append(from->base, static_cast<size_t>(count));
        if (r->text.size() > kMaxOutput)
          r->kill("the program printed more than " + std::to_string(kMaxOutput) + " bytes");
      });
}

// Tells from the loop, never from within run_program().
void fail_later(uv_loop_t* loop, ExecProcess::Run& run, int error) {
  run.killed_why = std::string("the program cannot be started: ") + uv_strerror(error);
  run.has_ended = run.output_ended = true;
  run.timer.open(loop, [&run] { run.finish_if_over(); });
  run.timer.start(Milliseconds(0));
}

}  // namespace

std::unique_ptr<ExecProcess> run_program(uv_loop_s* loop, ExecCommand command,
                                         std::function<void(Result<std::string>)> done) {
  auto* const run = new ExecProcess::Run;
  auto running = std::make_unique<ExecProcess>(run);
  run->done = [done = std::move(done), alive = running->alive()](Result<std::string> result) {
    *alive = false;
    done(std::move(result));
  };
  uv_pipe_init(loop, &run->output, 0);
  run->process.data = run->output.data = run;
  run->open_handles = 2;

  std::vector<std::string> arguments = std::move(command.arguments);
  arguments.insert(arguments.begin(), command.program);
  std::vector<std::string> environment = environment_of(command);
  auto argument_pointers = pointers_to(arguments);
  auto environment_pointers = pointers_to(environment);
  std::array<uv_stdio_container_t, 3> files{};
  files[0].flags = UV_IGNORE;
  files[1].flags = static_cast<uv_stdio_flags>(UV_CREATE_PIPE | UV_WRITABLE_PIPE);
  files[1].data.stream = reinterpret_cast<uv_stream_t*>(&run->output);
  files[2].flags = UV_INHERIT_FD;
  files[2].data.fd = 2;
  uv_process_options_t options{};
  options.file = command.program.c_str();
  options.args = argument_pointers.data();
  options.env = environment_pointers.data();
  options.stdio = files.data();
  options.stdio_count = static_cast<int>(files.size());
  options.exit_cb = [](uv_process_t* process, std::int64_t status, int signal) {
    auto* const r = static_cast<ExecProcess::Run*>(process->data);
    r->has_ended = true;
    r->exit_status = status;
    r->signal = signal;
    if (!r->done) return r->close_all();
    r->finish_if_over();
  };
  // A session of its own, so that it can be killed with what it starts.
  options.flags = UV_PROCESS_DETACHED;
  // Ours are closed by an exec anyway; those that our parent has left open are not.
  (void)::close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
  int error = uv_spawn(loop, &run->process, &options);
  if (error != 0) {
    fail_later(loop, *run, error);
    return running;
  }
  run->timer.open(loop, [run] { run->kill("the program did not end in time"); });
  run->timer.start(command.timeout);
  error = read_output(*run);
  if (error != 0) run->kill(std::string("the program cannot be followed: ") + uv_strerror(error));
  return running;
}

}  // namespace meshdns::registry::kubernetes
