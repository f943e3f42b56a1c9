// SPDX-License-Identifier: Apache-2.0
#include "dnsd/cli/admin_client.hpp"

#include <curl/curl.h>
#include <pwd.h>
#include <rapidjson/document.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>
#include <variant>

#include "dnsd/config/values.hpp"

namespace meshdns::dnsd {
namespace {

constexpr std::chrono::milliseconds kConnectLimit{3'000};
constexpr std::size_t kMaxReply = std::size_t{64} << 20;

struct EndTransfer {
  void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
};
struct FreeHeaders {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};

std::size_t append_reply(char* data, std::size_t /*one*/, std::size_t size, void* to) {
  auto& body = *static_cast<std::string*>(to);
  if (body.size() + size > kMaxReply) return 0;  // ends the transfer
  body.append(data, size);
  return size;
}

// Libcurl says that it "failed to connect to localhost port 80", also of a Unix socket.
AdminFailure connection_failure(CURL* easy, const std::string& place, const char* of_libcurl) {
  long error = 0;
  curl_easy_getinfo(easy, CURLINFO_OS_ERRNO, &error);
  const auto reason = [&]() -> std::string {
    if (error == 0) return of_libcurl;
    std::string text = std::strerror(static_cast<int>(error));
    if (error == ECONNREFUSED) return text + ": no process listens";
    if (error == EACCES) return text + ": it is for root and the group meshdns";
    return text;
  };
  return {{place + ": " + reason()}, error == ECONNREFUSED || error == ENOENT};
}

bool may_all_write_above(std::filesystem::path path) {
  while (path.has_relative_path()) {
    path = path.parent_path();
    struct stat status{};
    if (::stat(path.c_str(), &status) == 0 && (status.st_mode & S_IWOTH) != 0) return true;
  }
  return false;
}

// Returns whether any user may have made a socket at the path, as it is written or behind its
// links.
bool is_for_all(const std::string& path) {
  std::error_code error;
  const auto real = std::filesystem::weakly_canonical(path, error);
  return may_all_write_above(path) || error || may_all_write_above(real);
}

bool is_trusted(uid_t user) {
  if (user == 0 || user == ::geteuid()) return true;
  const passwd* const service = ::getpwnam(kServiceUser);
  return service != nullptr && service->pw_uid == user;
}

// The socket of a request, and why its other end is not asked; empty: it is.
struct CheckedPeer {
  curl_socket_t fd = CURL_SOCKET_BAD;
  std::string objection;
};

curl_socket_t open_checked(void* peer, curlsocktype /*purpose*/, curl_sockaddr* address) {
  const int fd = ::socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
  return static_cast<CheckedPeer*>(peer)->fd = fd;
}

int check_peer(void* to, char* /*ip*/, char* /*local_ip*/, int /*port*/, int /*local_port*/) {
  auto& peer = *static_cast<CheckedPeer*>(to);
  ucred other{};
  socklen_t size = sizeof other;
  if (::getsockopt(peer.fd, SOL_SOCKET, SO_PEERCRED, &other, &size) != 0)
    peer.objection = std::strerror(errno);
  else if (!is_trusted(other.uid))
    peer.objection = "is not asked: the process there is of user " + std::to_string(other.uid) +
                     ", who is neither root nor " + kServiceUser +
                     " nor you, and every user may write to a directory of the path";
  return peer.objection.empty() ? CURL_PREREQFUNC_OK : CURL_PREREQFUNC_ABORT;
}

}  // namespace

std::vector<AdminAddress> in_order_of_use(std::vector<AdminAddress> addresses) {
  std::ranges::stable_partition(addresses, is_unix);
  return addresses;
}

std::string error_text(const AdminReply& reply) {
  rapidjson::Document document;
  std::string text = reply.body;
  if (!document.Parse(text.data(), text.size()).HasParseError() && document.IsObject())
    if (const auto error = document.FindMember("error");
        error != document.MemberEnd() && error->value.IsString())
      text = {error->value.GetString(), error->value.GetStringLength()};
  text.erase(text.find_last_not_of('\n') + 1);
  return text;
}

AdminResult AdminClient::send(const std::string& target, bool is_post) const {
  const std::unique_ptr<CURL, EndTransfer> easy(curl_easy_init());
  if (!easy) return std::unexpected(AdminFailure{{"cannot start an HTTP request"}});
  std::string host = "localhost";
  if (const auto* ip = std::get_if<SocketAddress>(&address_)) host = ip->to_string();
  const std::string url = "http://" + host + target;
  AdminReply reply;
  std::array<char, CURL_ERROR_SIZE> problem{};
  std::unique_ptr<curl_slist, FreeHeaders> headers;
  curl_easy_setopt(easy.get(), CURLOPT_URL, url.c_str());
  curl_easy_setopt(easy.get(), CURLOPT_NOPROXY, "*");
  curl_easy_setopt(easy.get(), CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy.get(), CURLOPT_CONNECTTIMEOUT_MS,
                   static_cast<long>(std::min(kConnectLimit, limit_).count()));
  curl_easy_setopt(easy.get(), CURLOPT_TIMEOUT_MS, static_cast<long>(limit_.count()));
  curl_easy_setopt(easy.get(), CURLOPT_ERRORBUFFER, problem.data());
  curl_easy_setopt(easy.get(), CURLOPT_WRITEFUNCTION, append_reply);
  curl_easy_setopt(easy.get(), CURLOPT_WRITEDATA, &reply.body);
  CheckedPeer peer;
  if (const auto* unix_socket = std::get_if<UnixAddress>(&address_)) {
    curl_easy_setopt(easy.get(), CURLOPT_UNIX_SOCKET_PATH, unix_socket->path.c_str());
    if (is_for_all(unix_socket->path)) {
      curl_easy_setopt(easy.get(), CURLOPT_OPENSOCKETFUNCTION, open_checked);
      curl_easy_setopt(easy.get(), CURLOPT_OPENSOCKETDATA, &peer);
      curl_easy_setopt(easy.get(), CURLOPT_PREREQFUNCTION, check_peer);
      curl_easy_setopt(easy.get(), CURLOPT_PREREQDATA, &peer);
    }
  }
  if (is_post) {
    curl_easy_setopt(easy.get(), CURLOPT_POST, 1L);
    curl_easy_setopt(easy.get(), CURLOPT_POSTFIELDSIZE, 0L);
    curl_easy_setopt(easy.get(), CURLOPT_POSTFIELDS, "");
  }
  if (!token_.empty() && !is_unix(address_)) {
    headers.reset(curl_slist_append(nullptr, ("Authorization: Bearer " + token_).c_str()));
    curl_easy_setopt(easy.get(), CURLOPT_HTTPHEADER, headers.get());
  }
  const CURLcode code = curl_easy_perform(easy.get());
  const std::string place = to_string(address_);
  const char* const why = problem[0] != '\0' ? problem.data() : curl_easy_strerror(code);
  if (!peer.objection.empty())
    return std::unexpected(AdminFailure{{place + ": " + peer.objection}});
  if (code == CURLE_OPERATION_TIMEDOUT)
    return std::unexpected(AdminFailure{{place + ": no reply within " + format_duration(limit_)}});
  if (code == CURLE_COULDNT_CONNECT)
    return std::unexpected(connection_failure(easy.get(), place, why));
  if (code != CURLE_OK) return std::unexpected(AdminFailure{{place + ": " + why}});
  curl_easy_getinfo(easy.get(), CURLINFO_RESPONSE_CODE, &reply.status);
  return reply;
}

}  // namespace meshdns::dnsd
