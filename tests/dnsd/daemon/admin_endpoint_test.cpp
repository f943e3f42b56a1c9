#include "dnsd/daemon/admin_endpoint.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace meshdns::dnsd {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

const AdminAddress kAnyPort = SocketAddress{*IpAddress::parse("127.0.0.1"), 0, ""};

class AdminEndpointTest : public testing::Test {
 public:
  AdminEndpointTest() {
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
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&name), size) == 0) return fd;
    ::close(fd);
    return -1;
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
    return exchange(*parse_admin_address(endpoint_.address()),
                    "POST /change?to=x HTTP/1.1\r\nConnection: close\r\n" + headers + "\r\n");
  }
  static HttpRoutes routes() {
    HttpRoutes routes;
    routes["/hello"].get = [](const HttpRequest&) { return HttpResponse{.body = "hello\n"}; };
    routes["/change"].post = [](const HttpRequest& request) {
      return HttpResponse{.body = "changed to " + std::string(request.argument("to"))};
    };
    return routes;
  }

  uv_loop_t loop_{};
  std::filesystem::path directory_;
  AdminEndpoint endpoint_{&loop_, routes};
};

TEST_F(AdminEndpointTest, ServesOnAUnixSocketForItsOwnerAndGroup) {
  const AdminAddress address = socket_path("admin.sock");
  ASSERT_TRUE(endpoint_.serve_at(address));
  EXPECT_EQ(endpoint_.address(), to_string(address));
  EXPECT_THAT(get(endpoint_.address()), HasSubstr("hello"));
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
  ASSERT_TRUE(endpoint_.serve_at(address));
  EXPECT_THAT(get(endpoint_.address()), HasSubstr("hello"));
}

TEST_F(AdminEndpointTest, ReplacesNeitherAFileNorTheSocketOfAnother) {
  std::ofstream(directory_ / "file") << "precious";
  const auto opened = endpoint_.serve_at(socket_path("file"));
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message, HasSubstr("admin.listen: cannot bind unix:"));
  EXPECT_TRUE(std::filesystem::exists(directory_ / "file"));

  AdminEndpoint other(&loop_, routes);
  ASSERT_TRUE(other.serve_at(socket_path("taken")));
  EXPECT_FALSE(endpoint_.serve_at(socket_path("taken")));
  EXPECT_THAT(get(other.address()), HasSubstr("hello"));
}

TEST_F(AdminEndpointTest, KeepsTheOldAddressWhenTheNewOneCannotBeBound) {
  ASSERT_TRUE(endpoint_.serve_at(kAnyPort));
  const std::string before = endpoint_.address();
  EXPECT_FALSE(endpoint_.serve_at(socket_path("no/such/directory")));
  EXPECT_EQ(endpoint_.address(), before);
  EXPECT_THAT(get(before), HasSubstr("hello"));
}

// Both cannot be bound at a time, so that the old one has to go first, and come back.
TEST_F(AdminEndpointTest, KeepsTheOldAddressWhenANewOneOfTheSamePortCannotBeBound) {
  ASSERT_TRUE(endpoint_.serve_at(kAnyPort));
  const std::string before = endpoint_.address();
  SocketAddress same_port = std::get<SocketAddress>(*parse_admin_address(before));
  same_port.ip = *IpAddress::parse("192.0.2.1");  // of no interface
  // The address of port 0 is bound anew under the port that the kernel chooses then.
  EXPECT_FALSE(endpoint_.serve_at(AdminAddress(same_port)));
  EXPECT_THAT(get(endpoint_.address()), HasSubstr("hello"));
}

TEST_F(AdminEndpointTest, MovesToAnAddressThatOverlapsWithTheOldOne) {
  ASSERT_TRUE(endpoint_.serve_at(kAnyPort));
  SocketAddress wider = std::get<SocketAddress>(*parse_admin_address(endpoint_.address()));
  wider.ip = *IpAddress::parse("0.0.0.0");
  ASSERT_TRUE(endpoint_.serve_at(AdminAddress(wider)));
  EXPECT_THAT(endpoint_.address(), StartsWith("0.0.0.0:"));
  EXPECT_THAT(get("127.0.0.1:" + std::to_string(wider.port)), HasSubstr("hello"));
}

TEST_F(AdminEndpointTest, TurnsItselfOff) {
  ASSERT_TRUE(endpoint_.serve_at(kAnyPort));
  const std::string before = endpoint_.address();
  ASSERT_TRUE(endpoint_.serve_at(std::nullopt));
  EXPECT_EQ(endpoint_.address(), "off");
  EXPECT_EQ(get(before), "");
}

TEST_F(AdminEndpointTest, TakesAPostOnlyWhereItIsMeant) {
  ASSERT_TRUE(endpoint_.serve_at(kAnyPort));
  EXPECT_THAT(post("Host: localhost\r\n"), HasSubstr("changed to x"));
  EXPECT_THAT(post("Host: localhost\r\nContent-Length: 0\r\n"), HasSubstr("changed to x"));
  EXPECT_THAT(post("Host: localhost\r\nContent-Length: 3\r\n"), StartsWith("HTTP/1.1 413 "));
  const std::string got =
      exchange(*parse_admin_address(endpoint_.address()),
               "GET /change?to=x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(got, StartsWith("HTTP/1.1 405 "));
  EXPECT_THAT(got, HasSubstr("Allow: POST\r\n"));
}

// A page of elsewhere can make a browser send a POST to us, but not lie about where it comes from.
TEST_F(AdminEndpointTest, RefusesAPostFromAnotherOrigin) {
  ASSERT_TRUE(endpoint_.serve_at(kAnyPort));
  const std::string own = endpoint_.address();
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
