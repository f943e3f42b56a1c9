// SPDX-License-Identifier: Apache-2.0
#include "dnsd/admin/admin_endpoint.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "tests/dnsd/few_descriptors.hpp"

namespace meshdns::dnsd {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// Returns the first address that it serves; "off" if there is none.
std::string address_of(const AdminEndpoint& endpoint) {
  const auto addresses = endpoint.addresses();
  return addresses.empty() ? "off" : to_string(addresses.front());
}

const AdminAddress kAnyPort = SocketAddress{*IpAddress::parse("127.0.0.1"), 0, ""};

class AdminEndpointTest : public testing::Test {
 protected:
  explicit AdminEndpointTest(const HttpDeadlines& deadlines = {})
      : endpoint_(&loop_, "admin.listen", routes, deadlines) {
    uv_loop_init(&loop_);
    std::string name = (std::filesystem::temp_directory_path() / "meshdns-XXXXXX").string();
    directory_ = ::mkdtemp(name.data());
  }
  ~AdminEndpointTest() override {
    endpoint_.close();
    uv_run(&loop_, UV_RUN_DEFAULT);
    EXPECT_EQ(uv_loop_close(&loop_), 0);
    std::filesystem::remove_all(directory_);
  }

  AdminAddress socket_path(const std::string& name) const {
    return UnixAddress{(directory_ / name).string()};
  }
  static int connect_to(const AdminAddress& address) {
    sockaddr_storage name{};
    socklen_t size = sizeof(sockaddr_un);
    if (const auto* local = std::get_if<UnixAddress>(&address)) {
      auto* un = reinterpret_cast<sockaddr_un*>(&name);
      un->sun_family = AF_UNIX;
      local->path.copy(un->sun_path, sizeof un->sun_path - 1);
    } else {
      size = *std::get<SocketAddress>(address).to_sockaddr(name);
    }
    const int fd = ::socket(name.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || ::connect(fd, reinterpret_cast<const sockaddr*>(&name), size) == 0) return fd;
    ::close(fd);
    return -1;
  }
  static bool connect(int fd, const AdminAddress& address) {
    sockaddr_storage name{};
    const socklen_t size = *std::get<SocketAddress>(address).to_sockaddr(name);
    return ::connect(fd, reinterpret_cast<const sockaddr*>(&name), size) == 0;
  }
  // The whole response to `request`, or "" when nobody listens there.
  std::string exchange(const AdminAddress& address, const std::string& request) {
    const int fd = connect_to(address);
    if (fd < 0) return "";
    EXPECT_EQ(::send(fd, request.data(), request.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(request.size()));
    std::string response;
    for (bool open = true; open;) {
      uv_run(&loop_, UV_RUN_NOWAIT);
      char buffer[4096];
      const ssize_t n = ::recv(fd, buffer, sizeof buffer, MSG_DONTWAIT);
      if (n > 0) response.append(buffer, static_cast<std::size_t>(n));
      open = n > 0 || (n < 0 && errno == EAGAIN);
    }
    ::close(fd);
    return response;
  }
  std::string get(const std::string& address_text) {
    return exchange(*parse_admin_address(address_text),
                    "GET /hello HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  }
  std::string post(const std::string& headers) {
    return exchange(*parse_admin_address(address_of(endpoint_)),
                    "POST /change?to=x HTTP/1.1\r\nConnection: close\r\n" + headers + "\r\n");
  }
  static HttpRoutes routes() {
    HttpRoutes routes;
    routes["/hello"].get = [](const HttpRequest&) { return HttpResponse{.body = "hello\n"}; };
    routes["/status"].status = [](const HttpRequest&) { return HttpResponse{.body = "status\n"}; };
    routes["/large"].get = [](const HttpRequest&) {
      return HttpResponse{.body = std::string(std::size_t{8} << 20, 'x')};
    };
    routes["/change"].post = [](const HttpRequest& request) {
      return HttpResponse{.body = "changed to " + std::string(request.argument("to"))};
    };
    return routes;
  }

  uv_loop_t loop_{};
  std::filesystem::path directory_;
  AdminEndpoint endpoint_;
};

constexpr std::size_t kLargeBody = std::size_t{8} << 20;
// Far beyond every deadline of these tests, and below libmicrohttpd's own.
constexpr std::chrono::seconds kPatience{8};
constexpr std::chrono::minutes kForEver{5};

bool is_within(std::chrono::steady_clock::time_point start, std::chrono::milliseconds limit) {
  return std::chrono::steady_clock::now() - start < limit;
}

class AdminDescriptorsTest : public AdminEndpointTest {
 protected:
  // Clients that come one after the other have time, whatever else the machine does.
  AdminDescriptorsTest() : AdminEndpointTest({.request = kForEver}) {}
  using AdminEndpointTest::AdminEndpointTest;
  // Returns the answer of `fd` to a request, or the part that arrived in time before its end.
  std::string request(int fd) {
    const std::string text = "GET /hello HTTP/1.1\r\nHost: localhost\r\n\r\n";
    EXPECT_EQ(::send(fd, text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
    std::string response;
    const auto start = std::chrono::steady_clock::now();
    bool is_open = true;
    while (is_open && !response.contains("hello\n") && is_within(start, kPatience)) {
      uv_run(&loop_, UV_RUN_NOWAIT);
      char buffer[4096];
      const ssize_t n = ::recv(fd, buffer, sizeof buffer, MSG_DONTWAIT);
      if (n > 0) response.append(buffer, static_cast<std::size_t>(n));
      is_open = n > 0 || (n < 0 && errno == EAGAIN);
    }
    return response;
  }
};

TEST_F(AdminDescriptorsTest, AcceptsAgainOnceThereAreDescriptors) {
  for (const bool has_connection : {false, true}) {
    ASSERT_TRUE(endpoint_.serve_at({kAnyPort}));
    const AdminAddress address = *parse_admin_address(address_of(endpoint_));
    const int kept = connect_to(address);
    if (has_connection) {
      EXPECT_THAT(request(kept), HasSubstr("hello\n"));
    }
    const int waiting = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const std::uint64_t before = endpoint_.counters().accept_failures;
    {
      const test::FewDescriptors none(0);
      ASSERT_TRUE(connect(waiting, address));
      const auto start = std::chrono::steady_clock::now();
      while (endpoint_.counters().accept_failures < before + 2 && is_within(start, kPatience)) {
      }
      EXPECT_GE(endpoint_.counters().accept_failures, before + 2) << "tries again";
      EXPECT_FALSE(is_within(start, std::chrono::milliseconds(50))) << "pauses, and does not spin";
    }
    EXPECT_THAT(request(waiting), HasSubstr("hello\n")) << has_connection;
    ::close(waiting);
    ::close(kept);
    EXPECT_THAT(get(address_of(endpoint_)), HasSubstr("hello\n"));
  }
}

TEST_F(AdminDescriptorsTest, TheOldestIdleConnectionMakesRoomForANewOne) {
  ASSERT_TRUE(endpoint_.serve_at({kAnyPort}));
  const AdminAddress address = *parse_admin_address(address_of(endpoint_));
  std::vector<int> taken;
  for (unsigned i = 0; i < HttpServer::kMaxConnections; ++i) taken.push_back(connect_to(address));
  for (const int fd : taken) EXPECT_THAT(request(fd), HasSubstr("hello\n"));
  const int late = connect_to(address);
  EXPECT_THAT(request(late), HasSubstr("hello\n"));
  EXPECT_EQ(endpoint_.counters().evicted, 1U);
  pollfd ended{.fd = taken.front(), .events = POLLRDHUP, .revents = 0};
  EXPECT_EQ(::poll(&ended, 1, 1'000), 1);
  for (const int fd : taken) ::close(fd);
  ::close(late);
}

// A client that sends many requests at once must not keep its place for all of them.
TEST_F(AdminDescriptorsTest, AnswersOneRequestOfAConnectionWhileOthersWait) {
  ASSERT_TRUE(endpoint_.serve_at({kAnyPort}));
  const AdminAddress address = *parse_admin_address(address_of(endpoint_));
  std::vector<int> taken;
  for (unsigned i = 0; i < HttpServer::kMaxConnections; ++i) taken.push_back(connect_to(address));
  for (const int fd : taken) EXPECT_THAT(request(fd), Not(HasSubstr("Connection: close")));
  const int late = connect_to(address);
  EXPECT_THAT(request(late), HasSubstr("Connection: close"));
  EXPECT_THAT(request(taken.back()), HasSubstr("Connection: close"));
  for (const int fd : taken) ::close(fd);
  ::close(late);
}

class AdminPlaceTest : public AdminDescriptorsTest {
 protected:
  static constexpr std::chrono::milliseconds kPlace{500};
  AdminPlaceTest() : AdminDescriptorsTest({.request = kForEver, .place = kPlace}) {}
};

// A health check asks a moment after it has connected: those that connect meanwhile must wait.
TEST_F(AdminPlaceTest, NewConnectionsMakeNoRoomForOthers) {
  ASSERT_TRUE(endpoint_.serve_at({kAnyPort}));
  const AdminAddress address = *parse_admin_address(address_of(endpoint_));
  const auto start = std::chrono::steady_clock::now();
  std::vector<int> silent;
  for (unsigned i = 1; i < HttpServer::kMaxConnections; ++i) silent.push_back(connect_to(address));
  const int check = connect_to(address);
  const int late = connect_to(address);
  if (is_within(start, kPlace / 2)) {
    EXPECT_THAT(request(check), HasSubstr("hello\n"));
  }
  EXPECT_THAT(request(late), HasSubstr("hello\n"));
  EXPECT_FALSE(is_within(start, kPlace - std::chrono::milliseconds(50)));
  EXPECT_EQ(endpoint_.counters().evicted, 1U);
  for (const int fd : silent) ::close(fd);
  ::close(check);
  ::close(late);
}

// The owner's loop does not run in these: it is busy.
class AdminBusyOwnerTest : public AdminEndpointTest {
 protected:
  static constexpr std::chrono::milliseconds kHandler{300};
  AdminBusyOwnerTest() : AdminEndpointTest({.handler = kHandler}) {}

  int ask(const std::string& path) {
    const int fd = connect_to(*parse_admin_address(address_of(endpoint_)));
    const timeval patience{.tv_sec = 8, .tv_usec = 0};
    ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    const std::string text =
        "GET " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    EXPECT_EQ(::send(fd, text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
    return fd;
  }
  // The whole response; blocks.
  static std::string response(int fd) {
    std::string text;
    std::array<char, 4096> buffer{};
    // libuv's io_uring interrupts a read of the thread that owns the loop.
    for (ssize_t n = 1; n > 0 || (n < 0 && errno == EINTR);) {
      n = ::recv(fd, buffer.data(), buffer.size(), 0);
      if (n > 0) text.append(buffer.data(), static_cast<std::size_t>(n));
    }
    ::close(fd);
    return text;
  }
};

TEST_F(AdminBusyOwnerTest, StatusIsAnsweredAllTheSame) {
  ASSERT_TRUE(endpoint_.serve_at({kAnyPort}));
  EXPECT_THAT(response(ask("/status")), HasSubstr("status\n"));
  std::vector<int> waiting;
  for (unsigned i = 0; i < HttpServer::kMaxQueued; ++i) waiting.push_back(ask("/hello"));
  for (int i = 0; i < 200; ++i) EXPECT_THAT(response(ask("/status")), HasSubstr("status\n"));
  for (const int fd : waiting) EXPECT_THAT(response(fd), StartsWith("HTTP/1.1 503 "));
}

TEST_F(AdminBusyOwnerTest, RequestsEndAtADeadline) {
  ASSERT_TRUE(endpoint_.serve_at({kAnyPort}));
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THAT(response(ask("/hello")), StartsWith("HTTP/1.1 503 "));
  EXPECT_FALSE(is_within(start, kHandler - std::chrono::milliseconds(50)));
  EXPECT_EQ(endpoint_.counters().busy, 1U);
  // Its handler is skipped when the owner comes round to it, and others run again.
  uv_run(&loop_, UV_RUN_NOWAIT);
  EXPECT_THAT(get(address_of(endpoint_)), HasSubstr("hello\n"));
}

TEST_F(AdminBusyOwnerTest, RequestsBeyondTheQueueAreRefusedAtOnce) {
  ASSERT_TRUE(endpoint_.serve_at({kAnyPort}));
  std::vector<int> waiting;
  for (unsigned i = 0; i < 2 * HttpServer::kMaxQueued; ++i) waiting.push_back(ask("/hello"));
  for (const int fd : waiting) EXPECT_THAT(response(fd), StartsWith("HTTP/1.1 503 "));
  EXPECT_EQ(endpoint_.counters().busy, 2 * HttpServer::kMaxQueued);
}

TEST_F(AdminBusyOwnerTest, ClosesWhileRequestsWait) {
  for (int round = 0; round < 20; ++round) {
    ASSERT_TRUE(endpoint_.serve_at({kAnyPort}));
    std::vector<int> waiting;
    for (int i = 0; i < 4; ++i) waiting.push_back(ask(i % 2 == 0 ? "/hello" : "/large"));
    EXPECT_THAT(response(ask("/status")), HasSubstr("status\n"));
    if (round % 2 == 0) uv_run(&loop_, UV_RUN_NOWAIT);
    endpoint_.close();
    for (const int fd : waiting) ::close(fd);
  }
}

class AdminDeadlineTest : public AdminEndpointTest {
 protected:
  static constexpr std::chrono::milliseconds kRequest{100};
  static constexpr std::chrono::milliseconds kResponse{300};
  AdminDeadlineTest()
      : AdminEndpointTest({.request = kRequest,
                           .response = kResponse,
                           .bytes_per_second = std::size_t{1} << 40}) {}

  // Until the server ends the connection, doing `step` every millisecond; how long that took.
  std::chrono::milliseconds until_ended(int fd, const std::function<void()>& step) {
    const auto start = std::chrono::steady_clock::now();
    auto next_step = start;
    pollfd ended{.fd = fd, .events = POLLRDHUP, .revents = 0};
    while (::poll(&ended, 1, 0) == 0 && is_within(start, kPatience)) {
      uv_run(&loop_, UV_RUN_NOWAIT);
      if (std::chrono::steady_clock::now() < next_step) continue;
      next_step += std::chrono::milliseconds(1);
      step();
    }
    return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() -
                                                                 start);
  }
};

TEST_F(AdminDeadlineTest, EndsWhoSendsARequestSlowly) {
  ASSERT_TRUE(endpoint_.serve_at({kAnyPort}));
  const int fd = connect_to(*parse_admin_address(address_of(endpoint_)));
  const std::string begin = "GET /hello?x=";
  ::send(fd, begin.data(), begin.size(), MSG_NOSIGNAL);
  const auto took = until_ended(fd, [&] { ::send(fd, "x", 1, MSG_NOSIGNAL); });
  EXPECT_GE(took, kRequest - std::chrono::milliseconds(5));
  EXPECT_LT(took, kPatience);
  EXPECT_EQ(endpoint_.counters().overdue, 1U);
  ::close(fd);
}

TEST_F(AdminDeadlineTest, EndsWhoReadsAnAnswerSlowly) {
  ASSERT_TRUE(endpoint_.serve_at({kAnyPort}));
  const int fd = connect_to(*parse_admin_address(address_of(endpoint_)));
  const std::string request = "GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n";
  ::send(fd, request.data(), request.size(), MSG_NOSIGNAL);
  std::size_t read = 0;
  const auto took = until_ended(fd, [&] {
    std::array<char, 1'000> buffer{};
    const ssize_t n = ::recv(fd, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (n > 0) read += static_cast<std::size_t>(n);
  });
  EXPECT_GE(took, kResponse - std::chrono::milliseconds(5));
  EXPECT_LT(took, kPatience);
  EXPECT_GT(read, 0U);
  EXPECT_LT(read, kLargeBody);
  EXPECT_EQ(endpoint_.counters().overdue, 1U);
  ::close(fd);
}

TEST_F(AdminDeadlineTest, CountsEachRequestOfAConnectionByItself) {
  ASSERT_TRUE(endpoint_.serve_at({kAnyPort}));
  const int fd = connect_to(*parse_admin_address(address_of(endpoint_)));
  const std::string request = "GET /hello HTTP/1.1\r\nHost: localhost\r\n\r\n";
  const auto start = std::chrono::steady_clock::now();
  int answers = 0;
  while (is_within(start, 2 * kResponse)) {
    ASSERT_EQ(::send(fd, request.data(), request.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(request.size()))
        << "after " << answers;
    std::string response;
    while (!response.contains("hello\n")) {
      uv_run(&loop_, UV_RUN_NOWAIT);
      std::array<char, 1'000> buffer{};
      const ssize_t n = ::recv(fd, buffer.data(), buffer.size(), MSG_DONTWAIT);
      ASSERT_TRUE(n > 0 || (n < 0 && errno == EAGAIN)) << "after " << answers;
      if (n > 0) response.append(buffer.data(), static_cast<std::size_t>(n));
    }
    ++answers;
  }
  EXPECT_EQ(endpoint_.counters().overdue, 0U);
  ::close(fd);
}

TEST_F(AdminEndpointTest, ServesOnAUnixSocketForItsOwnerAndGroup) {
  const AdminAddress address = socket_path("admin.sock");
  ASSERT_TRUE(endpoint_.serve_at({address}));
  EXPECT_EQ(address_of(endpoint_), to_string(address));
  EXPECT_THAT(get(address_of(endpoint_)), HasSubstr("hello"));
  struct stat status{};
  ASSERT_EQ(::stat((directory_ / "admin.sock").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0660U);
  endpoint_.close();
  EXPECT_FALSE(std::filesystem::exists(directory_ / "admin.sock"));
}

TEST_F(AdminEndpointTest, ReplacesASocketThatAKilledProcessLeftBehind) {
  const AdminAddress address = socket_path("admin.sock");
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  std::get<UnixAddress>(address).path.copy(name.sun_path, sizeof name.sun_path - 1);
  ASSERT_EQ(::bind(fd, reinterpret_cast<const sockaddr*>(&name), sizeof name), 0);
  ::close(fd);
  ASSERT_TRUE(endpoint_.serve_at({address}));
  EXPECT_THAT(get(address_of(endpoint_)), HasSubstr("hello"));
}

TEST_F(AdminEndpointTest, ReplacesNeitherAFileNorTheSocketOfAnother) {
  std::ofstream(directory_ / "file") << "precious";
  const auto opened = endpoint_.serve_at({socket_path("file")});
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message, HasSubstr("admin.listen: cannot bind unix:"));
  EXPECT_THAT(opened.error().message, testing::EndsWith("Address already in use; it is a file"));
  EXPECT_TRUE(std::filesystem::exists(directory_ / "file"));

  AdminEndpoint other(&loop_, "admin.listen", routes);
  ASSERT_TRUE(other.serve_at({socket_path("taken")}));
  EXPECT_FALSE(endpoint_.serve_at({socket_path("taken")}));
  EXPECT_THAT(get(address_of(other)), HasSubstr("hello"));
}

TEST_F(AdminEndpointTest, KeepsTheOldAddressWhenTheNewOneCannotBeBound) {
  ASSERT_TRUE(endpoint_.serve_at({kAnyPort}));
  const std::string before = address_of(endpoint_);
  EXPECT_FALSE(endpoint_.serve_at({socket_path("no/such/directory")}));
  EXPECT_EQ(address_of(endpoint_), before);
  EXPECT_THAT(get(before), HasSubstr("hello"));
}

// Both cannot be bound at a time, so that the old one has to go first, and come back.
TEST_F(AdminEndpointTest, KeepsTheOldAddressWhenANewOneOfTheSamePortCannotBeBound) {
  ASSERT_TRUE(endpoint_.serve_at({kAnyPort}));
  const std::string before = address_of(endpoint_);
  SocketAddress same_port = std::get<SocketAddress>(*parse_admin_address(before));
  same_port.ip = *IpAddress::parse("192.0.2.1");  // of no interface
  // The address of port 0 is bound anew under the port that the kernel chooses then.
  EXPECT_FALSE(endpoint_.serve_at({AdminAddress(same_port)}));
  EXPECT_THAT(get(address_of(endpoint_)), HasSubstr("hello"));
}

TEST_F(AdminEndpointTest, MovesToAnAddressThatOverlapsWithTheOldOne) {
  ASSERT_TRUE(endpoint_.serve_at({kAnyPort}));
  SocketAddress wider = std::get<SocketAddress>(*parse_admin_address(address_of(endpoint_)));
  wider.ip = *IpAddress::parse("0.0.0.0");
  ASSERT_TRUE(endpoint_.serve_at({AdminAddress(wider)}));
  EXPECT_THAT(address_of(endpoint_), StartsWith("0.0.0.0:"));
  EXPECT_THAT(get("127.0.0.1:" + std::to_string(wider.port)), HasSubstr("hello"));
}

TEST_F(AdminEndpointTest, MovesToAnAddressThatOverlapsWithSeveralOldOnes) {
  const SocketAddress two = *parse_socket_address("127.0.0.2:0");
  ASSERT_TRUE(endpoint_.serve_at({AdminAddress(two)}));
  SocketAddress one = std::get<SocketAddress>(endpoint_.addresses().front());
  one.ip = *IpAddress::parse("127.0.0.1");
  ASSERT_TRUE(endpoint_.serve_at({AdminAddress(two), AdminAddress(one)}));
  SocketAddress both = one;
  both.ip = *IpAddress::parse("0.0.0.0");
  ASSERT_TRUE(endpoint_.serve_at({AdminAddress(both)}));
  ASSERT_EQ(endpoint_.addresses().size(), 1U);
  for (const char* const host : {"127.0.0.1:", "127.0.0.2:"})
    EXPECT_THAT(get(host + std::to_string(both.port)), HasSubstr("hello"));
}

TEST_F(AdminEndpointTest, MovesToAnotherSpellingOfItsPath) {
  ASSERT_TRUE(endpoint_.serve_at({socket_path("own")}));
  std::filesystem::create_directory_symlink(directory_, directory_ / "link");
  ASSERT_TRUE(endpoint_.serve_at({socket_path("link/own")}));
  EXPECT_EQ(endpoint_.addresses().size(), 1U);
  EXPECT_THAT(get(to_string(socket_path("own"))), HasSubstr("hello"));
}

TEST_F(AdminEndpointTest, LeavesOnlyTheAddressesThatOthersNeed) {
  ASSERT_TRUE(endpoint_.serve_at({socket_path("own"), kAnyPort}));
  endpoint_.leave({socket_path("other"), AdminAddress(*parse_socket_address("127.0.0.1:0"))});
  ASSERT_EQ(endpoint_.addresses().size(), 2U);
  endpoint_.leave({endpoint_.addresses().back()});
  ASSERT_EQ(endpoint_.addresses().size(), 1U);
  EXPECT_THAT(get(to_string(socket_path("own"))), HasSubstr("hello"));
}

TEST_F(AdminEndpointTest, ServesAtEachAddressOfAList) {
  ASSERT_TRUE(endpoint_.serve_at({socket_path("own"), kAnyPort}));
  const auto before = endpoint_.addresses();
  ASSERT_EQ(before.size(), 2U);
  for (const auto& address : before) EXPECT_THAT(get(to_string(address)), HasSubstr("hello"));
  ASSERT_TRUE(endpoint_.serve_at({kAnyPort, socket_path("new")}));
  EXPECT_EQ(get(to_string(before.front())), "");
  EXPECT_THAT(get(to_string(before.back())), HasSubstr("hello")) << "keeps its port";
  EXPECT_THAT(get(to_string(socket_path("new"))), HasSubstr("hello"));
}

TEST_F(AdminEndpointTest, ServesAtAllOtherAddressesWhenOneCannotBeBound) {
  ASSERT_TRUE(endpoint_.serve_at({socket_path("old")}));
  const auto opened = endpoint_.serve_at({socket_path("no/such"), socket_path("new")});
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message, HasSubstr("no/such"));
  EXPECT_THAT(opened.error().message, Not(HasSubstr("/new")));
  for (const char* const name : {"old", "new"})
    EXPECT_THAT(get(to_string(socket_path(name))), HasSubstr("hello")) << name;
  ASSERT_TRUE(endpoint_.serve_at({socket_path("new")}));
  EXPECT_FALSE(std::filesystem::exists(directory_ / "old"));
}

TEST_F(AdminEndpointTest, TakesOverThePathsOfTheProcessThatLeavesAndOfNoOther) {
  AdminEndpoint leaving(&loop_, "admin.listen", routes);
  ASSERT_TRUE(leaving.serve_at({socket_path("admin"), kAnyPort}));
  const std::string port = to_string(leaving.addresses().back());
  endpoint_.replace(::getppid());
  EXPECT_FALSE(endpoint_.serve_at({socket_path("admin")}));
  endpoint_.replace(::getpid());
  ASSERT_TRUE(endpoint_.serve_at({socket_path("admin")}));
  leaving.close_ports();
  EXPECT_EQ(get(port), "");
  EXPECT_EQ(leaving.addresses().size(), 1U) << "its Unix socket stays open";
  leaving.close();
  EXPECT_THAT(get(to_string(socket_path("admin"))), HasSubstr("hello"));
}

TEST_F(AdminEndpointTest, OpensAUnixSocketAnewWhosePathIsGone) {
  ASSERT_TRUE(endpoint_.serve_at({socket_path("admin")}));
  std::filesystem::remove(directory_ / "admin");
  ASSERT_TRUE(endpoint_.serve_at({socket_path("admin")}));
  EXPECT_THAT(get(to_string(socket_path("admin"))), HasSubstr("hello"));
}

TEST_F(AdminEndpointTest, TurnsItselfOff) {
  ASSERT_TRUE(endpoint_.serve_at({kAnyPort}));
  const std::string before = address_of(endpoint_);
  ASSERT_TRUE(endpoint_.serve_at({}));
  EXPECT_EQ(address_of(endpoint_), "off");
  EXPECT_EQ(get(before), "");
}

TEST_F(AdminEndpointTest, TakesAPostOnlyWhereItIsMeant) {
  ASSERT_TRUE(endpoint_.serve_at({kAnyPort}));
  EXPECT_THAT(post("Host: localhost\r\n"), HasSubstr("changed to x"));
  EXPECT_THAT(post("Host: localhost\r\nContent-Length: 0\r\n"), HasSubstr("changed to x"));
  EXPECT_THAT(post("Host: localhost\r\nContent-Length: 3\r\n"), StartsWith("HTTP/1.1 413 "));
  const std::string got =
      exchange(*parse_admin_address(address_of(endpoint_)),
               "GET /change?to=x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(got, StartsWith("HTTP/1.1 405 "));
  EXPECT_THAT(got, HasSubstr("Allow: POST\r\n"));
}

TEST_F(AdminEndpointTest, RefusesHostsThatAreNotItsOwn) {
  ASSERT_TRUE(endpoint_.serve_at({kAnyPort}));
  const auto ask = [&](const std::string& headers) {
    return exchange(*parse_admin_address(address_of(endpoint_)),
                    "GET /status HTTP/1.1\r\nConnection: close\r\n" + headers + "\r\n");
  };
  EXPECT_THAT(ask("Host: [::1]:15054\r\n"), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(ask("Host: [::1].example.org\r\n"), StartsWith("HTTP/1.1 403 "));
  EXPECT_THAT(ask("Host:\r\n"), StartsWith("HTTP/1.1 403 "));
  EXPECT_THAT(ask(""), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(ask("Host: localhost\r\nhost: example.org\r\n"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(ask("Host: localhost\r\nHost: localhost\r\n"), StartsWith("HTTP/1.1 400 "));
}

// A page of elsewhere can make a browser send a POST to us, but not lie about where it comes from.
TEST_F(AdminEndpointTest, RefusesAPostFromAnotherOrigin) {
  ASSERT_TRUE(endpoint_.serve_at({kAnyPort}));
  const std::string own = address_of(endpoint_);
  EXPECT_THAT(post("Host: " + own + "\r\nOrigin: http://" + own + "\r\n"),
              HasSubstr("changed to x"));
  for (const std::string& origin :
       {std::string("http://evil.example.org"), std::string("null"),
        std::string("http://localhost"), "https://" + own, "http://" + own + ".example.org"})
    EXPECT_THAT(post("Host: " + own + "\r\nOrigin: " + origin + "\r\n"),
                StartsWith("HTTP/1.1 403 "))
        << origin;
}

}  // namespace
}  // namespace meshdns::dnsd
