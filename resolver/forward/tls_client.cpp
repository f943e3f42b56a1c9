// SPDX-License-Identifier: Apache-2.0
#include "resolver/forward/tls_client.hpp"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <climits>
#include <filesystem>

namespace meshdns::dnsd {
namespace {

template <auto Release>
struct Free {
  template <typename T>
  void operator()(T* object) const {
    Release(object);
  }
};
using ContextPtr = std::unique_ptr<SSL_CTX, Free<SSL_CTX_free>>;
using SslPtr = std::unique_ptr<SSL, Free<SSL_free>>;
using SessionPtr = std::unique_ptr<SSL_SESSION, Free<SSL_SESSION_free>>;

std::string openssl_error() {
  const unsigned long code = ERR_peek_last_error();
  ERR_clear_error();
  if (code == 0) return "TLS error";
  std::array<char, 256> text;
  ERR_error_string_n(code, text.data(), text.size());
  return text.data();
}

bool is_ip_text(const std::string& name) {
  std::array<unsigned char, 16> octets;
  return inet_pton(AF_INET, name.c_str(), octets.data()) == 1 ||
         inet_pton(AF_INET6, name.c_str(), octets.data()) == 1;
}

}  // namespace

struct TlsClient::Impl {
  ContextPtr context;
  std::string name;
  SessionPtr session;  // the last that the upstream gave us (RFC 8446, section 4.6.1)

  static int on_new_session(SSL* ssl, SSL_SESSION* session) {
    auto* const self = static_cast<Impl*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
    self->session.reset(session);
    return 1;  // the reference is ours now
  }
};

Result<std::unique_ptr<TlsClient>> TlsClient::create(const std::string& ca_file,
                                                     const std::string& name) {
  // OpenSSL would wait for whoever may be at the other end of a pipe.
  std::error_code error;
  if (!ca_file.empty() && !std::filesystem::is_regular_file(ca_file, error))
    return fail("cannot read the authorities in " + ca_file + ": " +
                (error ? error.message() : "is not a regular file"));
  auto impl = std::make_unique<Impl>();
  impl->name = name;
  impl->context.reset(SSL_CTX_new(TLS_client_method()));
  SSL_CTX* const context = impl->context.get();
  if (context == nullptr) return fail(openssl_error());
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL_STORE);
  SSL_CTX_sess_set_new_cb(context, &Impl::on_new_session);
  SSL_CTX_set_app_data(context, impl.get());
  const int trusted = ca_file.empty()
                          ? SSL_CTX_set_default_verify_paths(context)
                          : SSL_CTX_load_verify_locations(context, ca_file.c_str(), nullptr);
  if (trusted != 1)
    return fail("cannot read the authorities in " + ca_file + ": " + openssl_error());
  return std::unique_ptr<TlsClient>(new TlsClient(std::move(impl)));
}

TlsClient::TlsClient(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TlsClient::~TlsClient() = default;

struct TlsSession::Impl {
  SslPtr ssl;
  BIO* in = nullptr;   // owned by ssl
  BIO* out = nullptr;  // owned by ssl
  std::string error;
};

std::unique_ptr<TlsSession> TlsClient::start() {
  auto session = std::make_unique<TlsSession::Impl>();
  session->ssl.reset(SSL_new(impl_->context.get()));
  SSL* const ssl = session->ssl.get();
  session->in = BIO_new(BIO_s_mem());
  session->out = BIO_new(BIO_s_mem());
  SSL_set_bio(ssl, session->in, session->out);
  SSL_set_connect_state(ssl);
  if (is_ip_text(impl_->name)) {
    X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), impl_->name.c_str());
  } else {
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    SSL_set1_host(ssl, impl_->name.c_str());
    SSL_set_tlsext_host_name(ssl, impl_->name.c_str());
  }
  if (impl_->session) SSL_set_session(ssl, impl_->session.get());
  return std::unique_ptr<TlsSession>(new TlsSession(std::move(session)));
}

TlsSession::TlsSession(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

TlsSession::~TlsSession() {
  // A connection that was merely dropped must not make OpenSSL forget its session.
  SSL_set_quiet_shutdown(impl_->ssl.get(), 1);
  SSL_set_shutdown(impl_->ssl.get(), SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
}

TlsSession::Progress TlsSession::handshake() {
  ERR_clear_error();
  const int result = SSL_do_handshake(impl_->ssl.get());
  if (result == 1) return Progress::Done;
  const int why = SSL_get_error(impl_->ssl.get(), result);
  if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE) return Progress::NeedsMore;
  const long verified = SSL_get_verify_result(impl_->ssl.get());
  impl_->error = verified != X509_V_OK ? std::string("certificate refused: ") +
                                             X509_verify_cert_error_string(verified)
                                       : openssl_error();
  return Progress::Failed;
}

bool TlsSession::is_resumed() const { return SSL_session_reused(impl_->ssl.get()) == 1; }

void TlsSession::feed(std::span<const std::uint8_t> records) {
  while (!records.empty()) {
    const std::size_t part = std::min<std::size_t>(records.size(), INT_MAX);
    BIO_write(impl_->in, records.data(), static_cast<int>(part));
    records = records.subspan(part);
  }
}

TlsSession::Progress TlsSession::read(std::span<std::uint8_t> out, std::size_t& size) {
  size = 0;
  ERR_clear_error();
  if (SSL_read_ex(impl_->ssl.get(), out.data(), out.size(), &size) == 1) return Progress::Done;
  const int why = SSL_get_error(impl_->ssl.get(), 0);
  if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE) return Progress::NeedsMore;
  impl_->error = why == SSL_ERROR_ZERO_RETURN ? "closed by the upstream" : openssl_error();
  return Progress::Failed;
}

bool TlsSession::write(std::string_view text) {
  ERR_clear_error();
  std::size_t written = 0;
  // Memory takes everything: no partial writes.
  if (SSL_write_ex(impl_->ssl.get(), text.data(), text.size(), &written) == 1) return true;
  impl_->error = openssl_error();
  return false;
}

void TlsSession::drain(std::string& out) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(impl_->out, &data);
  if (size <= 0) return;
  out.append(data, static_cast<std::size_t>(size));
  BIO_reset(impl_->out);
}

std::string TlsSession::error() const { return impl_->error; }

}  // namespace meshdns::dnsd
