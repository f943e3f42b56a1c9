// SPDX-License-Identifier: Apache-2.0
#include "dnsd/admin/tls_certificate.hpp"

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>

#include <array>
#include <utility>

#include "dnsd/config/values.hpp"

namespace meshdns::dnsd {
namespace {

constexpr unsigned kMaxChain = 16;

gnutls_datum_t datum_of(std::string& text) {
  return {reinterpret_cast<unsigned char*>(text.data()), static_cast<unsigned>(text.size())};
}

std::unexpected<Error> refuse_file(const std::string& path, int error) {
  return fail(path + ": " + gnutls_strerror(error));
}

}  // namespace

class TlsCertificate::Impl {
 public:
  Impl() { gnutls_privkey_init(&key_); }
  ~Impl() {
    for (unsigned i = 0; i < length_; ++i) gnutls_pcert_deinit(&chain_[i]);
    gnutls_privkey_deinit(key_);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  Result<void> read_chain(const std::string& path) {
    auto text = read_text_file(path);
    if (!text) return std::unexpected(text.error());
    const gnutls_datum_t pem = datum_of(*text);
    unsigned length = kMaxChain;
    const int error =
        gnutls_pcert_list_import_x509_raw(chain_.data(), &length, &pem, GNUTLS_X509_FMT_PEM, 0);
    if (error != 0) return refuse_file(path, error);
    length_ = length;
    return {};
  }

  Result<void> read_key(const std::string& path) {
    auto text = read_text_file(path);
    if (!text) return std::unexpected(text.error());
    const gnutls_datum_t pem = datum_of(*text);
    const int error = gnutls_privkey_import_x509_raw(key_, &pem, GNUTLS_X509_FMT_PEM, nullptr, 0);
    gnutls_memset(text->data(), 0, text->size());
    if (error != 0) return refuse_file(path, error);
    return {};
  }

  bool belong_together() const {
    gnutls_pubkey_t of_key = nullptr;
    if (gnutls_pubkey_init(&of_key) != 0) return false;
    const bool is_same = gnutls_pubkey_import_privkey(of_key, key_, 0, 0) == 0 &&
                         key_id(of_key) == key_id(chain_[0].pubkey);
    gnutls_pubkey_deinit(of_key);
    return is_same;
  }

  static int give(gnutls_session_t session, const gnutls_datum_t*, int,
                  const gnutls_pk_algorithm_t*, int, gnutls_pcert_st** chain, unsigned* length,
                  gnutls_privkey_t* key) {
    const auto* const attached = static_cast<const Impl*>(gnutls_session_get_ptr(session));
    if (attached == nullptr) return -1;
    *chain = const_cast<gnutls_pcert_st*>(attached->chain_.data());  // only read
    *length = attached->length_;
    *key = attached->key_;
    return 0;
  }

 private:
  using KeyId = std::array<unsigned char, 32>;
  static KeyId key_id(gnutls_pubkey_t key) {
    KeyId id{};
    std::size_t size = id.size();
    gnutls_pubkey_get_key_id(key, GNUTLS_KEYID_USE_SHA256, id.data(), &size);
    return id;
  }

  std::array<gnutls_pcert_st, kMaxChain> chain_{};
  unsigned length_ = 0;
  gnutls_privkey_t key_ = nullptr;
};

TlsCertificate::TlsCertificate(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TlsCertificate::~TlsCertificate() = default;

Result<std::shared_ptr<const TlsCertificate>> TlsCertificate::read(const std::string& cert_file,
                                                                   const std::string& key_file) {
  auto impl = std::make_unique<Impl>();
  if (auto read = impl->read_chain(cert_file); !read) return std::unexpected(read.error());
  if (auto read = impl->read_key(key_file); !read) return std::unexpected(read.error());
  if (!impl->belong_together())
    return fail(key_file + ": is not the key of the first certificate in " + cert_file);
  return std::shared_ptr<const TlsCertificate>(new TlsCertificate(std::move(impl)));
}

// libmicrohttpd itself uses the pointer for pre-shared keys only.
void TlsCertificate::attach_to(void* session) const {
  gnutls_session_set_ptr(static_cast<gnutls_session_t>(session), impl_.get());
}

void* TlsCertificate::callback() { return reinterpret_cast<void*>(&Impl::give); }

}  // namespace meshdns::dnsd
