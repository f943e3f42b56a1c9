// SPDX-License-Identifier: Apache-2.0
#include "tests/upstream/tls_end.hpp"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/mman.h>

#include <array>
#include <csignal>
#include <string_view>
#include <utility>

namespace meshdns::dnsd::test {
namespace {

class Authority {
 public:
  Authority() {
    // As the daemon does: a peer that is gone is an error of write(), not the end of the process.
    std::signal(SIGPIPE, SIG_IGN);
    key_ = EVP_EC_gen("P-256");
    certificate_ = X509_new();
    X509_set_version(certificate_, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate_), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate_), -3600);
    X509_gmtime_adj(X509_getm_notAfter(certificate_), 365L * 86'400);
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
    constexpr std::string_view kSessions = "test";
    SSL_CTX_set_session_id_context(context_,
                                   reinterpret_cast<const unsigned char*>(kSessions.data()),
                                   static_cast<unsigned>(kSessions.size()));
    file_ = memfd_create("authority", 0);
    BIO* const out = BIO_new_fd(file_, BIO_NOCLOSE);
    PEM_write_bio_X509(out, certificate_);
    BIO_free(out);
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

}  // namespace

std::string authority_file() { return Authority::get().path(); }

TlsEnd::TlsEnd() : ssl_(SSL_new(Authority::get().context())) {
  SSL_set_bio(ssl_.get(), BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
  SSL_set_accept_state(ssl_.get());
}

void TlsEnd::put(std::span<const std::uint8_t> sealed) {
  BIO_write(SSL_get_rbio(ssl_.get()), sealed.data(), static_cast<int>(sealed.size()));
}

bool TlsEnd::read(std::vector<std::uint8_t>& out) {
  bool some = false;
  std::array<std::uint8_t, 4096> octets;
  int size = 0;
  while ((size = SSL_read(ssl_.get(), octets.data(), static_cast<int>(octets.size()))) > 0) {
    out.insert(out.end(), octets.begin(), octets.begin() + size);
    some = true;
  }
  ERR_clear_error();
  return some;
}

void TlsEnd::write(std::span<const std::uint8_t> octets) {
  if (SSL_is_init_finished(ssl_.get()) != 0)
    SSL_write(ssl_.get(), octets.data(), static_cast<int>(octets.size()));
  ERR_clear_error();
}

std::vector<std::uint8_t> TlsEnd::take_sealed() {
  BIO* const out = SSL_get_wbio(ssl_.get());
  std::vector<std::uint8_t> sealed(static_cast<std::size_t>(BIO_pending(out)));
  if (!sealed.empty()) BIO_read(out, sealed.data(), static_cast<int>(sealed.size()));
  return sealed;
}

}  // namespace meshdns::dnsd::test
