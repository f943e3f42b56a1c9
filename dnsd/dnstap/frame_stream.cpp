// SPDX-License-Identifier: Apache-2.0
#include "dnsd/dnstap/frame_stream.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "dnsd/net/whole_io.hpp"

namespace meshdns::dnsd {
namespace {

using Octets = std::vector<std::uint8_t>;
using std::chrono::milliseconds;

constexpr std::string_view kContentType = "protobuf:dnstap.Dnstap";
constexpr std::uint32_t kFieldContentType = 1;
enum class Control : std::uint32_t { Accept = 1, Start = 2, Stop = 3, Ready = 4, Finish = 5 };

constexpr std::size_t kMaxControlSize = 512;
constexpr milliseconds kPause{1'000};  // between two tries to connect
constexpr timeval kPatience{1, 0};     // of one read or write at a socket
constexpr std::size_t kWriteSize = std::size_t{64} << 10;

void put_u32(Octets& out, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8)
    out.push_back(static_cast<std::uint8_t>(value >> shift));
}

std::uint32_t get_u32(const std::uint8_t* at) {
  return std::uint32_t{at[0]} << 24 | std::uint32_t{at[1]} << 16 | std::uint32_t{at[2]} << 8 |
         at[3];
}

// A length of 0 announces a control frame: its own length, its type, its fields.
Octets control_frame(Control type) {
  const bool has_content_type = type == Control::Ready || type == Control::Start;
  Octets out;
  put_u32(out, 0);
  put_u32(out, has_content_type ? static_cast<std::uint32_t>(12 + kContentType.size()) : 4);
  put_u32(out, static_cast<std::uint32_t>(type));
  if (has_content_type) {
    put_u32(out, kFieldContentType);
    put_u32(out, static_cast<std::uint32_t>(kContentType.size()));
    out.insert(out.end(), kContentType.begin(), kContentType.end());
  }
  return out;
}

bool fill(int fd, std::span<std::uint8_t> octets) {
  const auto filled = read_fully(fd, octets);
  return filled && *filled == octets.size();
}

// Whether the next thing that the reader says is this.
bool read_control(int fd, Control wanted) {
  std::array<std::uint8_t, 8> head;
  if (!fill(fd, head) || get_u32(head.data()) != 0) return false;
  const std::uint32_t size = get_u32(head.data() + 4);
  if (size < 4 || size > kMaxControlSize) return false;
  Octets body(size);
  return fill(fd, body) && get_u32(body.data()) == static_cast<std::uint32_t>(wanted);
}

FileDescriptor connect_to(const std::string& path) {
  FileDescriptor fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) return fd;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &kPatience, sizeof kPatience);
  ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof kPatience);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), std::min(path.size(), sizeof address.sun_path - 1));
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    fd.reset();
  return fd;
}

}  // namespace

FrameStream::FrameStream(DnstapTarget target, Log& log) : target_(std::move(target)), log_(log) {
  thread_ = std::thread([this] { run(); });
}

void FrameStream::push(Frame frame) {
  {
    const std::lock_guard lock(mutex_);
    if (closing_) return;
    if (queued_octets_ + frame.size() > kMaxQueued) {
      dropped_.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    queued_octets_ += frame.size();
    queue_.push_back(std::move(frame));
  }
  changed_.notify_one();
}

void FrameStream::close() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_one();
  if (!thread_.joinable()) return;
  thread_.join();
  dropped_.fetch_add(queue_.size(), std::memory_order_relaxed);  // the thread has given up
  queue_.clear();
}

// What is queued, as soon as there is something; nothing at the end, or after `limit`.
std::deque<FrameStream::Frame> FrameStream::take(milliseconds limit) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, limit, [this] { return closing_ || !queue_.empty(); });
  queued_octets_ = 0;
  return std::exchange(queue_, {});
}

void FrameStream::run() {
  pthread_setname_np(pthread_self(), "dnstap");
  // A reader that is gone is an error of write().  Signals are the control thread's.
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  const auto is_closing = [this] {
    const std::lock_guard lock(mutex_);
    return closing_;
  };
  while (!fd_ && !open()) {
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, kPause, [this] { return closing_; })) return;
  }
  for (;;) {
    const bool last = is_closing();
    const std::deque<Frame> frames = take(kPause);
    const std::size_t written = write_frames(frames);
    written_.fetch_add(written, std::memory_order_relaxed);
    if (written < frames.size()) {
      dropped_.fetch_add(frames.size() - written, std::memory_order_relaxed);
      log_.write_folded(LogLevel::Warn, "lost dnstap frames because a write failed",
                        {{"to", to_string(target_)}});
      fd_.reset();
      while (!fd_ && !open()) {
        std::unique_lock lock(mutex_);
        if (changed_.wait_for(lock, kPause, [this] { return closing_; })) return;
      }
    }
    if (last && frames.empty()) break;
  }
  end_stream();
}

bool FrameStream::open() {
  if (target_.kind == DnstapTarget::Kind::File)
    // Two streams in one file cannot be read: it begins anew.  A FIFO that nobody reads must not
    // block.
    fd_ = FileDescriptor(
        ::open(target_.path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK, 0640));
  else
    fd_ = connect_to(target_.path);
  if (!fd_) {
    log_.write_folded(LogLevel::Warn, "cannot open the dnstap target",
                      {{"to", to_string(target_)}, {"reason", std::strerror(errno)}});
    return false;
  }
  if (shake_hands()) {
    log_.info("writing dnstap", {{"to", to_string(target_)}});
    return true;
  }
  log_.write_folded(LogLevel::Warn, "the reader of dnstap refused the stream",
                    {{"to", to_string(target_)}});
  fd_.reset();
  return false;
}

bool FrameStream::shake_hands() {
  if (target_.kind == DnstapTarget::Kind::Socket)
    if (!write_all(fd_.get(), control_frame(Control::Ready)) ||
        !read_control(fd_.get(), Control::Accept))
      return false;
  return write_all(fd_.get(), control_frame(Control::Start));
}

std::size_t FrameStream::write_frames(const std::deque<Frame>& frames) {
  Octets out;
  std::size_t gathered = 0;
  std::size_t written = 0;
  for (const Frame& frame : frames) {
    put_u32(out, static_cast<std::uint32_t>(frame.size()));
    out.insert(out.end(), frame.begin(), frame.end());
    ++gathered;
    if (out.size() < kWriteSize && gathered < frames.size()) continue;
    if (!write_all(fd_.get(), out)) return written;
    written = gathered;
    out.clear();
  }
  return written;
}

void FrameStream::end_stream() {
  if (write_all(fd_.get(), control_frame(Control::Stop)) &&
      target_.kind == DnstapTarget::Kind::Socket)
    read_control(fd_.get(), Control::Finish);
  fd_.reset();
}

}  // namespace meshdns::dnsd
