// The only file that knows libcurl.
#include "registry/source/kubernetes/curl_client.hpp"

#include <curl/curl.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <uv.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <utility>

namespace meshdns::registry::kubernetes {
namespace {

constexpr long kConnectMs = 10'000;
constexpr long kKeepAliveIdle = 10;
constexpr long kKeepAliveInterval = 5;
constexpr unsigned kUserTimeoutMs = 20'000;
constexpr std::uint64_t kDistrustMs = 5'000;

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

template <typename Value>
void set(CURL* easy, CURLoption option, Value value) {
  curl_easy_setopt(easy, option, value);
}

void set_text(CURL* easy, CURLoption option, const std::string& text) {
  if (!text.empty()) curl_easy_setopt(easy, option, text.c_str());
}

// A file, or its content.
void set_pem(CURL* easy, CURLoption file_option, const std::string& file, CURLoption blob_option,
             const std::string& pem) {
  if (pem.empty()) return set_text(easy, file_option, file);
  std::string copy = pem;
  curl_blob blob{copy.data(), copy.size(), CURL_BLOB_COPY};
  curl_easy_setopt(easy, blob_option, &blob);
}

int prepare_socket(void*, curl_socket_t socket, curlsocktype purpose) {
  if (purpose == CURLSOCKTYPE_IPCXN)
    setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &kUserTimeoutMs, sizeof kUserTimeoutMs);
  return CURL_SOCKOPT_OK;
}

// The certificate is for another name than the URL's: libcurl is told that name, and where to
// connect to instead.
struct NamedTarget {
  std::string url;
  std::string connect_to;  // empty: nowhere else
};
NamedTarget name_target(const CurlRequest& request) {
  const std::size_t authority = request.url.find("://");
  if (request.tls.server_name.empty() || authority == std::string::npos) return {request.url, ""};
  const std::size_t begin = authority + 3;
  const std::size_t end = std::min(request.url.find('/', begin), request.url.size());
  std::string host = request.url.substr(begin, end - begin);
  std::string port = "443";
  const std::size_t colon = host.rfind(':');
  if (colon != std::string::npos && host.find(']', colon) == std::string::npos) {
    port = host.substr(colon + 1);
    host.resize(colon);
  }
  return {
      request.url.substr(0, begin) + request.tls.server_name + ":" + port + request.url.substr(end),
      "::" + host + ":" + port};
}

}  // namespace

// A request, from its start until both libcurl and its listener are done with it.
class CurlClient::Engine {
 public:
  explicit Engine(uv_loop_t* loop);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  std::unique_ptr<Exchange> get(const CurlRequest& request, ResponseListener& listener);
  void distrust_connections() { distrusted_until_ = uv_hrtime() / 1'000'000 + kDistrustMs; }

 private:
  struct Transfer {
    std::unique_ptr<CURL, FreeEasy> easy{curl_easy_init()};
    std::unique_ptr<curl_slist, FreeList> headers;
    std::unique_ptr<curl_slist, FreeList> connect_to;
    std::array<char, CURL_ERROR_SIZE> error{};
    Engine* engine = nullptr;
    ResponseListener* listener = nullptr;  // null: nobody wants it any more
    std::string received;
    bool has_head = false;
    bool is_told = false;   // the head
    bool is_ready = false;  // stands in ready_
    bool is_added = false;  // to the multi handle
    CURLcode result = CURLE_OK;
    bool is_over = false;
  };
  using TransferRef = std::shared_ptr<Transfer>;
  class Handle;

  static std::size_t on_header(char* data, std::size_t size, std::size_t count, void* transfer);
  static std::size_t on_data(char* data, std::size_t size, std::size_t count, void* transfer);
  static int on_socket(CURL*, curl_socket_t socket, int what, void* engine, void* watcher);
  static int on_timer(CURLM*, long timeout_ms, void* engine);

  void watch_socket(curl_socket_t socket, int what, uv_poll_t* watcher);
  void turn(curl_socket_t socket, int events);
  void gather_results();
  void deliver();
  void deliver(const TransferRef& transfer);
  void mark_ready(Transfer& transfer);
  void remove(Transfer& transfer);
  void configure(Transfer& transfer, const CurlRequest& request);
  static ResponseHead head_of(CURL* easy);

  uv_loop_t* loop_;
  CURLM* multi_;
  uv_timer_t* timer_;
  bool is_turning_ = false;
  std::vector<TransferRef> transfers_;
  std::vector<TransferRef> ready_;
  std::uint64_t distrusted_until_ = 0;
};

