// SPDX-License-Identifier: Apache-2.0
#include "registry/source/kubernetes/curl_client.hpp"

#include <curl/curl.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <uv.h>

#include <algorithm>
#include <array>
#include <utility>

#include "registry/base/host_name.hpp"
#include "registry/source/kubernetes/body_decoder.hpp"
#include "registry/source/kubernetes/curl_options.hpp"
#include "registry/source/kubernetes/socket_set.hpp"

namespace meshdns::registry::kubernetes {
namespace {

constexpr long kConnectMs = 10'000;
// Several requests may find one and the same connection silent.
constexpr std::uint64_t kDistrustMs = 5'000;
constexpr Milliseconds kRetiredPoll{1'000};
// Bytes of a response, as received, that may wait for its listener.  Then the response is paused.
constexpr std::size_t kMaxWaiting = std::size_t{256} << 10;
// The text that a listener gets in one turn of the loop: a few milliseconds of work.
constexpr std::size_t kTextPerTurn = std::size_t{256} << 10;
// Not 0: libuv would call it before it looks at its sockets.
constexpr Milliseconds kNextTurn{1};
constexpr std::size_t kMaxHeaders = std::size_t{128} << 10;
constexpr std::string_view kContentEncoding = "content-encoding:";

// Once per process; libcurl's start is not for every thread to make.
void start_libcurl() {
  static const CURLcode started = curl_global_init(CURL_GLOBAL_DEFAULT);
  (void)started;
}

struct FreeEasy {
  void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
};
struct FreeList {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};

int prepare_socket(void* limits, curl_socket_t socket, curlsocktype purpose) {
  const auto limit =
      static_cast<unsigned>(static_cast<const PathLimits*>(limits)->unacknowledged.count());
  if (purpose == CURLSOCKTYPE_IPCXN)
    setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &limit, sizeof limit);
  return CURL_SOCKOPT_OK;
}

bool is_unspecified(const curl_sockaddr& address) {
  const auto ip = IpAddress::from_sockaddr(&address.addr);
  return ip && ip->is_unspecified();
}

// `name` is in lower case and ends in a colon.
bool is_field(std::string_view line, std::string_view name) {
  return line.size() > name.size() && equals_ignoring_case(line.substr(0, name.size()), name);
}

std::string_view value_of(std::string_view line) {
  constexpr std::string_view space = " \t\r\n";
  line.remove_prefix(line.find(':') + 1);
  line.remove_prefix(std::min(line.find_first_not_of(space), line.size()));
  return line.substr(0, line.find_last_not_of(space) + 1);
}

}  // namespace

// Requests and the connections that they share.  Libcurl works in turn() alone.  The listeners get
// the results afterwards, so that they may begin and end requests.
class CurlClient::Engine {
 public:
  Engine(uv_loop_t* loop, const PathLimits& limits, bool expects_multiplexing);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  std::unique_ptr<Exchange> get(const CurlRequest& request, ResponseListener& listener);
  bool is_unused() const { return handles_ == 0 && transfers_.empty(); }
  // Returns whether the server may carry many requests on one connection, as its last answer told.
  bool expects_multiplexing() const { return expects_multiplexing_; }

 private:
  // A request, from its start until both libcurl and its listener are done with it.
  struct Transfer {
    std::unique_ptr<CURL, FreeEasy> easy{curl_easy_init()};
    std::unique_ptr<curl_slist, FreeList> headers;
    std::unique_ptr<curl_slist, FreeList> connect_to;
    std::unique_ptr<curl_slist, FreeList> addresses;
    std::string unknown;  // why the address of a host is not known
    std::array<char, CURL_ERROR_SIZE> error{};
    Engine* engine = nullptr;
    ResponseListener* listener = nullptr;  // null: nobody wants it any more
    std::size_t header_bytes = 0;
    BodyDecoder body;
    bool has_head = false;
    bool is_told = false;    // the head
    bool is_paused = false;  // too much of the body waits
    bool is_ready = false;   // stands in ready_
    bool is_added = false;   // to the multi handle
    bool is_over = false;
    CURLcode result = CURLE_OK;
    std::string failure;  // in our words; empty: libcurl's are used
  };
  using TransferRef = std::shared_ptr<Transfer>;
  class Handle;

  static curl_socket_t open_socket(void* transfer, curlsocktype purpose, curl_sockaddr* address);
  static std::size_t on_header(char* data, std::size_t size, std::size_t count, void* transfer);
  static std::size_t on_data(char* data, std::size_t size, std::size_t count, void* transfer);
  static int on_socket(CURL*, curl_socket_t socket, int what, void* engine, void*);
  static int on_timer(CURLM*, long timeout_ms, void* engine);

