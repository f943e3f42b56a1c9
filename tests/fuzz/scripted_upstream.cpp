// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/scripted_upstream.hpp"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <string_view>
#include <utility>

#include "tests/fuzz/require.hpp"
#include "tests/fuzz/scripted_network.hpp"

namespace meshdns::fuzz {
namespace {

using Octets = std::vector<std::uint8_t>;

constexpr std::uint16_t kFirstPort = 5300;
constexpr std::size_t kFirstTls = 3;
constexpr std::size_t kHeader = 12;
constexpr std::size_t kMaxQueries = 256;
constexpr char kServerCookie[] = "\x01servercookie123";

// A certificate for dns.example.org that vouches for itself, for the life of the process.
class Authority {
 public:
  Authority() {
    std::signal(SIGPIPE, SIG_IGN);
    key_ = EVP_EC_gen("P-256");
    certificate_ = X509_new();
    X509_set_version(certificate_, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate_), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate_), -3600);
    X509_gmtime_adj(X509_getm_notAfter(certificate_), 365 * 86400);
    X509_set_pubkey(certificate_, key_);
    X509_NAME* const name = X509_get_subject_name(certificate_);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>("test"), -1, -1, 0);
    X509_set_issuer_name(certificate_, name);
    for (const auto& [nid, value] : {std::pair{NID_subject_alt_name, "DNS:dns.example.org"},
                                     std::pair{NID_basic_constraints, "critical,CA:TRUE"}}) {
      X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, nullptr, nid, value);
      X509_add_ext(certificate_, extension, -1);
      X509_EXTENSION_free(extension);
    }
    X509_sign(certificate_, key_, EVP_sha256());
    context_ = SSL_CTX_new(TLS_server_method());
    SSL_CTX_use_certificate(context_, certificate_);
    SSL_CTX_use_PrivateKey(context_, key_);
    file_ = memfd_create("authority", 0);
    std::FILE* const out = fdopen(dup(file_), "w");
    PEM_write_X509(out, certificate_);
    std::fclose(out);
  }
  SSL_CTX* context() const { return context_; }
  std::string path() const { return "/proc/self/fd/" + std::to_string(file_); }

  // Never destroyed: sessions may be left when the process ends.
  static const Authority& get() {
    static const Authority& authority = *new Authority;
    return authority;
  }

 private:
  EVP_PKEY* key_;
  X509* certificate_;
  SSL_CTX* context_;
  int file_;
};

void append(Octets& out, std::string_view text) { out.insert(out.end(), text.begin(), text.end()); }

std::size_t end_of_question(const Octets& query) {
  std::size_t at = kHeader;
  while (at < query.size() && query[at] != 0) at += 1u + query[at];
  require(at + 5 <= query.size());
  return at + 5;
}

// The client cookie of the query; empty if it has none.  Ours is the first option.
std::string client_cookie(const Octets& query) {
  const std::size_t option = end_of_question(query) + 11;
  if (query.size() < option + 12 || query[option] != 0 || query[option + 1] != 10) return {};
  return {query.begin() + static_cast<std::ptrdiff_t>(option) + 4,
          query.begin() + static_cast<std::ptrdiff_t>(option) + 12};
}

void add_opt(Octets& message, std::string_view cookie, std::uint8_t extended_rcode) {
  const auto size = static_cast<std::uint8_t>(cookie.empty() ? 0 : 4 + cookie.size());
  append(message, {"\0\0\x29\x04\xd0", 5});
  message.insert(message.end(), {extended_rcode, 0, 0, 0, 0, size});
  if (!cookie.empty())
    message.insert(message.end(), {0, 10, 0, static_cast<std::uint8_t>(size - 4)});
  append(message, cookie);
  ++message[11];
}

