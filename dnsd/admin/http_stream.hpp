// SPDX-License-Identifier: Apache-2.0
// The body of a response that is written bit by bit: long lists, and watches that have no end.
//
// The writer's thread calls the functions of the first group, the HTTP server's thread those of the
// second.  The stream holds at most kRoom bytes and one write; a writer that waits for room holds
// nothing for a slow client.
#pragma once

#include <cstddef>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>

namespace meshdns::dnsd {

class HttpStream {
 public:
  static constexpr std::size_t kRoom = std::size_t{1} << 20;

  // `farewell`: the last bytes for a client that reads too slowly.  A stream that has one is a
  // watch: its connection may be idle, and does not make room for others.
  explicit HttpStream(std::string farewell = {})
      : farewell_(std::move(farewell)), is_watch_(!farewell_.empty()) {}

  // --- The writer's thread.
  bool has_room() const;
  void write(std::string_view bytes);
  // Ends the body.  Nothing may be written after that.
  void finish();
  // Returns whether writing has an end: the client has gone, or the body has ended.
  bool is_closed() const;

  // --- Any thread.
  // Ends the body with the farewell.  Returns false if it has ended before, or has no farewell.
  bool give_up();
  bool is_watch() const { return is_watch_; }

  // --- The server's thread.
  // `wake` is called, on any thread, when there is something to read again after read() had
  // nothing.  It must not call the stream.
  void attach(std::function<void()> wake);
  // The client has gone.
  void detach();
  struct Piece {
    std::size_t size = 0;  // 0: wait for `wake`, or the body has ended
    bool has_ended = false;
  };
  Piece read(char* to, std::size_t size);

 private:
  // REQUIRES: mutex_ is held.
  void wake();

  mutable std::mutex mutex_;
  // Guarded by mutex_.
  std::string held_;
  std::size_t begin_ = 0;  // of `held_`, that has not been read
  std::string farewell_;
  const bool is_watch_;
  bool is_finished_ = false;
  bool is_detached_ = false;
  bool is_waiting_ = false;  // the reader has found nothing
  std::function<void()> wake_;
};

}  // namespace meshdns::dnsd
