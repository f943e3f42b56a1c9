// SPDX-License-Identifier: Apache-2.0
#include "registry/source/kubernetes/cluster_access.hpp"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>

#include "registry/base/durable_file.hpp"
#include "registry/base/file_descriptor.hpp"
#include "registry/base/printable.hpp"
#include "registry/manifest/document.hpp"
#include "registry/manifest/times.hpp"
#include "registry/source/kubernetes/json_cutter.hpp"

namespace meshdns::registry::kubernetes {
namespace {

constexpr std::size_t kMaxFile = std::size_t{4} << 20;

bool flag_of(const Node* object, std::string_view key) {
  const Node* const value = object == nullptr ? nullptr : object->find(key);
  return value != nullptr && value->as_bool().value_or(false);
}

// The element of `clusters`, `contexts` or `users` that has the name; its `key`.
const Node* find_named(const Node& root, std::string_view list, std::string_view name,
                       std::string_view key) {
  const Node* const elements = root.find(list);
  if (elements == nullptr || !elements->is_sequence()) return nullptr;
  for (const Node& element : *elements)
    if (text_of(&element, "name") == name) return element.find(key);
  return nullptr;
}

Result<std::string> decode_base64(const std::string& text, std::string_view field) {
  std::string clean;
  std::ranges::copy_if(text, std::back_inserter(clean),
                       [](char c) { return c != '\n' && c != '\r' && c != ' '; });
  std::string decoded(clean.size() / 4 * 3, '\0');
  const int size = clean.size() % 4 != 0
                       ? -1
                       : EVP_DecodeBlock(reinterpret_cast<unsigned char*>(decoded.data()),
                                         reinterpret_cast<const unsigned char*>(clean.data()),
                                         static_cast<int>(clean.size()));
  if (size < 0) return fail(std::string(field) + " is not base64");
  // The padding counts as octets to OpenSSL.
  const auto padding = static_cast<std::size_t>(
      clean.size() - std::min(clean.find_last_not_of('=') + 1, clean.size()));
  decoded.resize(static_cast<std::size_t>(size) - std::min<std::size_t>(padding, 2));
  return decoded;
}

// Not a pipe, which could block, nor a device, which could have no end.  The Error is a reason.
Result<std::string> read_regular_file(const std::string& path) {
  const FileDescriptor file = open_for_reading(path);
  struct stat status{};
  if (!file || ::fstat(file.get(), &status) != 0) return fail(std::strerror(errno));
  if (!S_ISREG(status.st_mode)) return fail("is not a regular file");
  auto text = read_to_end(file.get(), kMaxFile);
  if (!text) return fail(std::strerror(errno));
  if (text->size() > kMaxFile) return fail("larger than 4 MiB");
  return text;
}

class KubeconfigReader {
 public:
  KubeconfigReader(const Node& root, const std::string& directory)
      : root_(root), directory_(directory) {}

  Result<ClusterAccess> read() {
    const std::string current(text_of(&root_, "current-context"));
    if (current.empty()) return fail("current-context: missing; name one of contexts");
    const Node* const context = find_named(root_, "contexts", current, "context");
    if (context == nullptr)
      return fail("contexts: there is none named " + registry::in_quotes(current));
    const std::string cluster_name(text_of(context, "cluster"));
    const Node* const cluster = find_named(root_, "clusters", cluster_name, "cluster");
    if (cluster == nullptr)
      return fail("clusters: there is none named " + registry::in_quotes(cluster_name));
    if (auto read = read_cluster(*cluster); !read) return std::unexpected(read.error());
    const std::string user_name(text_of(context, "user"));
    const Node* const user = find_named(root_, "users", user_name, "user");
    if (user == nullptr && !user_name.empty())
      return fail("users: there is none named " + registry::in_quotes(user_name));
    if (user != nullptr && user->is_mapping())
      if (auto read = read_user(*user); !read) return std::unexpected(read.error());
    return std::move(access_);
  }

 private:
  // Data in the configuration itself come before the file that it names.
  Result<void> read_pem(const Node& object, const std::string& field, std::string& file,
                        std::string& pem) {
    file = path_of(std::string(text_of(&object, field)));
    const std::string data(text_of(&object, field + "-data"));
    if (data.empty()) return {};
    auto decoded = decode_base64(data, field + "-data");
    if (!decoded) return std::unexpected(decoded.error());
    pem = *std::move(decoded);
    return {};
  }

  Result<void> read_cluster(const Node& cluster) {
    access_.server = text_of(&cluster, "server");
    while (access_.server.ends_with('/')) access_.server.pop_back();
    if (!access_.server.starts_with("https://") && !access_.server.starts_with("http://"))
      return fail("clusters: server: " + registry::in_quotes(access_.server) +
                  " is not an http or https URL");
    access_.tls.server_name = text_of(&cluster, "tls-server-name");
    access_.tls.is_unverified = flag_of(&cluster, "insecure-skip-tls-verify");
    access_.proxy = text_of(&cluster, "proxy-url");
    auto read = read_pem(cluster, "certificate-authority", access_.tls.ca_file, access_.tls.ca_pem);
    // As kubectl: one of the two is a mistake, and it may be the insecure one.
    if (read && access_.tls.is_unverified &&
        !(access_.tls.ca_file.empty() && access_.tls.ca_pem.empty()))
      return fail(
          "clusters: insecure-skip-tls-verify: not together with a certificate-authority; remove "
          "one of them");
    return read;
  }

