// SPDX-License-Identifier: Apache-2.0
// DNS over TLS against a server of our own, with a certificate made for the test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <thread>

#include "dnsd/config/config.hpp"
#include "resolver/forward/forwarder.hpp"
#include "resolver/wire/octets.hpp"
#include "tests/resolver/cache/messages.hpp"

namespace meshdns::dnsd::test {
namespace {

struct Certificate {
  Certificate() {
    key = EVP_EC_gen("P-256");
    x509 = X509_new();
    X509_set_version(x509, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(x509), 1);
    X509_gmtime_adj(X509_getm_notBefore(x509), -3600);
    X509_gmtime_adj(X509_getm_notAfter(x509), 3600);
    X509_set_pubkey(x509, key);
    X509_NAME* const name = X509_get_subject_name(x509);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>("test"), -1, -1, 0);
    X509_set_issuer_name(x509, name);
    X509V3_CTX context;
    X509V3_set_ctx_nodb(&context);
    X509V3_set_ctx(&context, x509, x509, nullptr, nullptr, 0);
    for (const auto& [nid, value] : {std::pair{NID_subject_alt_name, "DNS:dns.example.org"},
                                     std::pair{NID_basic_constraints, "critical,CA:TRUE"}}) {
      X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value);
      X509_add_ext(x509, extension, -1);
      X509_EXTENSION_free(extension);
    }
    X509_sign(x509, key, EVP_sha256());
  }
  ~Certificate() {
    X509_free(x509);
    EVP_PKEY_free(key);
  }
  std::string write() const {
    std::string path = ::testing::TempDir() + "forward_tls_" + std::to_string(getpid()) + ".pem";
    std::FILE* const file = std::fopen(path.c_str(), "w");
    PEM_write_X509(file, x509);
    std::fclose(file);
    return path;
  }
  EVP_PKEY* key;
  X509* x509;
};

// Answers every query over TLS with 192.0.2.7, one connection at a time.
class TlsServer {
 public:
  explicit TlsServer(const Certificate& certificate) {
    context_ = SSL_CTX_new(TLS_server_method());
    SSL_CTX_use_certificate(context_, certificate.x509);
    SSL_CTX_use_PrivateKey(context_, certificate.key);
    const unsigned char id[] = "test";
    SSL_CTX_set_session_id_context(context_, id, sizeof id);
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    listen(listener_, 16);
    socklen_t size = sizeof address;
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port = ntohs(address.sin_port);
    thread_ = std::jthread([this] { serve(); });
  }
  ~TlsServer() {
    stopping_ = true;
    shutdown(listener_, SHUT_RDWR);
    if (const int fd = current_.load(); fd >= 0) shutdown(fd, SHUT_RDWR);
    thread_.join();
    close(listener_);
    SSL_CTX_free(context_);
  }
  void drop_connection() {
    if (const int fd = current_.load(); fd >= 0) shutdown(fd, SHUT_RDWR);
  }

  std::uint16_t port = 0;
  std::atomic<int> handshakes{0};
  std::atomic<int> queries{0};

 private:
  void serve() {
    while (!stopping_) {
      const int fd = accept(listener_, nullptr, nullptr);
      if (fd < 0) return;
      current_ = fd;
      SSL* const ssl = SSL_new(context_);
      SSL_set_fd(ssl, fd);
      if (SSL_accept(ssl) == 1) {
        ++handshakes;
        while (answer_one(ssl)) {
        }
      }
      SSL_free(ssl);
      current_ = -1;
      close(fd);
    }
  }
  static bool read_whole(SSL* ssl, std::uint8_t* out, int size) {
    while (size > 0) {
      const int got = SSL_read(ssl, out, size);
      if (got <= 0) return false;
      out += got;
      size -= got;
    }
    return true;
  }
  bool answer_one(SSL* ssl) {
    std::vector<std::uint8_t> query(2);
    if (!read_whole(ssl, query.data(), 2)) return false;
    query.resize(wire::load_u16(query.data()));
    if (!read_whole(ssl, query.data(), static_cast<int>(query.size()))) return false;
    ++queries;
    wire::QueryMessage parsed;
    if (wire::parse_query(query, parsed) != wire::ParseOutcome::Ok) return false;
    wire::ResponseMessage reply;
    reply.id = parsed.id;
    reply.question = question_of(parsed);
    reply.question_name = reply.question.name;
    wire::ResponseRecord record;
    record.owner = reply.question.name;
    record.ttl = 300;
    record.rdata = std::string("\xc0\x00\x02\x07", 4);
    if (parsed.qtype == wire::Type::A) reply.answer.push_back(record);
    const std::vector<std::uint8_t> message = to_wire(reply);
    std::vector<std::uint8_t> framed(2);
    wire::store_u16(framed.data(), static_cast<std::uint16_t>(message.size()));
    framed.insert(framed.end(), message.begin(), message.end());
    return SSL_write(ssl, framed.data(), static_cast<int>(framed.size())) > 0;
  }

