// SPDX-License-Identifier: Apache-2.0
#include "dnsd/daemon/signals.hpp"

#include <pthread.h>
#include <sys/prctl.h>

#include <atomic>
#include <csignal>
#include <initializer_list>
#include <string>
#include <utility>

namespace meshdns::dnsd {

void allow_core_dumps(bool allowed) {
  // It fails for other values only.
  (void)::prctl(PR_SET_DUMPABLE, allowed ? 1 : 0, 0, 0, 0);
}

namespace {

sigset_t held_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGHUP, SIGTERM, SIGINT, SIGUSR1, SIGUSR2, SIGPIPE})
    sigaddset(&set, number);
  return set;
}

using Handler = void (*)(int);

std::atomic<bool> end_asked = false;
// libuv's handler, the same one for every signal.
std::atomic<Handler> handler_of_loops = nullptr;
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<Handler>::is_always_lock_free);

void note_end(int number) {
  end_asked = true;
  if (const Handler handler = handler_of_loops) handler(number);
}

// Puts note_end() in front of libuv's handler, which only wakes the loop.
void note_ends(int number) {
  end_asked = false;
  struct sigaction action{};
  sigaction(number, nullptr, &action);
  if (action.sa_handler == note_end) return;
  handler_of_loops = action.sa_handler;
  action.sa_handler = note_end;
  sigaction(number, &action, nullptr);
}

}  // namespace

bool is_end_asked() { return end_asked || is_end_pending(); }

int Signal::open(uv_loop_t* loop, int number, Callback callback) {
  const auto init = [loop](uv_signal_t* signal) { return uv_signal_init(loop, signal); };
  int error = begin(std::move(callback), init);
  if (error == 0) error = uv_signal_start(get(), call, number);
  if (error != 0) close();
  if (error == 0 && (number == SIGTERM || number == SIGINT)) note_ends(number);
  return error;
}

Result<void> DaemonSignals::open(uv_loop_t* loop, const std::function<void(int number)>& callback) {
  const std::array<int, 3> numbers{SIGTERM, SIGINT, SIGHUP};
  for (std::size_t i = 0; i < numbers.size(); ++i)
    if (const int error = signals_[i].open(loop, numbers[i], callback); error != 0)
      return fail(std::string("cannot receive signals: ") + uv_strerror(error));
  release_signals();
  return {};
}

// libuv gives a signal without a Signal its first meaning back, which is to end the process.
void DaemonSignals::close() {
  hold_signals();
  for (Signal& signal : signals_) signal.close();
  ignore_late_signals();
}

void hold_signals() {
  const sigset_t set = held_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

void release_signals() {
  const sigset_t set = held_signals();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

void ignore_late_signals() {
  if (is_end_pending()) end_asked = true;  // an ignored signal is pending no more
  for (const int number : {SIGHUP, SIGTERM, SIGINT}) std::signal(number, SIG_IGN);
}

void ignore_harmless_signals() {
  for (const int number : {SIGPIPE, SIGXFSZ, SIGUSR1, SIGUSR2}) std::signal(number, SIG_IGN);
}

bool is_end_pending() {
  sigset_t pending;
  sigemptyset(&pending);
  sigpending(&pending);
  return sigismember(&pending, SIGTERM) == 1 || sigismember(&pending, SIGINT) == 1;
}

}  // namespace meshdns::dnsd
