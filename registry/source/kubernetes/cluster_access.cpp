// SPDX-License-Identifier: Apache-2.0
#include "registry/source/kubernetes/cluster_access.hpp"

#include <openssl/evp.h>
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

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
  // Not a pipe, which could block, nor a device, which could have no end.
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error))
    return fail(path + (error ? ": " + error.message() : ": is not a regular file"));
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  if (!file) return fail(path + ": cannot be read");
  auto access =
      parse_kubeconfig(text.str(), std::filesystem::absolute(path).parent_path().string());
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