  Result<void> read_user(const Node& user) {
    TlsIdentity& tls = access_.tls;
    if (auto read = read_pem(user, "client-certificate", tls.certificate_file, tls.certificate_pem);
        !read)
      return read;
    if (auto read = read_pem(user, "client-key", tls.key_file, tls.key_pem); !read) return read;
    access_.token = text_of(&user, "token");
    access_.token_file = path_of(std::string(text_of(&user, "tokenFile")));
    access_.user = text_of(&user, "username");
    access_.password = text_of(&user, "password");
    if (const Node* const exec = user.find("exec"); exec != nullptr && exec->is_mapping())
      return read_exec(*exec);
    if (user.find("auth-provider") != nullptr)
      return fail("users: auth-provider is not supported; use exec");
    return {};
  }

  Result<void> read_exec(const Node& exec) {
    ExecPlugin plugin;
    plugin.api_version = text_of(&exec, "apiVersion");
    if (plugin.api_version != "client.authentication.k8s.io/v1" &&
        plugin.api_version != "client.authentication.k8s.io/v1beta1")
      return fail("users: exec: apiVersion " + registry::in_quotes(plugin.api_version) +
                  " is not read; known are client.authentication.k8s.io/v1 and v1beta1");
    plugin.command = text_of(&exec, "command");
    if (plugin.command.empty()) return fail("users: exec: command: missing");
    // A relative path counts from the file; a bare name is looked for in PATH.
    if (plugin.command.contains('/')) plugin.command = path_of(plugin.command);
    if (const Node* const arguments = exec.find("args"))
      for (const Node& argument : *arguments) plugin.arguments.emplace_back(argument.text());
    if (const Node* const environment = exec.find("env"))
      for (const Node& variable : *environment)
        plugin.environment.emplace_back(text_of(&variable, "name"), text_of(&variable, "value"));
    plugin.install_hint = text_of(&exec, "installHint");
    plugin.wants_cluster = flag_of(&exec, "provideClusterInfo");
    access_.exec = std::move(plugin);
    return {};
  }

  std::string path_of(const std::string& path) const {
    if (path.empty() || path.starts_with('/')) return path;
    return (std::filesystem::path(directory_) / path).string();
  }

