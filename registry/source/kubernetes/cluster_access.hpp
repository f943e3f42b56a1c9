// SPDX-License-Identifier: Apache-2.0
// The address of a cluster's API and the credentials for it: from a kubeconfig, or from what every
// Pod finds in itself (the API reference, "Config (v1)"; "Accessing the API from a Pod").
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "registry/base/result.hpp"
#include "registry/source/kubernetes/curl_client.hpp"

namespace meshdns::registry::kubernetes {

// A program that prints credentials (client.authentication.k8s.io).
struct ExecPlugin {
  std::string api_version;
  std::string command;
  std::vector<std::string> arguments;
  std::vector<std::pair<std::string, std::string>> environment;
  std::string install_hint;
  bool wants_cluster = false;  // provideClusterInfo
  friend bool operator==(const ExecPlugin&, const ExecPlugin&) = default;
};

struct ClusterAccess {
  std::string server;  // "https://10.96.0.1:443", no final slash
  TlsIdentity tls;
  std::string proxy;
  std::string token;       // where there is no file
  std::string token_file;  // read anew from time to time
  std::string user;        // basic authentication, for what is left of it
  std::string password;
  std::optional<ExecPlugin> exec;
};

// The current context of a kubeconfig.  Relative paths in it count from `directory`.
Result<ClusterAccess> parse_kubeconfig(std::string_view text, const std::string& directory);
Result<ClusterAccess> read_kubeconfig(const std::string& path);

// Reads a Pod's KUBERNETES_SERVICE_HOST and _PORT, and the files of its service account in
// `directory`.
Result<ClusterAccess> in_cluster_access(
    const std::string& directory = "/var/run/secrets/kubernetes.io/serviceaccount");

// The token of a file, without the space around it.  An Error names the file.
Result<std::string> read_token_file(const std::string& path);

// Reads all that the access names, as the first request will: authorities, a certificate with its
// key, a token.  An Error names the file, or the field with the data.
Result<void> check_files(const ClusterAccess& access);

// The output of an exec plugin.
struct ExecCredential {
  std::string token;
  std::string certificate_pem;
  std::string key_pem;
  std::optional<std::chrono::sys_seconds> expires;
};
Result<ExecCredential> parse_exec_credential(std::string_view text);
// Returns the value of KUBERNETES_EXEC_INFO for the plugin.
std::string exec_info(const ClusterAccess& access);

}  // namespace meshdns::registry::kubernetes
