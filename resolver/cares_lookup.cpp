#include "resolver/cares_lookup.hpp"

#include <ares.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>
#include <uv.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "registry/base/host_name.hpp"
#include "resolver/address_answer.hpp"

namespace meshdns::resolver {
namespace {

constexpr int kTriesPerServer = 2;
constexpr std::size_t kMaxServers = 4;
constexpr int kUdpPayload = 1232;  // RFC 9715: answers above it come over TCP, never in fragments
constexpr std::chrono::milliseconds kShortestTry{100};

struct Server {
  IpAddress ip;
  std::uint16_t port = 53;
  unsigned scope = 0;  // of a link-local address
};

// "10.0.0.53:53", "[2001:db8::1]:53", "[fe80::1%eth0]:53".
std::optional<Server> parse_server(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  std::string_view host = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  Server server;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), server.port);
  if (error != std::errc() || end != port.data() + port.size() || server.port == 0)
    return std::nullopt;
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (const std::size_t percent = host.find('%'); percent != std::string_view::npos) {
    server.scope = if_nametoindex(std::string(host.substr(percent + 1)).c_str());
    if (server.scope == 0) return std::nullopt;
    host = host.substr(0, percent);
  }
  const auto ip = IpAddress::parse(host);
  if (!ip) return std::nullopt;
  server.ip = *ip;
  return server;
}

std::optional<std::uint16_t> random_id() {
  std::uint16_t id = 0;
  if (getrandom(&id, sizeof id, 0) != sizeof id) return std::nullopt;
  return id;
}

using Channel = std::unique_ptr<ares_channeldata, decltype(&ares_destroy)>;

// One lookup, with a channel of its own.  c-ares calls back in the midst of its own work, where the
// channel must not be destroyed: on_answer only takes notes, and settle() acts when c-ares is done.
class CaresLookup final : public Lookup {
 public:
  CaresLookup(uv_loop_t* loop, std::string host, Family family, LookupCallback callback)
      : loop_(loop),
        host_(std::move(host)),
        family_(family),
        callback_(std::move(callback)),
        timer_(new uv_timer_t) {
    uv_timer_init(loop_, timer_);
    timer_->data = this;
  }
  ~CaresLookup() override {
    channel_.reset();
    for (const auto& [fd, poll] : polls_) close_poll(poll);
    uv_timer_stop(timer_);
    uv_close(reinterpret_cast<uv_handle_t*>(timer_),
             [](uv_handle_t* handle) { delete reinterpret_cast<uv_timer_t*>(handle); });
  }
  CaresLookup(const CaresLookup&) = delete;
  CaresLookup& operator=(const CaresLookup&) = delete;

  // The answer never comes before this has returned.
  void begin(const std::vector<std::string>& servers, std::chrono::milliseconds timeout);

 private:
  void open(std::chrono::milliseconds timeout);
  void send();
  void fail_with(std::string reason);
  // After each call into c-ares: hands the answer over, or waits on.  May destroy this object.
  void settle();
  void arm();
  void on_timer();
  void on_answer(int status, std::span<const std::uint8_t> message);

  void on_socket(ares_socket_t fd, bool readable, bool writable);
  void on_poll(ares_socket_t fd, int status, int events);
  static void close_poll(uv_poll_t* poll);

  static const ares_socket_functions kSocketFunctions;
  static ares_socket_t open_socket(int domain, int type, int protocol, void* self);
  static int connect_socket(ares_socket_t fd, const sockaddr* address, ares_socklen_t length,
                            void* self);

  uv_loop_t* loop_;
  std::string host_;
  Family family_;
  LookupCallback callback_;
  std::vector<Server> servers_;
  std::string servers_text_;
  std::uint64_t deadline_ = 0;  // of the whole lookup, in the loop's milliseconds
  Channel channel_{nullptr, ares_destroy};
  std::map<ares_socket_t, uv_poll_t*> polls_;  // freed by their close callbacks
  uv_timer_t* timer_;                          // likewise
  std::optional<Answer> answer_;
};

void CaresLookup::begin(const std::vector<std::string>& servers,
                        std::chrono::milliseconds timeout) {
  for (const std::string& text : servers) {
    const auto server = parse_server(text);
    if (!server || servers_.size() == kMaxServers) continue;
    servers_.push_back(*server);
    servers_text_ += (servers_text_.empty() ? "" : ", ") + text;
  }
  deadline_ = uv_now(loop_) + static_cast<std::uint64_t>(timeout.count());
  if (servers_.empty())
    fail_with("no upstream server serves this name");
  else
    open(timeout);
  if (channel_) send();
  arm();
}

