// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/changes/api.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>
#include <utility>

namespace meshdns::bench {
namespace {

constexpr std::size_t kChunk = 256UL << 10;
constexpr unsigned kBookmarkMs = 30'000;

bool write_all(int socket, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::send(socket, text.data(), text.size(), MSG_NOSIGNAL);
    if (written <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

std::string chunk_of(std::string_view text) {
  std::array<char, 20> size{};
  std::snprintf(size.data(), size.size(), "%zx\r\n", text.size());
  return std::string(size.data()).append(text) + "\r\n";
}

std::string event_of(std::string_view type, std::string_view object) {
  return std::string(R"({"type":")").append(type) + R"(","object":)" + std::string(object) + "}\n";
}

}  // namespace

struct Api::Request {
  std::string path;
  std::string query;
  bool has(std::string_view text) const { return query.find(text) != std::string::npos; }
  // 0: not given.
  unsigned number(std::string_view key) const {
    const std::size_t at = query.find(key);
    unsigned value = 0;
    if (at == std::string::npos) return 0;
    const char* const begin = query.data() + at + key.size();
    std::from_chars(begin, query.data() + query.size(), value);
    return value;
  }
};

// One client's connection, with as many requests as it likes.
class Api::Connection {
 public:
  Connection(Api& api, int socket) : api_(api), socket_(socket) {}
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() { ::close(socket_); }

  void serve() {
    Request request;
    while (read(request) && answer(request)) {
    }
  }

 private:
  struct Collection {
    std::string kind;
    unsigned size = 0;
    std::function<std::string(unsigned)> object;
  };

  bool read(Request& request) {
    std::size_t end = 0;
    while ((end = received_.find("\r\n\r\n")) == std::string::npos) {
      std::array<char, 4096> part;
      const ssize_t size = ::recv(socket_, part.data(), part.size(), 0);
      if (size <= 0) return false;
      received_.append(part.data(), static_cast<std::size_t>(size));
    }
    const std::string line = received_.substr(0, received_.find("\r\n"));
    received_.erase(0, end + 4);
    const std::size_t begin = line.find(' ') + 1;
    const std::string target = line.substr(begin, line.rfind(' ') - begin);
    const std::size_t question = std::min(target.find('?'), target.size());
    request = {target.substr(0, question), target.substr(question)};
    return true;
  }

  bool answer(const Request& request) {
    if (request.path == "/apis/discovery.k8s.io")
      return reply(200, R"({"kind":"APIGroup","versions":[{"version":"v1"}]})");
    if (request.path == "/apis/discovery.k8s.io/v1")
      return reply(200, R"({"resources":[{"name":"endpointslices"}]})");
    const Collection collection = collection_of(request);
    if (collection.kind.empty()) return reply(404, R"({"kind":"Status","code":404})");
    if (!request.has("watch=1")) return list(request, collection);
    if (request.has("sendInitialEvents") && !api_.streams_lists_)
      return reply(422, R"({"kind":"Status","code":422})");
    return watch(request, collection);
  }

  Collection collection_of(const Request& request) const {
    const Cluster& cluster = api_.cluster_;
    if (request.path == "/api/v1/namespaces")
      return {"Namespace", Cluster::kNamespaces, &Cluster::namespace_json};
    if (request.path == "/api/v1/services")
      return {"Service", cluster.services(), [&](unsigned i) { return cluster.service_json(i); }};
    // Those that Kubernetes' own controller did not make: there are none.
    if (request.path == "/apis/discovery.k8s.io/v1/endpointslices")
      return {"EndpointSlice", request.has("%21") ? 0 : cluster.services(),
              [&](unsigned i) { return cluster.slice_json(i); }};
    return {};
  }

  bool reply(unsigned status, std::string_view body) {
    return write_all(socket_, "HTTP/1.1 " + std::to_string(status) +
                                  " -\r\nContent-Type: application/json\r\nContent-Length: " +
                                  std::to_string(body.size()) + "\r\n\r\n" + std::string(body));
  }

  bool begin_chunks() {
    return write_all(socket_,
                     "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                     "Transfer-Encoding: chunked\r\n\r\n");
  }

  // Gathers what is sent into chunks of some size.
  bool send(std::string_view text) {
    gathered_ += text;
    return gathered_.size() < kChunk || flush();
  }
  bool flush() {
    const std::string text = std::exchange(gathered_, {});
    return text.empty() || write_all(socket_, chunk_of(text));
  }

  std::string version() const { return std::to_string(api_.cluster_.version()); }

  // As kube-apiserver does: in pages, unless the watch cache's state is asked for.
  bool list(const Request& request, const Collection& collection) {
    const unsigned begin = request.number("continue=");
    const unsigned limit = request.has("resourceVersion=0") ? 0 : request.number("limit=");
    const unsigned end = limit == 0 ? collection.size : std::min(collection.size, begin + limit);
    const std::string token = end < collection.size ? std::to_string(end) : "";
    bool is_open =
        begin_chunks() && send(R"({"kind":")" + collection.kind +
                               R"(List","apiVersion":"v1","metadata":{"resourceVersion":")" +
                               version() + R"(","continue":")" + token + R"("},"items":[)");
    for (unsigned i = begin; i < end && is_open; ++i)
      is_open = (i == begin || send(",")) && send(collection.object(i));
    return is_open && send("]}") && flush() && write_all(socket_, "0\r\n\r\n");
  }

  bool send_bookmark(bool ends_list) {
    const std::string_view annotation =
        ends_list ? R"(,"annotations":{"k8s.io/initial-events-end":"true"})" : "";
    return send(event_of("BOOKMARK", R"({"metadata":{"resourceVersion":")" + version() + '"' +
                                         std::string(annotation) + "}}")) &&
           flush();
  }

  // Until the client, or forget_history, ends it.
  bool watch(const Request& request, const Collection& collection) {
    bool is_open = begin_chunks();
    if (request.has("sendInitialEvents")) {
      for (unsigned i = 0; i < collection.size && is_open; ++i)
        is_open = send(event_of("ADDED", collection.object(i)));
      is_open = is_open && send_bookmark(true);
    }
    const bool is_of_slices = collection.kind == "EndpointSlice" && collection.size > 0;
    if (is_open && is_of_slices) api_.watch_slices(socket_);
    pollfd readable{socket_, POLLIN, 0};
    while (is_open && ::poll(&readable, 1, kBookmarkMs) == 0)
      is_open = is_of_slices || send_bookmark(false);
    if (is_of_slices) {
      const std::lock_guard lock(api_.mutex_);
      std::erase(api_.watchers_, socket_);
    }
    return false;
  }

  Api& api_;
  int socket_;
  std::string received_;
  std::string gathered_;
};

Api::Api(const Cluster& cluster, bool streams_lists)
    : cluster_(cluster), streams_lists_(streams_lists) {
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (listener_ < 0 || ::bind(listener_, reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
      ::listen(listener_, 64) != 0 ||
      ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    std::perror("changes: listen");
    std::exit(1);
  }
  port_ = ntohs(address.sin_port);
  std::thread([this] { accept_all(); }).detach();
}

void Api::accept_all() {
  for (;;) {
    const int socket = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (socket < 0) continue;
    const int on = 1;
    ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    std::thread([this, socket] { Connection(*this, socket).serve(); }).detach();
  }
}

void Api::watch_slices(int socket) {
  const std::lock_guard lock(mutex_);
  watchers_.push_back(socket);
}

void Api::send_modified(std::string_view slice) {
  const std::string chunk = chunk_of(event_of("MODIFIED", slice));
  const std::lock_guard lock(mutex_);
  for (const int socket : watchers_) write_all(socket, chunk);
}

void Api::forget_history() {
  const std::lock_guard lock(mutex_);
  for (const int socket : watchers_) {
    write_all(socket,
              chunk_of(event_of("ERROR", R"({"kind":"Status","code":410,"reason":"Expired"})")));
    ::shutdown(socket, SHUT_RDWR);
  }
}

}  // namespace meshdns::bench
