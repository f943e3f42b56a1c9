// SPDX-License-Identifier: Apache-2.0
#include "dnsd/admin/http_stream.hpp"

#include <algorithm>
#include <utility>

namespace meshdns::dnsd {

bool HttpStream::has_room() const {
  const std::lock_guard lock(mutex_);
  return held_.size() - begin_ < kRoom;
}

void HttpStream::write(std::string_view bytes) {
  const std::lock_guard lock(mutex_);
  if (is_finished_ || is_detached_) return;
  held_.append(bytes);
  wake();
}

void HttpStream::finish() {
  const std::lock_guard lock(mutex_);
  is_finished_ = true;
  wake();
}

bool HttpStream::is_closed() const {
  const std::lock_guard lock(mutex_);
  return is_finished_ || is_detached_;
}

bool HttpStream::give_up() {
  const std::lock_guard lock(mutex_);
  if (is_finished_ || !is_watch_) return false;
  held_.append(farewell_);
  is_finished_ = true;
  wake();
  return true;
}

void HttpStream::attach(std::function<void()> wake) {
  const std::lock_guard lock(mutex_);
  wake_ = std::move(wake);
}

void HttpStream::detach() {
  const std::lock_guard lock(mutex_);
  is_detached_ = true;
  wake_ = nullptr;
  held_ = {};
  begin_ = 0;
}

HttpStream::Piece HttpStream::read(char* to, std::size_t size) {
  const std::lock_guard lock(mutex_);
  const std::size_t count = std::min(size, held_.size() - begin_);
  std::copy_n(held_.data() + begin_, count, to);
  begin_ += count;
  // The memory of a burst goes; what moves is at most as much as was read.
  if (begin_ == held_.size()) {
    held_ = {};
    begin_ = 0;
  } else if (begin_ > held_.size() / 2) {
    held_.erase(0, begin_);
    begin_ = 0;
  }
  is_waiting_ = count == 0 && !is_finished_;
  return {count, count == 0 && is_finished_};
}

void HttpStream::wake() {
  if (std::exchange(is_waiting_, false) && wake_) wake_();
}

}  // namespace meshdns::dnsd