void CaresLookup::fail_with(std::string reason) {
  answer_ = Answer{.status = Answer::Status::Failed, .error = std::move(reason)};
}

// Every option is given, so that neither resolv.conf nor the environment is read for it.
void CaresLookup::open(std::chrono::milliseconds timeout) {
  ares_options options{};
  char lookups[] = "b";
  in_addr placeholder{};
  options.flags = ARES_FLAG_NOSEARCH | ARES_FLAG_NOALIASES | ARES_FLAG_EDNS;
  // Tries of one server after the other, the second round twice as long: together the timeout.
  const auto rounds = static_cast<long>(servers_.size()) * ((1 << kTriesPerServer) - 1);
  options.timeout = static_cast<int>(std::max(timeout / rounds, kShortestTry).count());
  options.tries = kTriesPerServer;
  options.ndots = 1;
  options.lookups = lookups;
  options.ednspsz = kUdpPayload;
  options.servers = &placeholder;
  options.nservers = 1;
  options.sock_state_cb = [](void* self, ares_socket_t fd, int readable, int writable) {
    static_cast<CaresLookup*>(self)->on_socket(fd, readable != 0, writable != 0);
  };
  options.sock_state_cb_data = this;
  ares_channel channel = nullptr;
  const int status = ares_init_options(&channel, &options,
                                       ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES |
                                           ARES_OPT_NDOTS | ARES_OPT_LOOKUPS | ARES_OPT_EDNSPSZ |
                                           ARES_OPT_SERVERS | ARES_OPT_DOMAINS | ARES_OPT_SORTLIST |
                                           ARES_OPT_NOROTATE | ARES_OPT_SOCK_STATE_CB);
  if (status != ARES_SUCCESS) {
    fail_with(std::string("c-ares cannot open a channel: ") + ares_strerror(status));
    return;
  }
  channel_.reset(channel);
  ares_set_socket_functions(channel, &kSocketFunctions, this);
  std::vector<ares_addr_port_node> nodes(servers_.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const auto& octets = servers_[i].ip.octets();
    nodes[i].next = i + 1 < nodes.size() ? &nodes[i + 1] : nullptr;
    nodes[i].udp_port = nodes[i].tcp_port = servers_[i].port;
    nodes[i].family = servers_[i].ip.is_v4() ? AF_INET : AF_INET6;
    if (servers_[i].ip.is_v4())
      std::memcpy(&nodes[i].addr.addr4, octets.data() + 12, 4);
    else
      std::memcpy(&nodes[i].addr.addr6, octets.data(), 16);
  }
  ares_set_servers_ports(channel, nodes.data());
}

void CaresLookup::send() {
  const auto id = random_id();
  if (!id) return fail_with("the kernel gives no random numbers");
  constexpr int kInternet = 1;
  unsigned char* query = nullptr;
  int length = 0;
  const int status =
      ares_create_query(host_.c_str(), kInternet, family_ == Family::V4 ? 1 : 28, *id,
                        /*rd=*/1, &query, &length, kUdpPayload);
  if (status != ARES_SUCCESS) return fail_with(std::string("no query: ") + ares_strerror(status));
  // May call back before it returns, for instance when no socket can be opened.
  ares_send(
      channel_.get(), query, length,
      [](void* self, int result, int, unsigned char* message, int size) {
        static_cast<CaresLookup*>(self)->on_answer(
            result, {message, message == nullptr ? 0 : static_cast<std::size_t>(size)});
      },
      this);
  ares_free_string(query);
}

void CaresLookup::on_answer(int status, std::span<const std::uint8_t> message) {
  if (status == ARES_EDESTRUCTION) return;  // nobody waits any more
  if (status == ARES_SUCCESS)
    answer_ = read_address_answer(message, host_, family_);
  else if (status == ARES_ECANCELLED || status == ARES_ETIMEOUT)
    fail_with("no answer in time");
  else
    fail_with(ares_strerror(status));
  if (answer_->status == Answer::Status::Failed && !servers_text_.empty())
    answer_->error += " (asked " + servers_text_ + ")";
}

