// SPDX-License-Identifier: Apache-2.0
#include "dnsd/query_log/frame_stream.hpp"

#include <fcntl.h>
#include <fstrm.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "registry/base/durable_file.hpp"
#include "registry/base/file_descriptor.hpp"
#include "registry/base/socket_address.hpp"

namespace meshdns::dnsd {
namespace {

using Octets = std::vector<std::uint8_t>;
using std::chrono::milliseconds;

constexpr std::string_view kContentType = "protobuf:dnstap.Dnstap";
constexpr milliseconds kPause{1'000};  // between two tries to connect
constexpr timeval kPatience{1, 0};     // of one read or write at a socket
// The limits of one call of write().  libfstrm would split more than 128 frames.
constexpr std::size_t kMaxBatchFrames = 128;
constexpr std::size_t kBatchSize = std::size_t{64} << 10;

// --- A file descriptor as libfstrm's transport ---------------------------------------------------
// The transports of libfstrm wait for a hanging reader without a limit.  Here, the socket's
// timeouts apply.

struct Transport {
  FileDescriptor fd;
  Octets gathered;
};

fstrm_res result(bool succeeded) { return succeeded ? fstrm_res_success : fstrm_res_failure; }

fstrm_res open_transport(void* transport) {
  return result(static_cast<bool>(static_cast<Transport*>(transport)->fd));
}

fstrm_res close_transport(void* transport) {
  static_cast<Transport*>(transport)->fd.reset();
  return fstrm_res_success;
}

fstrm_res destroy_transport(void* transport) {
  delete static_cast<Transport*>(transport);
  return fstrm_res_success;
}

fstrm_res read_transport(void* transport, void* data, std::size_t size) {
  const std::span octets(static_cast<std::uint8_t*>(data), size);
  const auto filled = read_fully(static_cast<Transport*>(transport)->fd.get(), octets);
  return result(filled && *filled == size);
}

fstrm_res write_transport(void* transport, const iovec* pieces, int count) {
  auto& [fd, gathered] = *static_cast<Transport*>(transport);
  gathered.clear();
  for (const iovec& piece : std::span(pieces, static_cast<std::size_t>(count))) {
    const auto* begin = static_cast<const std::uint8_t*>(piece.iov_base);
    gathered.insert(gathered.end(), begin, begin + piece.iov_len);
  }
  return result(write_all(fd.get(), gathered));
}

// A transport without a read function has no handshake: the writer only announces the stream.
fstrm_rdwr* make_transport(FileDescriptor fd, DnstapTarget::Kind kind) {
  fstrm_rdwr* transport = fstrm_rdwr_init(new Transport{std::move(fd), {}});
  fstrm_rdwr_set_open(transport, open_transport);
  fstrm_rdwr_set_close(transport, close_transport);
  fstrm_rdwr_set_destroy(transport, destroy_transport);
  fstrm_rdwr_set_write(transport, write_transport);
  if (kind == DnstapTarget::Kind::Socket) fstrm_rdwr_set_read(transport, read_transport);
  return transport;
}

// --- Targets -------------------------------------------------------------------------------------

FileDescriptor connect_to(const std::string& path) {
  FileDescriptor fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) return fd;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &kPatience, sizeof kPatience);
  ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof kPatience);
  const auto name = unix_socket_name(path);
  if (!name || ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&*name), sizeof *name) != 0)
    fd.reset();
  return fd;
}

FileDescriptor open_target(const DnstapTarget& target) {
  if (target.kind == DnstapTarget::Kind::Socket) return connect_to(target.path);
  // A file with two streams cannot be read, so it is truncated.  A FIFO without a reader must not
  // block.
  return FileDescriptor(
      ::open(target.path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK, 0640));
}

}  // namespace

// Ends the stream: STOP, and FINISH from a reader at a socket.
void FrameStream::CloseWriter::operator()(fstrm_writer* writer) const {
  fstrm_writer_destroy(&writer);
}

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

// Waits for frames and takes all that are queued; none at the end of the stream or after `limit`.
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
  if (!open_until_closing()) return;
  for (;;) {
    const bool last = is_closing();
    std::deque<Frame> frames = take(kPause);
    const std::size_t written = write_frames(frames);
    written_.fetch_add(written, std::memory_order_relaxed);
    if (written < frames.size()) {
      dropped_.fetch_add(frames.size() - written, std::memory_order_relaxed);
      log_.write_folded(LogLevel::Warn, "lost dnstap frames because a write failed",
                        {{"to", to_string(target_)}});
      writer_.reset();
      if (!open_until_closing()) return;
    }
    if (last && frames.empty()) break;
  }
  writer_.reset();
}

// False: close() was called before the target could be opened.
bool FrameStream::open_until_closing() {
  while (!open()) {
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, kPause, [this] { return closing_; })) return false;
  }
  return true;
}

bool FrameStream::open() {
  FileDescriptor fd = open_target(target_);
  if (!fd) {
    log_.write_folded(LogLevel::Warn, "cannot open the dnstap target",
                      {{"to", to_string(target_)}, {"reason", std::strerror(errno)}});
    return false;
  }
  fstrm_writer_options* options = fstrm_writer_options_init();
  fstrm_writer_options_add_content_type(options, kContentType.data(), kContentType.size());
  fstrm_rdwr* transport = make_transport(std::move(fd), target_.kind);
  writer_.reset(fstrm_writer_init(options, &transport));
  fstrm_writer_options_destroy(&options);
  if (fstrm_writer_open(writer_.get()) == fstrm_res_success) {
    log_.info("writing dnstap", {{"to", to_string(target_)}});
    return true;
  }
  log_.write_folded(LogLevel::Warn, "the reader of dnstap refused the stream",
                    {{"to", to_string(target_)}});
  writer_.reset();
  return false;
}

std::size_t FrameStream::write_frames(std::deque<Frame>& frames) {
  std::vector<iovec> batch;
  std::size_t batch_size = 0;
  std::size_t written = 0;
  for (Frame& frame : frames) {
    batch.push_back({frame.data(), frame.size()});
    batch_size += frame.size();
    const bool is_full = batch_size >= kBatchSize || batch.size() == kMaxBatchFrames;
    if (!is_full && written + batch.size() < frames.size()) continue;
    if (fstrm_writer_writev(writer_.get(), batch.data(), static_cast<int>(batch.size())) !=
        fstrm_res_success)
      return written;
    written += batch.size();
    batch.clear();
    batch_size = 0;
  }
  return written;
}

}  // namespace meshdns::dnsd