  SSL_CTX* context_;
  int listener_;
  std::atomic<int> current_{-1};
  std::atomic<bool> stopping_{false};
  std::jthread thread_;
};

class TlsUpstreamTest : public ::testing::Test {
 protected:
  TlsUpstreamTest() {
    // As the daemon does: a peer that is gone is an error of write(), not the end of the process.
    std::signal(SIGPIPE, SIG_IGN);
    uv_loop_init(&loop_);
    uv_timer_init(&loop_, &tick_);
    uv_timer_start(&tick_, [](uv_timer_t*) {}, 1, 1);
  }
  ~TlsUpstreamTest() override {
    forwarder_.reset();
    uv_close(reinterpret_cast<uv_handle_t*>(&tick_), nullptr);
    uv_run(&loop_, UV_RUN_DEFAULT);
    EXPECT_EQ(uv_loop_close(&loop_), 0);
    std::remove(ca_file_.c_str());
  }
  void start(const std::string& name, const std::string& ca_file) {
    config_.servers = {
        *parse_upstream_server("tls://127.0.0.1:" + std::to_string(server_.port) + "#" + name)};
    config_.tls_ca_file = ca_file;
    shared_ = std::make_shared<ForwardShared>(cache_config_, quiet_);
    shared_->reconfigure(config_);
    forwarder_ = std::make_unique<Forwarder>(&loop_, shared_, config_, cache_config_);
  }
  MessageRef ask(std::string_view name) {
    MessageRef answer;
    ForwardRequest request;
    request.question = question(name);
    forwarder_->resolve(std::move(request),
                        [&](const Outcome& outcome) { answer = outcome.message; });
    while (!answer) uv_run(&loop_, UV_RUN_ONCE);
    return answer;
  }
  UpstreamStatus status() { return shared_->upstreams.status(uv_now(&loop_)).at(0); }

  Certificate certificate_;
  TlsServer server_{certificate_};
  std::string ca_file_ = certificate_.write();
  uv_loop_t loop_;
  uv_timer_t tick_;
  ForwardListener quiet_;
  UpstreamConfig config_;
  CacheConfig cache_config_;
  std::shared_ptr<ForwardShared> shared_;
  std::unique_ptr<Forwarder> forwarder_;
};

TEST_F(TlsUpstreamTest, AsksOverOneConnectionAndResumesItsSession) {
  start("dns.example.org", ca_file_);
  EXPECT_EQ(ask("a.example.org.")->answer_count(), 1);
  EXPECT_EQ(ask("b.example.org.")->answer_count(), 1);
  EXPECT_EQ(server_.handshakes, 1);
  server_.drop_connection();
  EXPECT_EQ(ask("c.example.org.")->answer_count(), 1);
  EXPECT_EQ(server_.handshakes, 2);
  EXPECT_EQ(status().resumed, 1u);
}

TEST_F(TlsUpstreamTest, RefusesACertificateOfAnotherName) {
  start("other.example.org", ca_file_);
  const MessageRef answer = ask("a.example.org.");
  EXPECT_EQ(answer->kind(), MessageKind::Failure);
  EXPECT_THAT(std::string(answer->ede_text()), ::testing::HasSubstr("ertificate"));
  EXPECT_EQ(server_.queries, 0);
}

TEST_F(TlsUpstreamTest, RefusesACertificateOfUnknownAuthority) {
  start("dns.example.org", "");
  EXPECT_EQ(ask("a.example.org.")->kind(), MessageKind::Failure);
  EXPECT_EQ(server_.queries, 0);
}

TEST_F(TlsUpstreamTest, SaysWhichFileOfAuthoritiesCannotBeRead) {
  start("dns.example.org", "/nonexistent/ca.pem");
  EXPECT_THAT(std::string(ask("a.example.org.")->ede_text()),
              ::testing::HasSubstr("/nonexistent/ca.pem"));
}

}  // namespace
}  // namespace meshdns::dnsd::test
