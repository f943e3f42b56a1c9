// SPDX-License-Identifier: Apache-2.0
// Signals, and what holds them before and after the event loop.
//
// A signal whose handler is not installed yet would end the process.  So main() blocks the daemon's
// signals first, and the daemon unblocks them once its loop handles them: those that came meanwhile
// are handled then.  One that comes after the loop changes nothing: the daemon is about to end, and
// its exit status has to say that it ended well.
#pragma once

#include <array>
#include <functional>

#include "registry/base/handle.hpp"
#include "registry/base/result.hpp"

namespace meshdns::dnsd {

// Sets whether the memory of this process may leave it.  If not, the kernel writes no core file,
// and other processes of the same user can neither attach to this one nor read its memory or
// descriptors below /proc/PID, which then belong to root (PR_SET_DUMPABLE of prctl(2)).  The memory
// holds tokens, cookie secrets and what clients ask for. Programs that are started from here are
// not affected.  Any thread; for the whole process.
void allow_core_dumps(bool allowed);

// A signal that the loop receives.  The loop's thread only.
class Signal : public loop::Handle<uv_signal_t, void(int number)> {
 public:
  // Calls back at each signal `number`.  Returns libuv's error.
  [[nodiscard]] int open(uv_loop_t* loop, int number, Callback callback);
};

// SIGTERM, SIGINT and SIGHUP of the daemon.  The loop's thread.
class DaemonSignals {
 public:
  // Calls back at each of them, those that are held included, which are released.
  Result<void> open(uv_loop_t* loop, const std::function<void(int number)>& callback);
  // From now on they change nothing: the process is about to end.
  void close();

 private:
  std::array<Signal, 3> signals_;
};

// Blocks SIGHUP, SIGTERM, SIGINT, SIGUSR1, SIGUSR2 and SIGPIPE for the calling thread, and for
// those that it starts from then on.
void hold_signals();

// Unblocks them.  REQUIRES: called by the thread that called hold_signals().
void release_signals();

// Ignores SIGHUP, SIGTERM and SIGINT.  For a process that is about to end, whose Signals are
// closed.  is_end_asked() still tells of those that came before.
void ignore_late_signals();

// Ignores the signals that have no meaning for the daemon but would end it: SIGPIPE (a peer is
// gone), SIGXFSZ (a file may not grow any more), SIGUSR1 and SIGUSR2.
void ignore_harmless_signals();

// True from the moment that SIGTERM or SIGINT has come, held or to a Signal, whose loop may learn
// it much later: long work on the loop's thread asks it whether to go on.  A Signal that is opened
// for either sets it back.  Any thread.
bool is_end_asked();

// True if SIGTERM or SIGINT came while signals are held: a start that waits should end.
bool is_end_pending();

}  // namespace meshdns::dnsd
