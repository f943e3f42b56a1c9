// SPDX-License-Identifier: Apache-2.0
#include "resolver/names/cares_lookup.hpp"

#define CARES_NO_DEPRECATED  // what replaces ares_send and others, version 1.18 does not have
#include <ares.h>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>
#include <uv.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "registry/base/handle.hpp"
#include "resolver/wire/name_text.hpp"
#include "resolver/wire/octets.hpp"
#include "resolver/wire/upstream_query.hpp"

namespace meshdns::resolver {
namespace {

using Bytes = std::span<const std::uint8_t>;
using Channel = std::unique_ptr<ares_channeldata, decltype(&ares_destroy)>;

constexpr std::size_t kLengthSize = 2;  // in front of each message of a stream

std::vector<std::uint8_t> query_of(const std::string& host, Family family, std::uint16_t id,
                                   bool edns) {
  const std::string name = wire::wire_from_host(host);
  if (name.empty()) return {};
  std::vector<std::uint8_t> message(wire::kMaxQuerySize);
  message.resize(
      wire::build_query(message, {.id = id,
                                  .name = name,
                                  .type = family == Family::V4 ? wire::Type::A : wire::Type::Aaaa,
                                  .edns = edns}));
  return message;
}

// One lookup: one query on one connection of one channel. c-ares calls back in the midst of its own
// work, where the channel must not be destroyed: on_answer only takes a note, and settle() acts
// when c-ares is done.
class CaresLookup final : public Lookup {
 public:
  CaresLookup(uv_loop_t* loop, QueryPath& path, std::string ns, std::string host, Family family,
              LookupCallback callback)
      : loop_(loop),
        path_(path),
        ns_(std::move(ns)),
        host_(std::move(host)),
        family_(family),
        callback_(std::move(callback)),
        timer_(loop, [this] { on_timer(); }) {}
  // The channel goes first: its end closes the connection.
  ~CaresLookup() override { channel_.reset(); }
  CaresLookup(const CaresLookup&) = delete;
  CaresLookup& operator=(const CaresLookup&) = delete;

  // The answer never comes before this has returned.
  void begin(std::chrono::milliseconds timeout);

 private:
  bool open(std::chrono::milliseconds timeout);
  void fail_with(std::string reason);
  // Has c-ares write and read all that it can.
  void exchange();
  // After each call into c-ares: hands the answer over, or waits on.  May destroy this object.
  void settle();
  void arm();
  void on_timer();
  void on_answer(int status, Bytes message);
  void on_reply(Bytes message);

  // --- the connection, as c-ares sees it ---
  static const ares_socket_functions kSocketFunctions;
  static ares_socket_t open_socket(int domain, int type, int protocol, void* self);
  static int close_socket(ares_socket_t fd, void* self);
  static ares_ssize_t receive(ares_socket_t fd, void* buffer, std::size_t size, int flags,
                              sockaddr* from, ares_socklen_t* from_length, void* self);
  static ares_ssize_t send(ares_socket_t fd, const iovec* parts, int count, void* self);
  void ask();

