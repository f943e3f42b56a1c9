// SPDX-License-Identifier: Apache-2.0
#include "resolver/cares_lookup.hpp"

#define CARES_NO_DEPRECATED  // what replaces ares_send and others, version 1.18 does not have
#include <ares.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>
#include <uv.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "loop/poll.hpp"
#include "loop/timer.hpp"
#include "resolver/address_answer.hpp"
#include "resolver/lookup_query.hpp"
#include "resolver/query_echo.hpp"
#include "resolver/server_address.hpp"
#include "resolver/server_habits.hpp"
#include "wire/response_message.hpp"

namespace meshdns::resolver {
namespace {

constexpr int kTriesPerServer = 2;
constexpr std::size_t kMaxServers = 4;
constexpr std::chrono::milliseconds kShortestTry{100};
constexpr std::uint8_t kTruncated = 0x02;  // TC, in the third octet of a message

// Datagrams looked at in one call, so that a flood of forged ones does not hold up the loop.
constexpr int kDatagramsPerCall = 16;

using Bytes = std::span<const std::uint8_t>;
using Channel = std::unique_ptr<ares_channeldata, decltype(&ares_destroy)>;

// One lookup: tries, each with a channel of its own. c-ares calls back in the midst of its own
// work, where the channel must not be destroyed: on_answer and receive only take notes, and
// settle() acts when c-ares is done.
class CaresLookup final : public Lookup {
 public:
  CaresLookup(uv_loop_t* loop, std::shared_ptr<ServerHabits> habits, ServerCookies* cookies,
              std::string host, Family family, LookupCallback callback)
      : loop_(loop),
        habits_(std::move(habits)),
        cookies_(cookies),
        host_(std::move(host)),
        family_(family),
        callback_(std::move(callback)),
        timer_(loop, [this] { on_timer(); }) {}
  // The channel goes first: its end changes polls_.
  ~CaresLookup() override { channel_.reset(); }
  CaresLookup(const CaresLookup&) = delete;
  CaresLookup& operator=(const CaresLookup&) = delete;

  // The answer never comes before this has returned.
  void begin(const std::vector<std::string>& servers, std::chrono::milliseconds timeout);

 private:
  // The settings of one try.
  struct Try {
    std::size_t server = 0;  // index in servers_
    std::chrono::milliseconds timeout{0};
    bool uses_edns = true;
    bool uses_tcp = false;        // from the start
    bool is_for_cookie = false;   // over TCP, since a reply over UDP lacked the cookie
    bool has_new_cookie = false;  // again, with the cookie that the server wants
  };
  // The tries of a round: one per server.
  void begin_try();
  bool open();
  void send();
  void fail_with(std::string reason);
  // Ends the lookup with the failures that there were.
  void give_up();
  // After each call into c-ares: hands the answer over, begins the next try, or waits on. May
  // destroy this object.
  void settle();
  void next_try();
  void arm();
  void on_timer();
  void on_answer(int status, Bytes message);

  void on_socket(ares_socket_t fd, bool readable, bool writable);
  void on_poll(ares_socket_t fd, int status, int events);

  static const ares_socket_functions kSocketFunctions;
  static ares_socket_t open_socket(int domain, int type, int protocol, void* self);
  // Receives for c-ares; of datagrams, only the reply to the query of this try.
  static ares_ssize_t receive(ares_socket_t fd, void* buffer, std::size_t size, int flags,
                              sockaddr* from, ares_socklen_t* from_length, void* self);
  static ares_ssize_t send_query(ares_socket_t fd, const iovec* parts, int count, void* self);
  bool is_believed(Bytes reply);
  std::string cookie_of_query();
  bool has_right_cookie(Bytes reply);
  static int connect_socket(ares_socket_t fd, const sockaddr* address, ares_socklen_t length,
                            void* self);

  TimePoint now() const { return TimePoint(std::chrono::milliseconds(uv_now(loop_))); }