Octets make_reply(const Octets& query, const Reply& reply) {
  using Kind = Reply::Kind;
  const std::size_t question = end_of_question(query);
  Octets out(query.begin(), query.begin() + static_cast<std::ptrdiff_t>(question));
  const bool has_opt = query[11] == 1;
  const std::string cookie = client_cookie(query);
  out[2] = static_cast<std::uint8_t>(out[2] | 0x80);
  out[3] = 0x80;
  std::fill(out.begin() + 6, out.begin() + 12, std::uint8_t{0});
  const auto set_rcode = [&](std::uint8_t rcode) { out[3] = 0x80 | rcode; };
  const auto add_address = [&] {
    const bool is_v4 = out[question - 3] == 1;
    append(out, {"\xc0\x0c\0", 3});
    out.push_back(is_v4 ? 1 : 28);
    append(out, {"\0\x01\0\0\0\x05\0", 7});
    out.push_back(is_v4 ? 4 : 16);
    out.insert(out.end(), is_v4 ? 4u : 16u, std::uint8_t{0x20});
    out[7] = 1;
  };
  switch (reply.kind) {
    case Kind::Answer:
    case Kind::AnswerWithCookie:
    case Kind::ForeignCookie:
      add_address();
      break;
    case Kind::Truncated:
      out[2] |= 0x02;
      break;
    case Kind::NxDomain:
      set_rcode(3);
      break;
    case Kind::ServFail:
      set_rcode(2);
      break;
    case Kind::Refused:
      set_rcode(5);
      break;
    case Kind::FormErrWithoutEdns:
      set_rcode(1);
      return out;
    case Kind::BareFormErr:
      set_rcode(1);
      out.resize(kHeader);
      out[5] = 0;
      return out;
    case Kind::WrongId:
      add_address();
      out[0] ^= 1;
      break;
    case Kind::WrongName:
      out[kHeader + 1] ^= 1;
      break;
    case Kind::LowerCase:
      for (std::size_t i = kHeader; i < question - 5; ++i)
        if (out[i] >= 'A' && out[i] <= 'Z') out[i] |= 0x20;
      add_address();
      break;
    case Kind::Garbled:
      add_address();
      out[reply.octet % out.size()] ^= 0x41;
      return out;
    case Kind::Cut:
      add_address();
      out.resize(out.size() - 3);
      return out;
    case Kind::Empty:
      return {};
    case Kind::BadCookie:
      set_rcode(7);
      if (has_opt) add_opt(out, cookie.empty() ? cookie : cookie + kServerCookie, 1);
      return out;
  }
  if (!has_opt) return out;
  if (reply.kind == Kind::ForeignCookie)
    add_opt(out, "strange!", 0);
  else if (reply.kind == Kind::AnswerWithCookie && !cookie.empty())
    add_opt(out, cookie + kServerCookie, 0);
  else
    add_opt(out, {}, 0);
  return out;
}

}  // namespace

