#include "registry/source/kubernetes/exec_process.hpp"

#include <uv.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <utility>

namespace meshdns::registry::kubernetes {
namespace {

constexpr std::size_t kMaxOutput = std::size_t{1} << 20;

// Lives until libuv has closed all of its handles.
struct Run {
  uv_process_t process{};
  uv_pipe_t output{};
  uv_timer_t timer{};
  unsigned open_handles = 0;
  bool has_ended = false;  // the program
  bool output_ended = false;
  std::int64_t exit_status = 0;
  int signal = 0;
  bool timed_out = false;
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
    close(timer);
  }

  void finish_if_over() {
    if (!has_ended || !output_ended || !done) return;
    const auto tell = std::move(done);
    done = nullptr;
    Result<std::string> result = std::move(text);
    if (timed_out)
      result = fail("the program did not end in time");
    else if (signal != 0 || exit_status != 0)
      result = fail("the program ended with " + std::string(signal != 0 ? "signal " : "status ") +
                    std::to_string(signal != 0 ? signal : exit_status));
    close_all();
    tell(std::move(result));
  }
};

class RunningProgram final : public ExecProcess {
 public:
  explicit RunningProgram(Run* run) : run_(run) {}
  ~RunningProgram() override {
    // After `done` the run has seen to its own end.
    if (!*alive_) return;
    run_->done = nullptr;
    if (run_->has_ended) {
      run_->close_all();
      return;
    }
    // The handle stays until the program is gone, so that no zombie does.
    uv_process_kill(&run_->process, SIGKILL);
    run_->close(run_->output);
    run_->close(run_->timer);
  }
  RunningProgram(const RunningProgram&) = delete;
  RunningProgram& operator=(const RunningProgram&) = delete;
  std::shared_ptr<bool> alive() const { return alive_; }

 private:
  Run* run_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

std::vector<std::string> environment_with(
    const std::vector<std::pair<std::string, std::string>>& added) {
  std::vector<std::string> all;
  uv_env_item_t* items = nullptr;
  int count = 0;
  if (uv_os_environ(&items, &count) == 0) {
    for (int i = 0; i < count; ++i)
      all.push_back(std::string(items[i].name) + "=" + items[i].value);
    uv_os_free_environ(items, count);
  }
  for (const auto& [name, value] : added) {
    std::erase_if(all, [&](const std::string& item) { return item.starts_with(name + "="); });
    all.push_back(name + "=" + value);
  }
  return all;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (auto& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

void read_output(Run& run) {
  uv_read_start(
      reinterpret_cast<uv_stream_t*>(&run.output),
      [](uv_handle_t* handle, std::size_t, uv_buf_t* into) {
        auto& buffer = static_cast<Run*>(handle->data)->buffer;
        *into = uv_buf_init(buffer.data(), static_cast<unsigned>(buffer.size()));
      },
      [](uv_stream_t* stream, ssize_t count, const uv_buf_t* from) {
        auto* const r = static_cast<Run*>(stream->data);
        if (count > 0) {
          if (r->text.size() < kMaxOutput) r->text.append(from->base, static_cast<size_t>(count));
        } else if (count < 0) {
          r->output_ended = true;
          r->finish_if_over();
        }
      });
}

void limit_time(Run& run, Milliseconds timeout) {
  uv_timer_start(
      &run.timer,
      [](uv_timer_t* timer) {
        auto* const r = static_cast<Run*>(timer->data);
        r->timed_out = true;
        if (!r->has_ended) uv_process_kill(&r->process, SIGKILL);
        // A child of the program's own may hold the pipe.
        r->output_ended = true;
        r->finish_if_over();
      },
      static_cast<std::uint64_t>(timeout.count()), 0);
}

}  // namespace

std::unique_ptr<ExecProcess> run_program(uv_loop_s* loop, ExecCommand command,
                                         std::function<void(Result<std::string>)> done) {
  auto* const run = new Run;
  auto running = std::make_unique<RunningProgram>(run);
  run->done = [done = std::move(done), alive = running->alive()](Result<std::string> result) {
    *alive = false;
    done(std::move(result));
  };
  uv_pipe_init(loop, &run->output, 0);
  uv_timer_init(loop, &run->timer);
  run->process.data = run->output.data = run->timer.data = run;
  run->open_handles = 3;

  std::vector<std::string> arguments = std::move(command.arguments);
  arguments.insert(arguments.begin(), command.program);
  std::vector<std::string> environment = environment_with(command.environment);
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
    auto* const r = static_cast<Run*>(process->data);
    r->has_ended = true;
    r->exit_status = status;
    r->signal = signal;
    if (!r->done) return r->close_all();
    r->finish_if_over();
  };
  if (const int error = uv_spawn(loop, &run->process, &options); error != 0) {
    run->has_ended = true;
    run->text = uv_strerror(error);
    uv_timer_start(
        &run->timer,
        [](uv_timer_t* timer) {
          auto* const r = static_cast<Run*>(timer->data);
          const auto tell = std::exchange(r->done, nullptr);
          r->close_all();
          tell(fail("the program cannot be started: " + r->text));
        },
        0, 0);
    return running;
  }
  read_output(*run);
  limit_time(*run, command.timeout);
  return running;
}

}  // namespace meshdns::registry::kubernetes