  uv_loop_t* loop_;
  QueryPath& path_;
  std::string ns_;
  std::string host_;
  Family family_;
  LookupCallback callback_;
  std::uint64_t deadline_ = 0;  // in the loop's milliseconds
  // Kept by nobody else: a reply that comes after the lookup finds it gone.
  std::shared_ptr<QueryPath::Reply> receiver_;
  std::vector<std::uint8_t> sent_;      // what c-ares has written
  std::vector<std::uint8_t> received_;  // what it has not read yet
  std::size_t read_ = 0;                // of these
  bool is_over_ = false;                // nothing more will come
  ares_socket_t socket_ = ARES_SOCKET_BAD;
  bool wants_to_read_ = false;
  bool wants_to_write_ = false;
  Channel channel_{nullptr, ares_destroy};
  loop::Timer timer_;
  std::optional<Answer> answer_;
};

void CaresLookup::begin(std::chrono::milliseconds timeout) {
  deadline_ = uv_now(loop_) + static_cast<std::uint64_t>(timeout.count());
  receiver_ = std::make_shared<QueryPath::Reply>([this](Bytes message) { on_reply(message); });
  const std::vector<std::uint8_t> query = query_of(host_, family_, 1, false);
  if (query.empty()) {
    fail_with("not a domain name");
  } else if (open(timeout)) {
    // May call back before it returns, for instance when there is no descriptor.
    ares_send(
        channel_.get(), query.data(), static_cast<int>(query.size()),
        [](void* self, int status, int, unsigned char* message, int size) {
          static_cast<CaresLookup*>(self)->on_answer(
              status, {message, message == nullptr ? 0 : static_cast<std::size_t>(size)});
        },
        this);
  }
  arm();
}

void CaresLookup::fail_with(std::string reason) {
  answer_ = Answer{.status = Answer::Status::Failed, .error = std::move(reason)};
}

// Every option is given, so that neither resolv.conf nor the environment is read for it.
bool CaresLookup::open(std::chrono::milliseconds timeout) {
  ares_options options{};
  char lookups[] = "b";
  in_addr placeholder{};
  placeholder.s_addr = htonl(INADDR_LOOPBACK);
  // A failure is read as every other answer is.  No ARES_FLAG_EDNS, without which there are no
  // cookies, and no ARES_FLAG_DNS0x20.
  options.flags = ARES_FLAG_USEVC | ARES_FLAG_IGNTC | ARES_FLAG_NOSEARCH | ARES_FLAG_NOALIASES |
                  ARES_FLAG_NOCHECKRESP;
  options.timeout = static_cast<int>(timeout.count());
  options.tries = 1;
  options.ndots = 1;
  options.lookups = lookups;
  options.servers = &placeholder;
  options.nservers = 1;
  options.sock_state_cb = [](void* self, ares_socket_t, int readable, int writable) {
    auto* const lookup = static_cast<CaresLookup*>(self);
    lookup->wants_to_read_ = readable != 0;
    lookup->wants_to_write_ = writable != 0;
  };
  options.sock_state_cb_data = this;
  int mask = ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_NDOTS |
             ARES_OPT_LOOKUPS | ARES_OPT_SERVERS | ARES_OPT_DOMAINS | ARES_OPT_SORTLIST |
             ARES_OPT_NOROTATE | ARES_OPT_SOCK_STATE_CB;
#ifdef ARES_OPT_QUERY_CACHE
  options.qcache_max_ttl = 0;
  mask |= ARES_OPT_QUERY_CACHE;
#endif
  ares_channel channel = nullptr;
  const int status = ares_init_options(&channel, &options, mask);
  if (status != ARES_SUCCESS) {
    fail_with(std::string("c-ares cannot open a channel: ") + ares_strerror(status));
    return false;
  }
  channel_.reset(channel);
  ares_set_socket_functions(channel, &kSocketFunctions, this);
  return true;
}

// Also ends the lookup when c-ares gives up.
void CaresLookup::on_answer(int status, Bytes message) {
  if (status == ARES_EDESTRUCTION) return;  // nobody waits any more
  if (status == ARES_SUCCESS)
    answer_ = read_address_answer(message, host_, family_);
  else
    fail_with(status == ARES_ETIMEOUT ? "no answer in time" : ares_strerror(status));
}

// The query path may answer while c-ares sends: c-ares reads in a later turn of the loop.
void CaresLookup::on_reply(Bytes message) {
  is_over_ = message.empty();
  if (!is_over_) {
    received_.resize(kLengthSize);
    wire::store_u16(received_.data(), static_cast<std::uint16_t>(message.size()));
    received_.insert(received_.end(), message.begin(), message.end());
  }
  timer_.start(std::chrono::milliseconds(0));
}

void CaresLookup::exchange() {
  const auto may_read = [this] { return wants_to_read_ && (is_over_ || read_ < received_.size()); };
  if (std::exchange(wants_to_write_, false))
    ares_process_fd(channel_.get(), ARES_SOCKET_BAD, socket_);
  else if (!may_read())
    ares_process_fd(channel_.get(), ARES_SOCKET_BAD, ARES_SOCKET_BAD);  // its time-out
  // The length first, and then the message.
  while (!answer_ && may_read()) ares_process_fd(channel_.get(), socket_, ARES_SOCKET_BAD);
}

void CaresLookup::settle() {
  if (!answer_) return arm();
  timer_.stop();
  const LookupCallback callback = std::move(callback_);
  callback_ = nullptr;
  if (callback) callback(std::move(*answer_));
}

void CaresLookup::arm() {
  const std::uint64_t now = uv_now(loop_);
  std::uint64_t wait = answer_ || wants_to_write_ || deadline_ <= now ? 0 : deadline_ - now;
  if (wait != 0) {
    timeval longest{static_cast<time_t>(wait / 1000), static_cast<suseconds_t>(wait % 1000 * 1000)};
    timeval buffer{};
    const timeval* next = ares_timeout(channel_.get(), &longest, &buffer);
    // Rounded up: c-ares finds nothing to do at the fraction of a millisecond before.
    wait =
        std::min(wait, static_cast<std::uint64_t>(next->tv_sec * 1000 + next->tv_usec / 1000 + 1));
  }
  timer_.start(std::chrono::milliseconds(wait));
}

void CaresLookup::on_timer() {
  if (!answer_ && uv_now(loop_) >= deadline_)
    fail_with("no answer in time");
  else if (!answer_)
    exchange();
  settle();
}

// A descriptor of our own, which nothing is read from and nothing written to: c-ares asks the
// system about the descriptors that it is given.
ares_socket_t CaresLookup::open_socket(int /*domain*/, int type, int /*protocol*/, void* self) {
  auto* const lookup = static_cast<CaresLookup*>(self);
  if (type != SOCK_STREAM || lookup->socket_ != ARES_SOCKET_BAD) {
    errno = EPROTONOSUPPORT;
    return ARES_SOCKET_BAD;
  }
  const int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (fd >= 0) lookup->socket_ = fd;
  return fd < 0 ? ARES_SOCKET_BAD : fd;
}

int CaresLookup::close_socket(ares_socket_t fd, void* self) {
  auto* const lookup = static_cast<CaresLookup*>(self);
  lookup->socket_ = ARES_SOCKET_BAD;
  lookup->wants_to_read_ = lookup->wants_to_write_ = false;
  return close(fd);
}

ares_ssize_t CaresLookup::receive(ares_socket_t /*fd*/, void* buffer, std::size_t size,
                                  int /*flags*/, sockaddr* /*from*/,
                                  ares_socklen_t* /*from_length*/, void* self) {
  auto* const lookup = static_cast<CaresLookup*>(self);
  const Bytes rest = Bytes(lookup->received_).subspan(lookup->read_);
  if (rest.empty()) {
    if (lookup->is_over_) return 0;
    errno = EAGAIN;
    return -1;
  }
  const Bytes part = rest.first(std::min(size, rest.size()));
  std::ranges::copy(part, static_cast<std::uint8_t*>(buffer));
  lookup->read_ += part.size();
  return static_cast<ares_ssize_t>(part.size());
}

ares_ssize_t CaresLookup::send(ares_socket_t /*fd*/, const iovec* parts, int count, void* self) {
  auto* const lookup = static_cast<CaresLookup*>(self);
  const std::size_t before = lookup->sent_.size();
  for (const iovec& part : std::span(parts, static_cast<std::size_t>(count))) {
    const Bytes octets(static_cast<const std::uint8_t*>(part.iov_base), part.iov_len);
    lookup->sent_.insert(lookup->sent_.end(), octets.begin(), octets.end());
  }
  const std::size_t written = lookup->sent_.size() - before;
  if (before < kLengthSize + wire::kHeaderSize) lookup->ask();
  return static_cast<ares_ssize_t>(written);
}

// Once c-ares has sent the head of its query, which is the question that we know: ours has its ID,
// and the OPT record with which failures say why.
void CaresLookup::ask() {
  if (sent_.size() < kLengthSize + wire::kHeaderSize) return;
  const std::uint16_t id = wire::load_u16(sent_.data() + kLengthSize);
  path_.ask({ns_, host_, query_of(host_, family_, id, true)},
            [receiver = std::weak_ptr(receiver_)](Bytes message) {
              if (const auto held = receiver.lock()) (*held)(message);
            });
}

const ares_socket_functions CaresLookup::kSocketFunctions = {
    .asocket = &CaresLookup::open_socket,
    .aclose = &CaresLookup::close_socket,
    .aconnect = [](ares_socket_t, const sockaddr*, ares_socklen_t, void*) { return 0; },
    .arecvfrom = &CaresLookup::receive,
    .asendv = &CaresLookup::send,
};

}  // namespace

Result<std::unique_ptr<CaresLookups>> CaresLookups::open(uv_loop_s* loop, QueryPath& path,
                                                         std::chrono::milliseconds timeout) {
  const int status = ares_library_init(ARES_LIB_INIT_ALL);
  if (status != ARES_SUCCESS)
    return fail(std::string("c-ares cannot be initialised: ") + ares_strerror(status));
  return std::unique_ptr<CaresLookups>(new CaresLookups(loop, path, timeout));
}

CaresLookups::~CaresLookups() { ares_library_cleanup(); }

std::unique_ptr<Lookup> CaresLookups::start(const std::string& ns, const std::string& host,
                                            Family family, LookupCallback callback) {
  auto lookup = std::make_unique<CaresLookup>(loop_, path_, ns, host, family, std::move(callback));
  lookup->begin(timeout_);
  return lookup;
}

}  // namespace meshdns::resolver