struct ScriptedUpstreams::Link {
  explicit Link(const ScriptedNetwork::Peer& peer) : fd(peer.fd), is_stream(peer.is_stream) {
    if (peer.port < kFirstPort + kFirstTls) return;
    tls = SSL_new(Authority::get().context());
    SSL_set_bio(tls, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    SSL_set_accept_state(tls);
  }
  ~Link() {
    end();
    SSL_free(tls);
  }
  void end() {
    if (fd >= 0) ScriptedNetwork::get().close_peer(std::exchange(fd, -1));
  }
  void write(const Octets& octets) const {
    if (fd >= 0) ::send(fd, octets.data(), octets.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  void write_sealed() const {
    Octets records(static_cast<std::size_t>(BIO_pending(SSL_get_wbio(tls))));
    if (records.empty()) return;
    BIO_read(SSL_get_wbio(tls), records.data(), static_cast<int>(records.size()));
    write(records);
  }
  void send(const Octets& message, bool in_pieces) {
    if (!is_stream) return write(message);
    Octets framed = std::exchange(held, {});
    framed.push_back(static_cast<std::uint8_t>(message.size() >> 8));
    framed.push_back(static_cast<std::uint8_t>(message.size()));
    framed.insert(framed.end(), message.begin(), message.end());
    if (in_pieces) {
      const auto half = framed.begin() + static_cast<std::ptrdiff_t>(framed.size() / 2);
      held.assign(half, framed.end());
      framed.erase(half, framed.end());
    }
    if (tls == nullptr) return write(framed);
    if (SSL_is_init_finished(tls) != 0)
      SSL_write(tls, framed.data(), static_cast<int>(framed.size()));
    ERR_clear_error();
    write_sealed();
  }

  int fd;  // -1 = ended
  const bool is_stream;
  SSL* tls = nullptr;
  Octets in;
  Octets held;
};

ScriptedUpstreams::ScriptedUpstreams() = default;
ScriptedUpstreams::~ScriptedUpstreams() = default;

std::uint16_t ScriptedUpstreams::port(std::size_t number) {
  return static_cast<std::uint16_t>(kFirstPort + number);
}

dnsd::UpstreamServer ScriptedUpstreams::server(std::size_t number) {
  const std::string address = "127.0.0.1:" + std::to_string(port(number));
  return number < kFirstTls ? *dnsd::parse_upstream_server(address)
                            : *dnsd::parse_upstream_server("tls://" + address + "#dns.example.org");
}

std::string ScriptedUpstreams::authority() { return Authority::get().path(); }

bool ScriptedUpstreams::receive() {
  bool some = false;
  for (const auto& peer : ScriptedNetwork::get().accepted()) {
    links_.push_back(std::make_shared<Link>(peer));
    some = true;
  }
  for (const auto& link : links_) some |= receive(link);
  std::erase_if(links_, [](const auto& link) { return link->fd < 0; });
  std::erase_if(queries_, [](const Query& query) { return query.link.expired(); });
  return some;
}

bool ScriptedUpstreams::receive(const std::shared_ptr<Link>& link) {
  bool some = false;
  std::array<std::uint8_t, 4096> octets;
  while (link->fd >= 0) {
    const ssize_t got = ::recv(link->fd, octets.data(), octets.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN) {
      if (ScriptedNetwork::get().is_left(link->fd)) link->end();
      break;
    }
    some = true;
    if (got <= 0) {
      link->end();
      break;
    }
    if (!link->is_stream) {
      queries_.push_back({link, Octets(octets.begin(), octets.begin() + got)});
    } else if (link->tls == nullptr) {
      link->in.insert(link->in.end(), octets.begin(), octets.begin() + got);
    } else {
      BIO_write(SSL_get_rbio(link->tls), octets.data(), static_cast<int>(got));
    }
  }
  if (link->tls != nullptr && handshakes_ && link->fd >= 0) {
    int size = 0;
    while ((size = SSL_read(link->tls, octets.data(), static_cast<int>(octets.size()))) > 0) {
      link->in.insert(link->in.end(), octets.begin(), octets.begin() + size);
      some = true;
    }
    ERR_clear_error();
    link->write_sealed();
  }
  take_frames(link);
  if (queries_.size() > kMaxQueries)
    queries_.erase(queries_.begin(), queries_.end() - static_cast<std::ptrdiff_t>(kMaxQueries));
  return some;
}

void ScriptedUpstreams::take_frames(const std::shared_ptr<Link>& link) {
  Octets& in = link->in;
  while (in.size() >= 2) {
    const std::size_t size = std::size_t{in[0]} << 8 | in[1];
    if (in.size() - 2 < size) return;
    const auto end = in.begin() + 2 + static_cast<std::ptrdiff_t>(size);
    queries_.push_back({link, Octets(in.begin() + 2, end)});
    in.erase(in.begin(), end);
  }
}

void ScriptedUpstreams::reply(std::size_t choice, const Reply& reply) {
  if (queries_.empty()) return;
  const auto chosen = queries_.begin() + static_cast<std::ptrdiff_t>(choice % queries_.size());
  const Query query = std::move(*chosen);
  queries_.erase(chosen);
  if (const auto link = query.link.lock())
    link->send(make_reply(query.message, reply), reply.in_pieces);
}

void ScriptedUpstreams::reply_all(Over over, const Reply& reply) {
  for (const Query& query : std::exchange(queries_, {})) {
    const auto link = query.link.lock();
    if (!link) continue;
    if (over == Over::Any || link->is_stream == (over == Over::Connections))
      link->send(make_reply(query.message, reply), reply.in_pieces);
    else
      queries_.push_back(query);
  }
}

void ScriptedUpstreams::end_connection(std::size_t choice) {
  if (!links_.empty()) links_[choice % links_.size()]->end();
}

void ScriptedUpstreams::end_all() {
  for (const auto& link : links_) link->end();
}

bool ScriptedUpstreams::is_deserted() {
  while (receive()) {
  }
  return links_.empty() && ScriptedNetwork::get().open_sockets() == 0;
}

}  // namespace meshdns::fuzz