  uv_loop_t* loop_;
  std::shared_ptr<ServerHabits> habits_;
  ServerCookies* cookies_;
  std::string host_;
  Family family_;
  LookupCallback callback_;
  std::vector<ServerAddress> servers_;
  std::string servers_text_;
  std::uint64_t deadline_ = 0;             // of the whole lookup, in the loop's milliseconds
  std::chrono::milliseconds try_timeout_;  // of the first round; twice as long in the second
  std::size_t tries_begun_ = 0;            // those of the rounds
  std::optional<std::string> failure_;     // of the last try that was more than silence
  Try try_;
  LookupQuery query_;              // of this try
  bool keeps_case_ = true;         // the server of this try, as far as is known
  bool saw_other_case_ = false;    // a reply to this try repeated the question in another case
  bool is_without_edns_ = false;   // the server of this try does not know EDNS
  bool sent_cookie_ = false;       // with the query of this try
  bool lacks_cookie_ = false;      // a reply to this try lacked the cookie
  bool is_truncated_ = false;      // the reply to this try was
  bool wants_new_cookie_ = false;  // the server of this try sent another cookie for the next query
  bool is_try_over_ = false;
  Channel channel_{nullptr, ares_destroy};
  std::map<ares_socket_t, loop::Poll> polls_;
  loop::Timer timer_;
  std::optional<Answer> answer_;
};

void CaresLookup::begin(const std::vector<std::string>& servers,
                        std::chrono::milliseconds timeout) {
  for (const std::string& text : servers) {
    const auto server = ServerAddress::parse(text);
    if (!server || servers_.size() == kMaxServers) continue;
    servers_.push_back(*server);
    servers_text_ += (servers_text_.empty() ? "" : ", ") + text;
  }
  deadline_ = uv_now(loop_) + static_cast<std::uint64_t>(timeout.count());
  if (servers_.empty()) {
    fail_with("no upstream server serves this name");
  } else {
    // One server after the other, the second round twice as long: together the timeout.
    const auto rounds = static_cast<long>(servers_.size()) * ((1 << kTriesPerServer) - 1);
    try_timeout_ = std::max(timeout / rounds, kShortestTry);
    next_try();
  }
  arm();
}

// Begins the next try of the rounds, if there is one.
void CaresLookup::next_try() {
  while (!answer_) {
    if (tries_begun_ == servers_.size() * kTriesPerServer) return give_up();
    const std::size_t round = tries_begun_ / servers_.size();
    try_ = {.server = tries_begun_ % servers_.size(), .timeout = try_timeout_ * (1 << round)};
    ++tries_begun_;
    begin_try();
    if (!is_try_over_) return;
  }
}

void CaresLookup::begin_try() {
  channel_.reset();
  is_try_over_ = saw_other_case_ = is_without_edns_ = false;
  lacks_cookie_ = is_truncated_ = wants_new_cookie_ = false;
  keeps_case_ = habits_->keeps_case(servers_[try_.server].text, now());
  if (open()) send();
}

void CaresLookup::give_up() { fail_with(failure_.value_or("no answer in time")); }

void CaresLookup::fail_with(std::string reason) {
  if (!servers_text_.empty()) reason += " (asked " + servers_text_ + ")";
  answer_ = Answer{.status = Answer::Status::Failed, .error = std::move(reason)};
}

// Every option is given, so that neither resolv.conf nor the environment is read for it.
bool CaresLookup::open() {
  ares_options options{};
  char lookups[] = "b";
  in_addr placeholder{};
  // A failure that a server tells is read as every other answer is.  We see to EDNS and to
  // truncated replies.
  options.flags =
      ARES_FLAG_NOSEARCH | ARES_FLAG_NOALIASES | ARES_FLAG_NOCHECKRESP | ARES_FLAG_IGNTC;
  if (try_.uses_tcp) options.flags |= ARES_FLAG_USEVC;
  options.timeout = static_cast<int>(try_.timeout.count());
  options.tries = 1;
  options.ndots = 1;
  options.lookups = lookups;
  options.servers = &placeholder;
  options.nservers = 1;
  options.sock_state_cb = [](void* self, ares_socket_t fd, int readable, int writable) {
    static_cast<CaresLookup*>(self)->on_socket(fd, readable != 0, writable != 0);
  };
  options.sock_state_cb_data = this;
  ares_channel channel = nullptr;
  const int status =
      ares_init_options(&channel, &options,
                        ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_NDOTS |
                            ARES_OPT_LOOKUPS | ARES_OPT_SERVERS | ARES_OPT_DOMAINS |
                            ARES_OPT_SORTLIST | ARES_OPT_NOROTATE | ARES_OPT_SOCK_STATE_CB);
  if (status != ARES_SUCCESS) {
    fail_with(std::string("c-ares cannot open a channel: ") + ares_strerror(status));
    return false;
  }
  channel_.reset(channel);
  ares_set_socket_functions(channel, &kSocketFunctions, this);
  const ServerAddress& server = servers_[try_.server];
  const auto& octets = server.ip.octets();
  ares_addr_port_node node{};
  node.udp_port = node.tcp_port = server.port;
  node.family = server.ip.is_v4() ? AF_INET : AF_INET6;
  if (server.ip.is_v4())
    std::memcpy(&node.addr.addr4, octets.data() + 12, 4);
  else
    std::memcpy(&node.addr.addr6, octets.data(), 16);
  ares_set_servers_ports(channel, &node);
  return true;
}

void CaresLookup::send() {
  const std::string cookie = cookie_of_query();
  auto query = LookupQuery::make({.host = host_,
                                  .family = family_,
                                  .has_random_case = keeps_case_,
                                  .has_edns = try_.uses_edns,
                                  .cookie = cookie});
  if (!query) return fail_with(query.error().message);
  query_ = *std::move(query);
  sent_cookie_ = !cookie.empty();
  // May call back before it returns, for instance when no socket can be opened.
  ares_send(
      channel_.get(), query_.plain().data(), static_cast<int>(query_.plain().size()),
      [](void* self, int result, int, unsigned char* message, int size) {
        static_cast<CaresLookup*>(self)->on_answer(
            result, {message, message == nullptr ? 0 : static_cast<std::size_t>(size)});
      },
      this);
}

// Also ends the try when c-ares gave up.
void CaresLookup::on_answer(int status, Bytes message) {
  if (status == ARES_EDESTRUCTION) return;  // nobody waits any more
  is_try_over_ = true;
  if (status == ARES_ECANCELLED || status == ARES_ETIMEOUT) return;
  if (status != ARES_SUCCESS) {
    failure_ = ares_strerror(status);
    return;
  }
  if (try_.uses_edns && is_format_error(message, query_.octets())) {
    is_without_edns_ = true;
    return;
  }
  // Over TCP: nobody forges it from afar, so that it shows how the server is.
  if (std::exchange(try_.is_for_cookie, false)) {
    const auto response = wire::parse_response(message);
    cookies_->note_stream_reply(servers_[try_.server].text, response ? response->cookie : "",
                                now());
  }
  if (keeps_case_ && echo_of(message, query_.octets()) == Echo::OtherCase)
    habits_->note_changed_case(servers_[try_.server].text, now());
  Answer answer = read_address_answer(message, host_, family_);
  if (answer.status == Answer::Status::Failed)
    failure_ = std::move(answer.error);
  else
    answer_ = std::move(answer);
}

// A cookie guards against forgers who do not see the query: on a connection, it only shows whether
// the server still knows cookies.
std::string CaresLookup::cookie_of_query() {
  const bool has_cookie =
      cookies_ != nullptr && try_.uses_edns && (!try_.uses_tcp || try_.is_for_cookie);
  return has_cookie ? cookies_->option(servers_[try_.server].text) : std::string();
}

bool CaresLookup::is_believed(Bytes reply) {
  if (try_.uses_edns && is_format_error(reply, query_.octets())) {
    // A server that knows cookies knows EDNS.
    if (has_right_cookie({})) is_without_edns_ = is_try_over_ = true;
    return false;
  }
  const Echo echo = echo_of(reply, query_.octets());
  if (echo == Echo::OtherCase) saw_other_case_ = true;
  const bool is_echo = echo == Echo::Exact || (echo == Echo::OtherCase && !keeps_case_);
  if (!is_echo || !has_right_cookie(reply)) return false;
  if ((reply[2] & kTruncated) != 0) is_truncated_ = is_try_over_ = true;
  return !is_truncated_;
}

// Ends the try where another one of the same server is needed.
bool CaresLookup::has_right_cookie(Bytes reply) {
  if (!sent_cookie_) return true;
  const auto response = wire::parse_response(reply);
  const std::string_view cookie = response ? std::string_view(response->cookie) : "";
  switch (cookies_->judge(servers_[try_.server].text, cookie, now())) {
    case ServerCookies::Verdict::Foreign:
      return false;
    case ServerCookies::Verdict::Missing:
      lacks_cookie_ = is_try_over_ = true;
      return false;
    case ServerCookies::Verdict::Believed:
      break;
  }
  if (!response || response->rcode != wire::Rcode::BadCookie || try_.has_new_cookie) return true;
  wants_new_cookie_ = is_try_over_ = true;
  return false;
}

void CaresLookup::settle() {
  if (!answer_ && is_try_over_) {
    // A reply in another case may be forged, and is not believed; a server that changes the case is
    // asked again over TCP, which shows it, and without the fresh case from then on. The same holds
    // for replies without the cookie. All of them, truncated replies, and a server that does not
    // know EDNS, get their answer from another try of the same server.
    const Try last = try_;
    if (last.is_for_cookie) cookies_->note_stream_failure(servers_[last.server].text, now());
    const bool with_tcp = (saw_other_case_ || lacks_cookie_ || is_truncated_) && !last.uses_tcp;
    if (is_without_edns_ || with_tcp || wants_new_cookie_) {
      try_.uses_edns = last.uses_edns && !is_without_edns_;
      try_.uses_tcp = last.uses_tcp || with_tcp;
      try_.is_for_cookie = lacks_cookie_;
      try_.has_new_cookie = last.has_new_cookie || wants_new_cookie_;
      begin_try();
    }
    if (is_try_over_) next_try();
  }
  if (!answer_) return arm();
  timer_.stop();
  const LookupCallback callback = std::move(callback_);
  callback_ = nullptr;
  if (callback) callback(std::move(*answer_));
}

void CaresLookup::arm() {
  const std::uint64_t now = uv_now(loop_);
  std::uint64_t wait = answer_ || deadline_ <= now ? 0 : deadline_ - now;
  if (!answer_ && channel_) {
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
    give_up();
  else if (!answer_)
    ares_process_fd(channel_.get(), ARES_SOCKET_BAD, ARES_SOCKET_BAD);
  settle();
}

void CaresLookup::on_socket(ares_socket_t fd, bool readable, bool writable) {
  // c-ares closes the descriptor when this returns: the poll must be off it before.
  if (!readable && !writable) {
    polls_.erase(fd);
    return;
  }
  loop::Poll& poll = polls_[fd];
  if (!poll.is_open()) {
    const int error =
        poll.open(loop_, fd, [this, fd](int status, int events) { on_poll(fd, status, events); });
    if (error != 0) {
      polls_.erase(fd);
      failure_ = std::string("cannot poll a socket: ") + uv_strerror(error);
      is_try_over_ = true;
      return;
    }
  }
  poll.watch((readable ? UV_READABLE : 0) | (writable ? UV_WRITABLE : 0));
}

void CaresLookup::on_poll(ares_socket_t fd, int status, int events) {
  // An error of the socket is found by reading from it.
  const bool readable = status < 0 || (events & UV_READABLE) != 0;
  const bool writable = status < 0 || (events & UV_WRITABLE) != 0;
  if (answer_) return;
  ares_process_fd(channel_.get(), readable ? fd : ARES_SOCKET_BAD, writable ? fd : ARES_SOCKET_BAD);
  settle();
}

ares_socket_t CaresLookup::open_socket(int domain, int type, int protocol, void* /*self*/) {
  const int fd = socket(domain, type | SOCK_NONBLOCK | SOCK_CLOEXEC, protocol);
  if (fd < 0) return ARES_SOCKET_BAD;
  const int on = 1;
  if (type == SOCK_STREAM) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (type == SOCK_DGRAM) {
    // A forged "fragmentation needed" must not make the kernel split our queries.
    const int omit = IP_PMTUDISC_OMIT;
    const int omit6 = IPV6_PMTUDISC_OMIT;
    if (domain == AF_INET) setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &omit, sizeof omit);
    if (domain == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, &omit6, sizeof omit6);
  }
  return fd;
}

// c-ares knows no scopes: a link-local server gets its interface here.
int CaresLookup::connect_socket(ares_socket_t fd, const sockaddr* address, ares_socklen_t length,
                                void* self) {
  if (address->sa_family != AF_INET6) return connect(fd, address, length);
  sockaddr_in6 scoped{};
  std::memcpy(&scoped, address, std::min<std::size_t>(length, sizeof scoped));
  const auto ip = IpAddress::from_sockaddr(address);
  for (const ServerAddress& server : static_cast<CaresLookup*>(self)->servers_)
    if (ip == server.ip && ntohs(scoped.sin6_port) == server.port)
      scoped.sin6_scope_id = server.scope;
  return connect(fd, reinterpret_cast<const sockaddr*>(&scoped), sizeof scoped);
}

// There is one query, hence one part.
ares_ssize_t CaresLookup::send_query(ares_socket_t fd, const iovec* parts, int /*count*/,
                                     void* self) {
  auto* const lookup = static_cast<CaresLookup*>(self);
  const Bytes of_cares(static_cast<const std::uint8_t*>(parts->iov_base), parts->iov_len);
  return lookup->query_.send_in_place_of(of_cares, fd, lookup->try_.uses_tcp);
}

ares_ssize_t CaresLookup::receive(ares_socket_t fd, void* buffer, std::size_t size, int flags,
                                  sockaddr* from, ares_socklen_t* from_length, void* self) {
  const bool is_datagram = from != nullptr;
  for (int i = 0; i < kDatagramsPerCall; ++i) {
    const ssize_t count = recvfrom(fd, buffer, size, flags, from, from_length);
    if (count < 0 || !is_datagram) return count;
    const Bytes reply(static_cast<const std::uint8_t*>(buffer), static_cast<std::size_t>(count));
    if (static_cast<CaresLookup*>(self)->is_believed(reply)) return count;
  }
  errno = EAGAIN;
  return -1;
}

const ares_socket_functions CaresLookup::kSocketFunctions = {
    .asocket = &CaresLookup::open_socket,
    .aclose = [](ares_socket_t fd, void*) { return close(fd); },
    .aconnect = &CaresLookup::connect_socket,
    .arecvfrom = &CaresLookup::receive,
    .asendv = &CaresLookup::send_query,
};

}  // namespace

Result<std::unique_ptr<CaresLookups>> CaresLookups::open(uv_loop_s* loop, CaresOptions options) {
  const int status = ares_library_init(ARES_LIB_INIT_ALL);
  if (status != ARES_SUCCESS)
    return fail(std::string("c-ares cannot be initialised: ") + ares_strerror(status));
  return std::unique_ptr<CaresLookups>(new CaresLookups(loop, std::move(options)));
}

CaresLookups::CaresLookups(uv_loop_s* loop, CaresOptions options)
    : loop_(loop), options_(std::move(options)), habits_(std::make_shared<ServerHabits>()) {}
CaresLookups::~CaresLookups() { ares_library_cleanup(); }

void CaresLookups::reconfigure(CaresOptions options) { options_ = std::move(options); }

std::unique_ptr<Lookup> CaresLookups::start(const std::string& host, Family family,
                                            LookupCallback callback) {
  auto lookup = std::make_unique<CaresLookup>(loop_, habits_, options_.cookies, host, family,
                                              std::move(callback));
  lookup->begin(options_.servers_for(host), options_.timeout);
  return lookup;
}

}  // namespace meshdns::resolver