  const Node& root_;
  const std::string& directory_;
  ClusterAccess access_;
};

}  // namespace

Result<ClusterAccess> parse_kubeconfig(std::string_view text, const std::string& directory) {
  Result<ClusterAccess> access = fail("the kubeconfig is empty");
  DocumentLimits limits;
  limits.max_bytes = kMaxFile;
  const auto read = read_handwritten_documents(text, limits, [&](const Document& document) {
    access = KubeconfigReader(document.root, directory).read();
  });
  if (!read) return fail("line " + std::to_string(read.error().line) + ": " + read.error().message);
  return access;
}

Result<ClusterAccess> read_kubeconfig(const std::string& path) {
  const auto text = read_regular_file(path);
  if (!text) return fail(path + ": " + text.error().message);
  auto access = parse_kubeconfig(*text, std::filesystem::absolute(path).parent_path().string());
  if (!access) return fail(path + ": " + access.error().message);
  return access;
}

Result<ClusterAccess> in_cluster_access(const std::string& directory) {
  const char* const host = std::getenv("KUBERNETES_SERVICE_HOST");
  const char* const port = std::getenv("KUBERNETES_SERVICE_PORT");
  if (host == nullptr || port == nullptr)
    return fail(
        "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set: outside of a cluster, "
        "give a kubeconfig");
  ClusterAccess access;
  const std::string name(host);
  access.server = "https://" + (name.contains(':') ? "[" + name + "]" : name) + ":" + port;
  access.tls.ca_file = directory + "/ca.crt";
  access.token_file = directory + "/token";
  return access;
}

Result<std::string> read_token_file(const std::string& path) {
  constexpr std::string_view space = " \t\r\n";
  auto text = read_regular_file(path);
  if (!text) return fail("the token file " + path + " cannot be read: " + text.error().message);
  text->erase(text->find_last_not_of(space) + 1);
  if (text->empty()) return fail("the token file " + path + " has no token");
  return text;
}

namespace {

struct FreePem {
  void operator()(BIO* text) const { BIO_free(text); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
using PemText = std::unique_ptr<BIO, FreePem>;
using Certificate = std::unique_ptr<X509, FreePem>;
using PrivateKey = std::unique_ptr<EVP_PKEY, FreePem>;

// A part of a TlsIdentity: what libcurl will read, and how messages call it.
struct NamedPem {
  std::string name;
  std::string text;  // empty: there is none
};

Result<NamedPem> read_named(const std::string& file, const std::string& pem,
                            const std::string& field) {
  if (!pem.empty()) return NamedPem{field + "-data", pem};
  if (file.empty()) return NamedPem{};
  auto text = read_regular_file(file);
  if (!text) return fail("cannot read " + file + ": " + text.error().message);
  if (text->empty()) return fail(file + ": is empty");
  return NamedPem{file, *std::move(text)};
}

PemText open_pem(const std::string& text) {
  return PemText(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

Result<Certificate> read_certificate(const NamedPem& pem) {
  const PemText text = open_pem(pem.text);
  Certificate certificate(PEM_read_bio_X509(text.get(), nullptr, nullptr, nullptr));
  ERR_clear_error();
  if (!certificate) return fail(pem.name + ": has no certificate in PEM");
  return certificate;
}

// Nobody is there to type a passphrase.
int refuse_passphrase(char*, int, int, void*) { return -1; }

Result<PrivateKey> read_key(const NamedPem& pem) {
  const PemText text = open_pem(pem.text);
  PrivateKey key(PEM_read_bio_PrivateKey(text.get(), nullptr, refuse_passphrase, nullptr));
  ERR_clear_error();
  if (!key) return fail(pem.name + ": has no private key in PEM, or one with a passphrase");
  return key;
}

// Libcurl reads a key that is not named from the file with the certificate.
Result<void> check_pair(const NamedPem& certificate_pem, const NamedPem& key_pem) {
  if (certificate_pem.text.empty()) return {};
  const auto certificate = read_certificate(certificate_pem);
  if (!certificate) return std::unexpected(certificate.error());
  const NamedPem& of_key = key_pem.text.empty() ? certificate_pem : key_pem;
  const auto key = read_key(of_key);
  if (!key) return std::unexpected(key.error());
  const bool is_pair = X509_check_private_key(certificate->get(), key->get()) == 1;
  ERR_clear_error();
  if (is_pair) return {};
  return fail(of_key.name + ": is not the key of the certificate in " + certificate_pem.name);
}

}  // namespace

Result<void> check_files(const ClusterAccess& access) {
  const TlsIdentity& tls = access.tls;
  const auto authorities = read_named(tls.ca_file, tls.ca_pem, "certificate-authority");
  if (!authorities) return std::unexpected(authorities.error());
  if (!authorities->text.empty())
    if (const auto first = read_certificate(*authorities); !first)
      return std::unexpected(first.error());
  const auto certificate =
      read_named(tls.certificate_file, tls.certificate_pem, "client-certificate");
  if (!certificate) return std::unexpected(certificate.error());
  const auto key = read_named(tls.key_file, tls.key_pem, "client-key");
  if (!key) return std::unexpected(key.error());
  if (auto pair = check_pair(*certificate, *key); !pair) return pair;
  if (access.token_file.empty()) return {};
  const auto token = read_token_file(access.token_file);
  if (!token) return std::unexpected(token.error());
  return {};
}

Result<ExecCredential> parse_exec_credential(std::string_view text) {
  JsonParser parser;
  const auto root = parser.parse(text);
  if (!root) return fail("the plugin did not print JSON: " + root.error().message);
  if (text_of(*root, "kind") != "ExecCredential")
    return fail("the plugin did not print an ExecCredential");
  const Node* const status = (*root)->find("status");
  ExecCredential credential;
  credential.token = text_of(status, "token");
  credential.certificate_pem = text_of(status, "clientCertificateData");
  credential.key_pem = text_of(status, "clientKeyData");
  if (credential.token.empty() && credential.certificate_pem.empty())
    return fail("the plugin gave neither a token nor a certificate");
  const std::string expires(text_of(status, "expirationTimestamp"));
  if (const auto time = parse_timestamp_ms(expires); time && !expires.empty())
    credential.expires = std::chrono::sys_seconds(std::chrono::seconds(*time / 1'000));
  return credential;
}

std::string exec_info(const ClusterAccess& access) {
  rapidjson::StringBuffer buffer;
  rapidjson::Writer<rapidjson::StringBuffer> json(buffer);
  const auto put = [&](const char* key, const std::string& value) {
    json.Key(key);
    json.String(value.data(), static_cast<rapidjson::SizeType>(value.size()));
  };
  json.StartObject();
  put("apiVersion", access.exec->api_version);
  put("kind", "ExecCredential");
  json.Key("spec");
  json.StartObject();
  json.Key("interactive");
  json.Bool(false);
  if (access.exec->wants_cluster) {
    json.Key("cluster");
    json.StartObject();
    put("server", access.server);
    if (!access.tls.server_name.empty()) put("tls-server-name", access.tls.server_name);
    if (!access.proxy.empty()) put("proxy-url", access.proxy);
    if (access.tls.is_unverified) {
      json.Key("insecure-skip-tls-verify");
      json.Bool(true);
    }
    json.EndObject();
  }
  json.EndObject();
  json.EndObject();
  return {buffer.GetString(), buffer.GetSize()};
}

}  // namespace meshdns::registry::kubernetes