class CurlClient::Engine::Handle final : public Exchange {
 public:
  Handle(Engine& engine, TransferRef transfer) : engine_(engine), transfer_(std::move(transfer)) {}
  ~Handle() override {
    transfer_->listener = nullptr;
    if (!engine_.is_turning_) engine_.remove(*transfer_);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

 private:
  Engine& engine_;
  TransferRef transfer_;
};

CurlClient::Engine::Engine(uv_loop_t* loop)
    : loop_(loop), multi_((start_libcurl(), curl_multi_init())), timer_(new uv_timer_t) {
  uv_timer_init(loop_, timer_);
  timer_->data = this;
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
  uv_close(reinterpret_cast<uv_handle_t*>(timer_),
           [](uv_handle_t* handle) { delete reinterpret_cast<uv_timer_t*>(handle); });
}

// A watch without events sends a head long before a body.
std::size_t CurlClient::Engine::on_header(char* data, std::size_t size, std::size_t count,
                                          void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const std::string_view line(data, size * count);
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
  // Ending the transfer from within is told by taking less than was given.
  if (transfer.listener == nullptr) return 0;
  transfer.has_head = true;
  transfer.received.append(data, size * count);
  transfer.engine->mark_ready(transfer);
  return size * count;
}

void CurlClient::Engine::mark_ready(Transfer& transfer) {
  if (std::exchange(transfer.is_ready, true)) return;
  const auto known = std::ranges::find(transfers_, &transfer, &TransferRef::get);
  if (known != transfers_.end()) ready_.push_back(*known);
}

int CurlClient::Engine::on_socket(CURL*, curl_socket_t socket, int what, void* engine,
                                  void* watcher) {
  static_cast<Engine*>(engine)->watch_socket(socket, what, static_cast<uv_poll_t*>(watcher));
  return 0;
}

void CurlClient::Engine::watch_socket(curl_socket_t socket, int what, uv_poll_t* watcher) {
  if (what == CURL_POLL_REMOVE) {
    if (watcher == nullptr) return;
    uv_poll_stop(watcher);
    uv_close(reinterpret_cast<uv_handle_t*>(watcher),
             [](uv_handle_t* handle) { delete reinterpret_cast<uv_poll_t*>(handle); });
    curl_multi_assign(multi_, socket, nullptr);
    return;
  }
  if (watcher == nullptr) {
    watcher = new uv_poll_t;
    if (uv_poll_init_socket(loop_, watcher, socket) != 0) {
      delete watcher;
      return;
    }
    watcher->data = this;
    curl_multi_assign(multi_, socket, watcher);
  }
  const int events =
      (what != CURL_POLL_OUT ? UV_READABLE : 0) | (what != CURL_POLL_IN ? UV_WRITABLE : 0);
  uv_poll_start(watcher, events, [](uv_poll_t* poll, int status, int happened) {
    uv_os_fd_t fd = -1;
    uv_fileno(reinterpret_cast<uv_handle_t*>(poll), &fd);
    int flags = 0;
    if (status < 0) flags = CURL_CSELECT_ERR;
    if ((happened & UV_READABLE) != 0) flags |= CURL_CSELECT_IN;
    if ((happened & UV_WRITABLE) != 0) flags |= CURL_CSELECT_OUT;
    static_cast<Engine*>(poll->data)->turn(fd, flags);
  });
}

// libcurl may call this from within its own functions: it is only noted here.
int CurlClient::Engine::on_timer(CURLM*, long timeout_ms, void* user) {
  auto* const engine = static_cast<Engine*>(user);
  if (timeout_ms < 0) {
    uv_timer_stop(engine->timer_);
    return 0;
  }
  uv_timer_start(
      engine->timer_,
      [](uv_timer_t* timer) { static_cast<Engine*>(timer->data)->turn(CURL_SOCKET_TIMEOUT, 0); },
      static_cast<std::uint64_t>(timeout_ms), 0);
  return 0;
}

// Lets libcurl work; then, outside of it, tells the listeners, who may begin and end requests as
// they like.
void CurlClient::Engine::turn(curl_socket_t socket, int events) {
  int running = 0;
  is_turning_ = true;
  curl_multi_socket_action(multi_, socket, events, &running);
  is_turning_ = false;
  gather_results();
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

void CurlClient::Engine::deliver() {
  // Whoever is called may end others: each is looked at anew when it is its turn.
  const auto ready = std::exchange(ready_, {});
  for (const auto& transfer : ready) {
    transfer->is_ready = false;
    deliver(transfer);
  }
}

void CurlClient::Engine::deliver(const TransferRef& transfer) {
  const bool has_answer = transfer->has_head || (transfer->is_over && transfer->result == CURLE_OK);
  if (has_answer && !transfer->is_told && transfer->listener != nullptr) {
    transfer->is_told = true;
    transfer->listener->on_head(head_of(transfer->easy.get()));
  }
  const std::string received = std::exchange(transfer->received, {});
  if (!received.empty() && transfer->listener != nullptr) transfer->listener->on_body(received);
  if (!transfer->is_over) return;
  ResponseListener* const listener = std::exchange(transfer->listener, nullptr);
  remove(*transfer);
  if (listener == nullptr) return;
  if (transfer->result == CURLE_OK) return listener->on_end({});
  const char* const why =
      transfer->error[0] != '\0' ? transfer->error.data() : curl_easy_strerror(transfer->result);
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
  return head;
}

// libcurl forgets the transfer; its memory goes with its last user.
void CurlClient::Engine::remove(Transfer& transfer) {
  if (std::exchange(transfer.is_added, false))
    curl_multi_remove_handle(multi_, transfer.easy.get());
  std::erase_if(transfers_, [&](const TransferRef& known) { return known.get() == &transfer; });
}

void CurlClient::Engine::configure(Transfer& transfer, const CurlRequest& request) {
  CURL* const easy = transfer.easy.get();
  const NamedTarget target = name_target(request);
  set_text(easy, CURLOPT_URL, target.url);
  if (!target.connect_to.empty()) {
    transfer.connect_to.reset(curl_slist_append(nullptr, target.connect_to.c_str()));
    set(easy, CURLOPT_CONNECT_TO, transfer.connect_to.get());
  }
  curl_slist* headers = nullptr;
  for (const auto& header : request.headers) headers = curl_slist_append(headers, header.c_str());
  transfer.headers.reset(headers);
  set(easy, CURLOPT_HTTPHEADER, headers);
  set(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  set(easy, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_2TLS));
  set(easy, CURLOPT_PIPEWAIT, 1L);
  set(easy, CURLOPT_ACCEPT_ENCODING, "gzip");
  set(easy, CURLOPT_USERAGENT, "meshdnsd/" MESHDNS_VERSION);
  set(easy, CURLOPT_NOSIGNAL, 1L);
  set(easy, CURLOPT_CONNECTTIMEOUT_MS, kConnectMs);
  set(easy, CURLOPT_TCP_KEEPALIVE, 1L);
  set(easy, CURLOPT_TCP_KEEPIDLE, kKeepAliveIdle);
  set(easy, CURLOPT_TCP_KEEPINTVL, kKeepAliveInterval);
  set(easy, CURLOPT_SOCKOPTFUNCTION, &prepare_socket);
  if (uv_hrtime() / 1'000'000 < distrusted_until_) set(easy, CURLOPT_FRESH_CONNECT, 1L);
  set_text(easy, CURLOPT_PROXY, request.proxy);
  set_text(easy, CURLOPT_USERPWD, request.user_and_password);
  set(easy, CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  set(easy, CURLOPT_CA_CACHE_TIMEOUT, 0L);
  set_pem(easy, CURLOPT_CAINFO, request.tls.ca_file, CURLOPT_CAINFO_BLOB, request.tls.ca_pem);
  set_pem(easy, CURLOPT_SSLCERT, request.tls.certificate_file, CURLOPT_SSLCERT_BLOB,
          request.tls.certificate_pem);
  set_pem(easy, CURLOPT_SSLKEY, request.tls.key_file, CURLOPT_SSLKEY_BLOB, request.tls.key_pem);
  if (request.tls.is_unverified) {
    set(easy, CURLOPT_SSL_VERIFYPEER, 0L);
    set(easy, CURLOPT_SSL_VERIFYHOST, 0L);
  }
  set(easy, CURLOPT_ERRORBUFFER, transfer.error.data());
  set(easy, CURLOPT_PRIVATE, static_cast<void*>(&transfer));
  set(easy, CURLOPT_HEADERFUNCTION, &on_header);
  set(easy, CURLOPT_HEADERDATA, static_cast<void*>(&transfer));
  set(easy, CURLOPT_WRITEFUNCTION, &on_data);
  set(easy, CURLOPT_WRITEDATA, static_cast<void*>(&transfer));
  set(easy, CURLOPT_BUFFERSIZE, 65'536L);
}

std::unique_ptr<Exchange> CurlClient::Engine::get(const CurlRequest& request,
                                                  ResponseListener& listener) {
  const auto transfer = std::make_shared<Transfer>();
  transfer->engine = this;
  transfer->listener = &listener;
  configure(*transfer, request);
  transfers_.push_back(transfer);
  transfer->is_added = true;
  curl_multi_add_handle(multi_, transfer->easy.get());
  return std::make_unique<Handle>(*this, transfer);
}

CurlClient::CurlClient(uv_loop_s* loop) : engine_(std::make_unique<Engine>(loop)) {}
CurlClient::~CurlClient() = default;

std::unique_ptr<Exchange> CurlClient::get(const CurlRequest& request, ResponseListener& listener) {
  return engine_->get(request, listener);
}

void CurlClient::distrust_connections() { engine_->distrust_connections(); }

}  // namespace meshdns::registry::kubernetes
