// SPDX-License-Identifier: Apache-2.0
// Hands the listening sockets of a daemon over to the next one, through a Unix socket, so that an
// upgrade loses no query.  Both processes then have the same sockets, and queries that wait in them
// outlive either process.
//
//     the daemon that runs                          the next daemon
//     Handover::listen                              Predecessor::find
//                      "meshdns-handover 1" ->
//                                                   reads its sources, however long that takes
//                      <- "sockets" ADDRESS...      Predecessor::take
//                      ADDRESS + sockets ... ->
//                      "end" ->
//                                                   starts to answer
//                      <- "serving"                 Predecessor::tell_serving
//     Hooks::on_serving stops reading
//                      "stopped" ->
//
// The connection stays open as long as both live.  The daemon that has stopped reading keeps its
// sockets: it reads again as soon as the next one ends (Hooks::on_lost).  It ends with SIGTERM, as
// always, not by itself: a supervisor would start it again.
//
// Each message is one packet (SOCK_SEQPACKET).  Trust: the peer runs as the user of this process,
// or as root, and nobody else can write to the directory of the Unix socket.
#pragma once

#include <sys/types.h>
#include <uv.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dnsd/net/listeners.hpp"
#include "registry/base/file_descriptor.hpp"
#include "registry/base/handle.hpp"
#include "registry/base/result.hpp"

namespace meshdns::dnsd {

// The side of the daemon that runs.  Serves one next daemon at a time.  The loop's thread.
class Handover {
 public:
  // No hook may destroy the Handover; each may call all other functions.
  struct Hooks {
    // Returns the listeners with an address of `wanted`, in the form of SocketAddress::to_string.
    std::function<std::vector<SharedListener>(std::span<const std::string> wanted)> share;
    // The next daemon answers on these sockets: this one must stop reading from them.
    std::function<void()> on_serving;
    // The next daemon has ended.  `has_served`: it was the only one that read.
    std::function<void(bool has_served)> on_lost;
    // A process was refused, with the reason.
    std::function<void(const std::string& reason)> on_refused;
  };
  explicit Handover(Hooks hooks) : hooks_(std::move(hooks)) {}
  Handover(const Handover&) = delete;
  Handover& operator=(const Handover&) = delete;

  // Waits for the next daemon at `path`, in place of the socket that is there.  The Error says what
  // is wrong with the path or its directory.  REQUIRES: no other daemon that serves waits there.
  Result<void> listen(uv_loop_t* loop, const std::string& path);
  // Waits no more.  A next daemon that is connected stays.
  void stop_listening();
  // Ends all calls.  A next daemon that serves keeps its connection until this object goes: the end
  // tells it that this process is done with its files.  One that does not is on its own from now
  // on.
  void stop();

  bool has_successor() const { return successor_.has_value(); }
  bool successor_serves() const { return successor_ && successor_->step == Step::Serving; }

 private:
  enum class Step : std::uint8_t { Connected, HasSockets, Serving };
  struct Successor {
    FileDescriptor fd;
    loop::Poll poll;
    Step step;
  };

  void accept();
  void read_successor();
  bool hand_over(std::string_view request);
  void lose_successor();

  const Hooks hooks_;
  uv_loop_t* loop_ = nullptr;
  FileDescriptor fd_;
  loop::Poll poll_;
  std::optional<Successor> successor_;
};

// The side of the next daemon.  The loop's thread.  Every call returns within kPatience for each
// message that it waits for.
class Predecessor {
 public:
  static constexpr int kPatienceSeconds = 5;

  // Connects to the daemon at `path`; nullopt if there is none.  The Error says why the daemon
  // there cannot hand anything over: it does not answer in time, or speaks another version of this.
  static Result<std::optional<Predecessor>> find(const std::string& path);
  Predecessor(Predecessor&&) noexcept = default;
  Predecessor& operator=(Predecessor&&) noexcept = default;

  // 0 if it lives in another PID namespace.
  pid_t pid() const { return pid_; }
  // Takes its sockets for those of `wanted` that it has; it goes on to answer until tell_serving().
  // Refuses sockets of another network namespace.
  Result<std::vector<HandedListener>> take(std::span<const SocketAddress> wanted);
  // This process answers.  Returns when the other has stopped reading.
  Result<void> tell_serving();
  // Returns whether it has ended.
  bool has_ended() const;
  // Calls `on_ended` once, in a later turn of the loop.  It may destroy this object.  REQUIRES: the
  // object is not moved any more.
  void watch(uv_loop_t* loop, std::function<void()> on_ended);

 private:
  Predecessor(FileDescriptor fd, pid_t pid) : fd_(std::move(fd)), pid_(pid) {}

  FileDescriptor fd_;
  pid_t pid_ = 0;
  loop::Poll poll_;
};

}  // namespace meshdns::dnsd
