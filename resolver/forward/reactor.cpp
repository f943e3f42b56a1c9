// SPDX-License-Identifier: Apache-2.0
#include "resolver/forward/reactor.hpp"

#include <sys/epoll.h>
#include <unistd.h>

#include <array>
#include <cassert>
#include <cerrno>
#include <utility>

#include "registry/base/handle.hpp"

namespace meshdns::dnsd {
namespace {

constexpr std::uint32_t kNoSlot = 0xffffffff;
// A turn of the loop with so many replies takes some 200 us, and then the clients' queries have
// theirs.  More than the flights that take off in a turn (Forwarder), so that replies do not pile
// up, whose order is not a fair one.
constexpr int kEventsPerCall = 32;
constexpr int kCallsBeforeTimers = 256;

std::uint64_t event_data(std::uint32_t slot, std::uint32_t generation) {
  return std::uint64_t{generation} << 32 | slot;
}

}  // namespace

Reactor::Reactor(uv_loop_t* loop)
    : loop_(loop),
      epoll_fd_(epoll_create1(EPOLL_CLOEXEC)),
      timer_(loop, [this] { run_timers(); }),
      first_free_(kNoSlot) {
  check_loop(epoll_fd_ >= 0 ? 0 : -errno, "make an epoll set");
  check_loop(poll_.open(loop_, epoll_fd_, [this](int, int) { run_sockets(); }),
             "watch a descriptor");
  poll_.watch(UV_READABLE);
  // Upstream queries alone do not keep the loop running.
  poll_.unref();
  timer_.unref();
}

void Reactor::close() {
  if (is_closed()) return;
  poll_.close();
  timer_.close();
  ::close(std::exchange(epoll_fd_, -1));
}

bool Reactor::watch(int fd, std::uint32_t events, SocketListener& listener, std::uint32_t& slot) {
  if (first_free_ == kNoSlot) {
    first_free_ = static_cast<std::uint32_t>(slots_.size());
    slots_.emplace_back().next_free = kNoSlot;
  }
  slot = first_free_;
  epoll_event event{};
  event.events = events;
  event.data.u64 = event_data(slot, slots_[slot].generation);
  if (epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event) != 0) return false;
  first_free_ = slots_[slot].next_free;
  slots_[slot].listener = &listener;
  return true;
}

void Reactor::change(int fd, std::uint32_t slot, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = event_data(slot, slots_[slot].generation);
  check_loop(epoll_ctl(epoll_fd_, EPOLL_CTL_MOD, fd, &event) == 0 ? 0 : -errno,
             "watch a socket for other events");
}

void Reactor::unwatch(std::uint32_t slot) {
  slots_[slot].listener = nullptr;
  ++slots_[slot].generation;  // events already fetched are for somebody else
  slots_[slot].next_free = first_free_;
  first_free_ = slot;
}

bool Reactor::run_sockets() {
  std::array<epoll_event, kEventsPerCall> events;
  const int count = epoll_wait(epoll_fd_, events.data(), kEventsPerCall, 0);
  check_loop(count >= 0 || errno == EINTR ? 0 : -errno, "read the events of sockets");
  for (int i = 0; i < count; ++i) {
    const auto slot = static_cast<std::uint32_t>(events[i].data.u64);
    const auto generation = static_cast<std::uint32_t>(events[i].data.u64 >> 32);
    if (is_closed()) return false;
    if (slots_[slot].generation != generation || slots_[slot].listener == nullptr) continue;
    const RetireList::Turn turn(retired_);
    slots_[slot].listener->on_socket(events[i].events);
  }
  return !is_closed() && count == kEventsPerCall;
}

void Reactor::arm() {
  if (is_closed()) return;
  if (timers_.empty()) return;  // fires once for nothing at worst
  const Millis first = timers_.begin()->first;
  if (armed_for_ != 0 && armed_for_ <= first) return;
  armed_for_ = first == 0 ? 1 : first;
  const Millis delay = first > now() ? first - now() : 0;
  timer_.start(std::chrono::milliseconds(delay));
}

void Reactor::run_timers() {
  armed_for_ = 0;
  const Millis now_ms = now();
  // The loop calls timers before sockets.  Where we were held up for longer than a timeout, the
  // answer is there all the same, and no upstream is to be blamed.
  const bool is_due = !timers_.empty() && timers_.begin()->first <= now_ms;
  for (int left = is_due ? kCallsBeforeTimers : 0; left > 0 && run_sockets();) --left;
  // Timers started meanwhile for now wait for the next round, so that no two can keep us here.
  for (std::size_t left = timers_.size(); left > 0 && !timers_.empty(); --left) {
    if (is_closed()) return;
    const auto first = timers_.begin();
    if (first->first > now_ms) break;
    Timer* const timer = first->second;
    timers_.erase(first);
    timer->running_ = false;
    const RetireList::Turn turn(retired_);
    timer->callback_();
  }
  arm();
}

void Timer::start(Millis at) {
  stop();
  position_ = reactor_.timers_.emplace(at, this);
  running_ = true;
  reactor_.arm();
}

void Timer::stop() {
  if (!running_) return;
  reactor_.timers_.erase(position_);
  running_ = false;
}

SocketWatch::SocketWatch(Reactor& reactor, int fd, std::uint32_t events, SocketListener& listener)
    : reactor_(&reactor), fd_(fd), events_(events) {
  if (reactor.watch(fd, events, listener, slot_)) return;
  const int error = errno;
  ::close(std::exchange(fd_, -1));
  errno = error;
}

SocketWatch& SocketWatch::operator=(SocketWatch&& other) noexcept {
  if (this == &other) return *this;
  reset();
  reactor_ = std::exchange(other.reactor_, nullptr);
  fd_ = std::exchange(other.fd_, -1);
  slot_ = other.slot_;
  events_ = other.events_;
  return *this;
}

void SocketWatch::set_events(std::uint32_t events) {
  if (fd_ < 0 || events == events_) return;
  events_ = events;
  reactor_->change(fd_, slot_, events);
}

void SocketWatch::set_listener(SocketListener& listener) {
  reactor_->slots_[slot_].listener = &listener;
}

void SocketWatch::reset() {
  if (fd_ < 0) return;
  reactor_->unwatch(slot_);
  ::close(std::exchange(fd_, -1));  // leaves the epoll set with its last descriptor
}

}  // namespace meshdns::dnsd