void CaresLookup::settle() {
  if (!answer_) return arm();
  uv_timer_stop(timer_);
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
  uv_timer_start(
      timer_, [](uv_timer_t* timer) { static_cast<CaresLookup*>(timer->data)->on_timer(); }, wait,
      0);
}

void CaresLookup::on_timer() {
  if (!answer_ && uv_now(loop_) >= deadline_)
    ares_cancel(channel_.get());
  else if (!answer_)
    ares_process_fd(channel_.get(), ARES_SOCKET_BAD, ARES_SOCKET_BAD);
  settle();
}

void CaresLookup::on_socket(ares_socket_t fd, bool readable, bool writable) {
  const auto found = polls_.find(fd);
  if (!readable && !writable) {
    // c-ares closes the descriptor when this returns: the poll must be off it before.
    if (found == polls_.end()) return;
    close_poll(found->second);
    polls_.erase(found);
    return;
  }
  uv_poll_t* poll = found == polls_.end() ? nullptr : found->second;
  if (poll == nullptr) {
    poll = new uv_poll_t;
    if (uv_poll_init(loop_, poll, fd) != 0) {
      delete poll;  // the lookup ends at its deadline
      return;
    }
    poll->data = this;
    polls_.emplace(fd, poll);
  }
  uv_poll_start(poll, (readable ? UV_READABLE : 0) | (writable ? UV_WRITABLE : 0),
                [](uv_poll_t* handle, int status, int events) {
                  uv_os_fd_t ready = -1;
                  uv_fileno(reinterpret_cast<uv_handle_t*>(handle), &ready);
                  static_cast<CaresLookup*>(handle->data)->on_poll(ready, status, events);
                });
}

void CaresLookup::on_poll(ares_socket_t fd, int status, int events) {
  // An error of the socket is found by reading from it.
  const bool readable = status < 0 || (events & UV_READABLE) != 0;
  const bool writable = status < 0 || (events & UV_WRITABLE) != 0;
  if (answer_) return;
  ares_process_fd(channel_.get(), readable ? fd : ARES_SOCKET_BAD, writable ? fd : ARES_SOCKET_BAD);
  settle();
}

void CaresLookup::close_poll(uv_poll_t* poll) {
  uv_poll_stop(poll);
  uv_close(reinterpret_cast<uv_handle_t*>(poll),
           [](uv_handle_t* handle) { delete reinterpret_cast<uv_poll_t*>(handle); });
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
  for (const Server& server : static_cast<CaresLookup*>(self)->servers_)
    if (ip == server.ip && ntohs(scoped.sin6_port) == server.port)
      scoped.sin6_scope_id = server.scope;
  return connect(fd, reinterpret_cast<const sockaddr*>(&scoped), sizeof scoped);
}

const ares_socket_functions CaresLookup::kSocketFunctions = {
    .asocket = &CaresLookup::open_socket,
    .aclose = [](ares_socket_t fd, void*) { return close(fd); },
    .aconnect = &CaresLookup::connect_socket,
    .arecvfrom = [](ares_socket_t fd, void* buffer, size_t length, int flags, sockaddr* from,
                    ares_socklen_t* from_length,
                    void*) { return recvfrom(fd, buffer, length, flags, from, from_length); },
    .asendv = [](ares_socket_t fd, const iovec* parts, int count,
                 void*) { return writev(fd, parts, count); },
};

}  // namespace

Result<std::unique_ptr<CaresBackend>> CaresBackend::open(uv_loop_s* loop, CaresOptions options) {
  const int status = ares_library_init(ARES_LIB_INIT_ALL);
  if (status != ARES_SUCCESS)
    return fail(std::string("c-ares cannot be initialised: ") + ares_strerror(status));
  return std::unique_ptr<CaresBackend>(new CaresBackend(loop, std::move(options)));
}

CaresBackend::CaresBackend(uv_loop_s* loop, CaresOptions options)
    : loop_(loop), options_(std::move(options)) {}
CaresBackend::~CaresBackend() { ares_library_cleanup(); }

void CaresBackend::reconfigure(CaresOptions options) { options_ = std::move(options); }

std::unique_ptr<Lookup> CaresBackend::start(const std::string& host, Family family,
                                            LookupCallback callback) {
  auto lookup = std::make_unique<CaresLookup>(loop_, host, family, std::move(callback));
  lookup->begin(options_.servers_for(host), options_.timeout);
  return lookup;
}

}  // namespace meshdns::resolver