  Result<void> prepare();
  void watch_socket(curl_socket_t socket, int what);
  void turn(curl_socket_t socket, int events);
  void gather_results();
  void deliver();
  void deliver(const TransferRef& transfer);
  bool deliver_body(Transfer& transfer);
  void resume(Transfer& transfer);
  void conclude(Transfer& transfer);
  void mark_ready(Transfer& transfer);
  void end(Transfer& transfer, std::string why);
  void end_all(const std::string& why);
  void remove(Transfer& transfer);
  Result<void> configure(Transfer& transfer, const CurlRequest& request);
  static ResponseHead head_of(CURL* easy);

  uv_loop_t* loop_;
  PathLimits limits_;
  std::unique_ptr<Scheduler> scheduler_;
  CURLM* multi_;
  std::unique_ptr<SocketSet> sockets_;  // null: cannot be made, and is tried again
  std::unique_ptr<Timer> timer_;        // libcurl's
  std::unique_ptr<Timer> delivery_;     // what is ready is told in the next turn of the loop
  bool is_turning_ = false;
  bool expects_multiplexing_;
  bool accepts_gzip_ = true;  // until a server or proxy shows that it cannot do it
  std::vector<TransferRef> transfers_;
  std::vector<TransferRef> ready_;
  std::size_t handles_ = 0;
};

class CurlClient::Engine::Handle final : public Exchange {
 public:
  Handle(Engine& engine, TransferRef transfer) : engine_(engine), transfer_(std::move(transfer)) {
    ++engine_.handles_;
  }
  ~Handle() override {
    --engine_.handles_;
    transfer_->listener = nullptr;
    if (!engine_.is_turning_) engine_.remove(*transfer_);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

 private:
  Engine& engine_;
  TransferRef transfer_;
};

CurlClient::Engine::Engine(uv_loop_t* loop, const PathLimits& limits, bool expects_multiplexing)
    : loop_(loop),
      limits_(limits),
      scheduler_(make_uv_scheduler(loop)),
      multi_((start_libcurl(), curl_multi_init())),
      expects_multiplexing_(expects_multiplexing) {
  if (multi_ == nullptr) return;
  curl_multi_setopt(multi_, CURLMOPT_SOCKETFUNCTION, &on_socket);
  curl_multi_setopt(multi_, CURLMOPT_SOCKETDATA, this);
  curl_multi_setopt(multi_, CURLMOPT_TIMERFUNCTION, &on_timer);
  curl_multi_setopt(multi_, CURLMOPT_TIMERDATA, this);
  curl_multi_setopt(multi_, CURLMOPT_PIPELINING, CURLPIPE_MULTIPLEX);
}

CurlClient::Engine::~Engine() {
  is_turning_ = true;
  for (const auto& transfer : transfers_)
    if (transfer->is_added) curl_multi_remove_handle(multi_, transfer->easy.get());
  transfers_.clear();
  ready_.clear();
  curl_multi_cleanup(multi_);
}

// Whether requests can be made at all.
Result<void> CurlClient::Engine::prepare() {
  if (multi_ == nullptr) return fail("libcurl cannot be started");
  if (sockets_) return {};
  auto opened = SocketSet::open(loop_, [this](int socket, SocketSet::Readiness ready) {
    turn(socket, (ready.readable ? CURL_CSELECT_IN : 0) | (ready.writable ? CURL_CSELECT_OUT : 0));
  });
  if (!opened) return std::unexpected(opened.error());
  sockets_ = *std::move(opened);
  return {};
}

// --- what libcurl calls --------------------------------------------------------------------------

// The unspecified address stands for one that is not known (resolve_entry()).
curl_socket_t CurlClient::Engine::open_socket(void* user, curlsocktype, curl_sockaddr* address) {
  auto& transfer = *static_cast<Transfer*>(user);
  if (!is_unspecified(*address) || transfer.unknown.empty())
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
  transfer.failure = transfer.unknown;
  return CURL_SOCKET_BAD;
}

// Less than was given ends the transfer.  A watch without events sends a head long before a body.
std::size_t CurlClient::Engine::on_header(char* data, std::size_t size, std::size_t count,
                                          void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const std::string_view line(data, size * count);
  transfer.header_bytes += line.size();
  if (transfer.header_bytes > kMaxHeaders) {
    transfer.failure =
        "the response has more than " + std::to_string(kMaxHeaders >> 10) + " KiB of header fields";
    return 0;
  }
  if (is_field(line, kContentEncoding)) {
    if (auto known = transfer.body.set_encoding(value_of(line)); !known) {
      transfer.engine->accepts_gzip_ = false;
      transfer.failure = std::move(known.error().message);
      return 0;
    }
  }
  if (line != "\r\n" && line != "\n") return line.size();
  long status = 0;
  curl_easy_getinfo(transfer.easy.get(), CURLINFO_RESPONSE_CODE, &status);
  if (status >= 200) {
    transfer.has_head = true;
    transfer.engine->mark_ready(transfer);
  }
  return line.size();
}

std::size_t CurlClient::Engine::on_data(char* data, std::size_t size, std::size_t count,
                                        void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  if (transfer.listener == nullptr) return 0;
  transfer.has_head = true;
  transfer.engine->mark_ready(transfer);
  if (transfer.body.waiting() >= kMaxWaiting) {
    transfer.is_paused = true;
    return CURL_WRITEFUNC_PAUSE;
  }
  transfer.body.add({data, size * count});
  return size * count;
}

int CurlClient::Engine::on_socket(CURL*, curl_socket_t socket, int what, void* engine, void*) {
  static_cast<Engine*>(engine)->watch_socket(socket, what);
  return 0;
}

// A connection that cannot be watched would be silent for ever.  Its transfers are not known here.
void CurlClient::Engine::watch_socket(curl_socket_t socket, int what) {
  if (what == CURL_POLL_REMOVE) return sockets_->forget(socket);
  const auto watched = sockets_->watch(
      socket, {.readable = (what & CURL_POLL_IN) != 0, .writable = (what & CURL_POLL_OUT) != 0});
  if (!watched) end_all(watched.error().message);
}

// Libcurl may call this from within its own functions: it is only noted here.
int CurlClient::Engine::on_timer(CURLM*, long timeout_ms, void* user) {
  auto* const engine = static_cast<Engine*>(user);
  engine->timer_.reset();
  if (timeout_ms >= 0)
    engine->timer_ = engine->scheduler_->after(Milliseconds(timeout_ms),
                                               [engine] { engine->turn(CURL_SOCKET_TIMEOUT, 0); });
  return 0;
}

// --- turns ---------------------------------------------------------------------------------------

void CurlClient::Engine::turn(curl_socket_t socket, int events) {
  int running = 0;
  is_turning_ = true;
  const CURLMcode code = curl_multi_socket_action(multi_, socket, events, &running);
  is_turning_ = false;
  gather_results();
  if (code != CURLM_OK) end_all(curl_multi_strerror(code));
  deliver();
}

void CurlClient::Engine::gather_results() {
  int left = 0;
  while (CURLMsg* const message = curl_multi_info_read(multi_, &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    void* user = nullptr;
    curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &user);
    auto& transfer = *static_cast<Transfer*>(user);
    transfer.result = message->data.result;
    transfer.is_over = true;
    mark_ready(transfer);
  }
}

void CurlClient::Engine::mark_ready(Transfer& transfer) {
  if (std::exchange(transfer.is_ready, true)) return;
  const auto known = std::ranges::find(transfers_, &transfer, &TransferRef::get);
  if (known == transfers_.end()) return;
  ready_.push_back(*known);
  if (is_turning_ || delivery_) return;
  delivery_ = scheduler_->after(kNextTurn, [this] {
    delivery_.reset();
    deliver();
  });
}

void CurlClient::Engine::end(Transfer& transfer, std::string why) {
  if (transfer.failure.empty()) transfer.failure = std::move(why);
  transfer.is_over = true;
  mark_ready(transfer);
}

void CurlClient::Engine::end_all(const std::string& why) {
  for (const auto& transfer : transfers_) end(*transfer, why);
}

// Libcurl forgets the transfer; its memory goes with its last user.
void CurlClient::Engine::remove(Transfer& transfer) {
  if (std::exchange(transfer.is_added, false))
    curl_multi_remove_handle(multi_, transfer.easy.get());
  std::erase_if(transfers_, [&](const TransferRef& known) { return known.get() == &transfer; });
}

// --- what the listeners are told -----------------------------------------------------------------

void CurlClient::Engine::deliver() {
  // A listener may end other requests: each is looked up again when it is its turn.
  const auto ready = std::exchange(ready_, {});
  for (const auto& transfer : ready) {
    transfer->is_ready = false;
    deliver(transfer);
  }
}

void CurlClient::Engine::deliver(const TransferRef& transfer) {
  const bool has_answer = transfer->has_head || (transfer->is_over && transfer->result == CURLE_OK);
  if (has_answer && transfer->failure.empty() && !transfer->is_told &&
      transfer->listener != nullptr) {
    transfer->is_told = true;
    const ResponseHead head = head_of(transfer->easy.get());
    expects_multiplexing_ = head.is_multiplexed;
    transfer->listener->on_head(head);
  }
  if (!deliver_body(*transfer)) return mark_ready(*transfer);
  if (transfer->is_over) return conclude(*transfer);
  if (std::exchange(transfer->is_paused, false)) resume(*transfer);
}

// Tells of as much of the text as one turn may; false: there is more.
bool CurlClient::Engine::deliver_body(Transfer& transfer) {
  for (std::size_t told = 0; transfer.listener != nullptr && transfer.failure.empty();) {
    if (told >= kTextPerTurn) return false;
    const auto text = transfer.body.next();
    if (!text) {
      accepts_gzip_ = false;
      end(transfer, text.error().message);
      break;
    }
    if (text->empty()) break;
    told += text->size();
    transfer.listener->on_body(*text);
  }
  return true;
}

// It may be that on_data() is called from here.
void CurlClient::Engine::resume(Transfer& transfer) {
  if (!transfer.is_added) return;
  const CURLcode code = curl_easy_pause(transfer.easy.get(), CURLPAUSE_CONT);
  if (code != CURLE_OK) end(transfer, curl_easy_strerror(code));
}

void CurlClient::Engine::conclude(Transfer& transfer) {
  ResponseListener* const listener = std::exchange(transfer.listener, nullptr);
  remove(transfer);
  if (listener == nullptr) return;
  if (!transfer.failure.empty()) return listener->on_end(fail(transfer.failure));
  if (transfer.result == CURLE_OK) {
    const auto finished = transfer.body.finish();
    if (!finished) accepts_gzip_ = false;
    return listener->on_end(finished);
  }
  const char* const why =
      transfer.error[0] != '\0' ? transfer.error.data() : curl_easy_strerror(transfer.result);
  listener->on_end(fail(why));
}

ResponseHead CurlClient::Engine::head_of(CURL* easy) {
  ResponseHead head;
  long status = 0;
  curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
  head.status = static_cast<unsigned>(status);
  curl_off_t seconds = 0;
  curl_easy_getinfo(easy, CURLINFO_RETRY_AFTER, &seconds);
  if (seconds > 0) head.retry_after = std::chrono::seconds(std::min<curl_off_t>(seconds, 3'600));
  long version = 0;
  curl_easy_getinfo(easy, CURLINFO_HTTP_VERSION, &version);
  head.is_multiplexed = version >= CURL_HTTP_VERSION_2_0;
  // Connections to one server that are open at the same time have different ports.
  long port = 0;
  curl_easy_getinfo(easy, CURLINFO_LOCAL_PORT, &port);
  head.connection = static_cast<std::uint64_t>(port);
  return head;
}

// --- requests ------------------------------------------------------------------------------------

Result<void> CurlClient::Engine::configure(Transfer& transfer, const CurlRequest& request) {
  if (!transfer.easy) return fail("libcurl has no memory for a request");
  CurlOptions options(transfer.easy.get());
  const NamedTarget target = name_target(request);
  options.set_text(CURLOPT_URL, target.url);
  if (!target.connect_to.empty()) {
    transfer.connect_to.reset(curl_slist_append(nullptr, target.connect_to.c_str()));
    options.set(CURLOPT_CONNECT_TO, transfer.connect_to.get());
  }
  curl_slist* addresses = nullptr;
  for (const NamedHost& host : request.hosts) {
    addresses = curl_slist_append(addresses, resolve_entry(host).c_str());
    if (host.known.addresses.empty() && transfer.unknown.empty())
      transfer.unknown = host.host + " cannot be looked up: " + host.known.reason;
  }
  transfer.addresses.reset(addresses);
  options.set(CURLOPT_RESOLVE, addresses);
  curl_slist* headers = nullptr;
  for (const auto& header : request.headers) headers = curl_slist_append(headers, header.c_str());
  // Not libcurl's own decompression (body_decoder.hpp).
  if (accepts_gzip_) headers = curl_slist_append(headers, "Accept-Encoding: gzip");
  transfer.headers.reset(headers);
  options.set(CURLOPT_HTTPHEADER, headers);
  options.set(CURLOPT_PROTOCOLS_STR, "http,https");
  options.set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_2TLS));
  // Waits for a connection that is being made, which may then carry many requests.  The TLS
  // handshake tells.  Without TLS, and in newer versions of libcurl also with it, libcurl waits for
  // an answer, and if the server closes after each answer, for one watch to end before the next
  // request begins.
  const bool waits = expects_multiplexing_ && target.url.starts_with("https://");
  options.set(CURLOPT_PIPEWAIT, waits ? 1L : 0L);
  options.set(CURLOPT_USERAGENT, "meshdnsd/" MESHDNS_VERSION);
  options.set(CURLOPT_NOSIGNAL, 1L);
  options.set(CURLOPT_CONNECTTIMEOUT_MS, kConnectMs);
  options.set(CURLOPT_TCP_KEEPALIVE, 1L);
  options.set(CURLOPT_TCP_KEEPIDLE, static_cast<long>(limits_.keep_alive_idle.count()));
  options.set(CURLOPT_TCP_KEEPINTVL, static_cast<long>(limits_.keep_alive_interval.count()));
  options.set(CURLOPT_OPENSOCKETFUNCTION, &open_socket);
  options.set(CURLOPT_OPENSOCKETDATA, static_cast<void*>(&transfer));
  options.set(CURLOPT_SOCKOPTFUNCTION, &prepare_socket);
  options.set(CURLOPT_SOCKOPTDATA, static_cast<void*>(&limits_));
  options.set(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  options.set_text(CURLOPT_PROXY, request.proxy);
  options.set_text(CURLOPT_USERPWD, request.user_and_password);
  set_tls(options, request.tls);
  options.set(CURLOPT_ERRORBUFFER, transfer.error.data());
  options.set(CURLOPT_PRIVATE, static_cast<void*>(&transfer));
  options.set(CURLOPT_HEADERFUNCTION, &on_header);
  options.set(CURLOPT_HEADERDATA, static_cast<void*>(&transfer));
  options.set(CURLOPT_WRITEFUNCTION, &on_data);
  options.set(CURLOPT_WRITEDATA, static_cast<void*>(&transfer));
  options.set(CURLOPT_BUFFERSIZE, 65'536L);
  return options.outcome();
}

std::unique_ptr<Exchange> CurlClient::Engine::get(const CurlRequest& request,
                                                  ResponseListener& listener) {
  const auto transfer = std::make_shared<Transfer>();
  transfer->engine = this;
  transfer->listener = &listener;
  transfers_.push_back(transfer);
  auto ready = prepare();
  if (ready) ready = configure(*transfer, request);
  if (ready) {
    const CURLMcode code = curl_multi_add_handle(multi_, transfer->easy.get());
    transfer->is_added = code == CURLM_OK;
    if (code != CURLM_OK) ready = fail(curl_multi_strerror(code));
  }
  if (!ready) end(*transfer, ready.error().message);
  return std::make_unique<Handle>(*this, transfer);
}

// --- the client ----------------------------------------------------------------------------------

CurlClient::CurlClient(uv_loop_t* loop, const PathLimits& limits)
    : loop_(loop),
      limits_(limits),
      scheduler_(make_uv_scheduler(loop)),
      engine_(std::make_unique<Engine>(loop, limits_, true)) {}
CurlClient::~CurlClient() = default;

std::unique_ptr<Exchange> CurlClient::get(const CurlRequest& request, ResponseListener& listener) {
  return engine_->get(request, listener);
}

// Connections are never taken away from requests under way: those may be in the middle of a call.
void CurlClient::distrust_connections() {
  const std::uint64_t now = uv_hrtime() / 1'000'000;
  if (now < engine_since_ms_ + kDistrustMs) return;
  engine_since_ms_ = now;
  const bool expects_multiplexing = engine_->expects_multiplexing();
  retired_.push_back(
      std::exchange(engine_, std::make_unique<Engine>(loop_, limits_, expects_multiplexing)));
  look_after_retired();
}

void CurlClient::look_after_retired() {
  retired_timer_ = scheduler_->after(kRetiredPoll, [this] {
    std::erase_if(retired_, [](const auto& engine) { return engine->is_unused(); });
    retired_timer_.reset();
    if (!retired_.empty()) look_after_retired();
  });
}

}  // namespace meshdns::registry::kubernetes
