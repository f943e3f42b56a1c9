// SPDX-License-Identifier: Apache-2.0
#include "registry/source/kubernetes/cluster_access.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

namespace meshdns::registry::kubernetes {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

std::string kubeconfig(std::string_view cluster, std::string_view user) {
  return "apiVersion: v1\nkind: Config\ncurrent-context: here\n"
         "contexts:\n- {name: there, context: {cluster: x, user: x}}\n"
         "- {name: here, context: {cluster: c, user: u}}\n"
         "clusters: [{name: c, cluster: {" +
         std::string(cluster) + "}}]\nusers: [{name: u, user: {" + std::string(user) + "}}]\n";
}

TEST(KubeconfigTest, ReadsTheCurrentContext) {
  const auto access = parse_kubeconfig(
      kubeconfig("server: \"https://api.example.org:6443/\", certificate-authority: pki/ca.crt, "
                 "tls-server-name: kubernetes, proxy-url: \"http://proxy.example.org:3128\"",
                 "client-certificate: /etc/me.crt, client-key: me.key"),
      "/home/me/.kube");
  ASSERT_TRUE(access) << access.error().message;
  EXPECT_EQ(access->server, "https://api.example.org:6443");
  EXPECT_EQ(access->tls.ca_file, "/home/me/.kube/pki/ca.crt");
  EXPECT_EQ(access->tls.server_name, "kubernetes");
  EXPECT_EQ(access->tls.certificate_file, "/etc/me.crt");
  EXPECT_EQ(access->tls.key_file, "/home/me/.kube/me.key");
  EXPECT_EQ(access->proxy, "http://proxy.example.org:3128");
  EXPECT_FALSE(access->tls.is_unverified);
}

TEST(KubeconfigTest, DecodesData) {
  const auto access = parse_kubeconfig(
      kubeconfig("server: \"https://a\", certificate-authority-data: YQ==",
                 "client-certificate-data: YWI=, client-key-data: YWJj, token: t, tokenFile: tok"),
      "/d");
  ASSERT_TRUE(access) << access.error().message;
  EXPECT_EQ(access->tls.ca_pem, "a");
  EXPECT_EQ(access->tls.certificate_pem, "ab");
  EXPECT_EQ(access->tls.key_pem, "abc");
  EXPECT_FALSE(access->tls.is_unverified);
  EXPECT_EQ(access->token, "t");
  EXPECT_EQ(access->token_file, "/d/tok");
}

TEST(KubeconfigTest, LeavesAServerUnverifiedOnlyWithoutAnAuthority) {
  const std::string insecure = "server: \"https://a\", insecure-skip-tls-verify: true";
  const auto access = parse_kubeconfig(kubeconfig(insecure, "token: t"), "/d");
  ASSERT_TRUE(access) << access.error().message;
  EXPECT_TRUE(access->tls.is_unverified);
  for (const char* const authority :
       {", certificate-authority-data: YQ==", ", certificate-authority: ca.crt"})
    EXPECT_FALSE(parse_kubeconfig(kubeconfig(insecure + authority, "token: t"), "/d"));
}

TEST(KubeconfigTest, ReadsAnExecPlugin) {
  const auto access = parse_kubeconfig(
      kubeconfig("server: \"https://a\"",
                 "exec: {apiVersion: client.authentication.k8s.io/v1beta1, command: ./get-token, "
                 "args: [a, b], env: [{name: X, value: y}], provideClusterInfo: true, "
                 "installHint: look there}"),
      "/d");
  ASSERT_TRUE(access) << access.error().message;
  ASSERT_TRUE(access->exec);
  EXPECT_EQ(access->exec->command, "/d/./get-token");
  EXPECT_THAT(access->exec->arguments, ElementsAre("a", "b"));
  EXPECT_THAT(access->exec->environment, ElementsAre(Pair("X", "y")));
  EXPECT_EQ(exec_info(*access),
            R"({"apiVersion":"client.authentication.k8s.io/v1beta1","kind":"ExecCredential",)"
            R"("spec":{"interactive":false,"cluster":{"server":"https://a"}}})");
}

TEST(KubeconfigTest, SaysWhatIsWrong) {
  const struct {
    std::string text;
    std::string_view says;
  } cases[] = {
      {"", "empty"},
      {"kind: Config", "current-context"},
      {"current-context: x", "contexts: there is none named \"x\""},
      {kubeconfig("server: ftp://x", ""), "not an http or https URL"},
      {kubeconfig("server: \"https://a\", certificate-authority-data: \"%%%\"", ""), "base64"},
      {kubeconfig("server: \"https://a\"", "exec: {apiVersion: v7, command: x}"), "v7"},
      {kubeconfig("server: \"https://a\"", "auth-provider: {name: gcp}"), "exec"},
      {"a: [", "line"},
  };
  for (const auto& c : cases) {
    const auto access = parse_kubeconfig(c.text, "/");
    ASSERT_FALSE(access) << c.text;
    EXPECT_THAT(access.error().message, HasSubstr(c.says)) << c.text;
  }
}

TEST(InClusterTest, TakesServerFromTheEnvironmentAndFilesFromTheServiceAccount) {
  setenv("KUBERNETES_SERVICE_HOST", "fd00::1", 1);
  setenv("KUBERNETES_SERVICE_PORT", "443", 1);
  const auto access = in_cluster_access("/sa");
  unsetenv("KUBERNETES_SERVICE_HOST");
  ASSERT_TRUE(access);
  EXPECT_EQ(access->server, "https://[fd00::1]:443");
  EXPECT_EQ(access->tls.ca_file, "/sa/ca.crt");
  EXPECT_EQ(access->token_file, "/sa/token");
  EXPECT_FALSE(in_cluster_access("/sa"));
}

class AccessFilesTest : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(directory_); }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(directory_ + "/" + name) << text;
    return directory_ + "/" + name;
  }
  std::string make_key(const std::string& name) const {
    const auto key =
        std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>(EVP_EC_gen("P-256"), &EVP_PKEY_free);
    const auto certificate = std::unique_ptr<X509, decltype(&X509_free)>(X509_new(), &X509_free);
    X509_set_pubkey(certificate.get(), key.get());
    X509_gmtime_adj(X509_getm_notBefore(certificate.get()), 0);
    X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 3'600);
    X509_sign(certificate.get(), key.get(), EVP_sha256());
    std::FILE* const crt = std::fopen((directory_ + "/" + name + ".crt").c_str(), "w");
    if (crt == nullptr) return {};
    PEM_write_X509(crt, certificate.get());
    std::fclose(crt);
    std::FILE* const pem = std::fopen((directory_ + "/" + name + ".key").c_str(), "w");
    if (pem == nullptr) return {};
    PEM_write_PrivateKey(pem, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
    std::fclose(pem);
    return directory_ + "/" + name;
  }
  static std::string problem(const ClusterAccess& access) {
    const auto checked = check_files(access);
    return checked ? "" : checked.error().message;
  }

  const std::string directory_ = testing::TempDir() + "access-" + std::to_string(::getpid());
};

TEST_F(AccessFilesTest, AreReadBeforeTheFirstRequest) {
  const std::string mine = make_key("mine");
  const std::string other = make_key("other");
  ClusterAccess good;
  good.tls.ca_file = other + ".crt";
  good.tls.certificate_file = mine + ".crt";
  good.tls.key_file = mine + ".key";
  good.token_file = write("token", "t\n");
  EXPECT_EQ(problem(good), "");
  EXPECT_EQ(problem({}), "");

  const std::string missing = directory_ + "/missing";
  const std::string garbage = write("garbage", "-----BEGIN CERTIFICATE-----\nx\n");
  const std::string empty = write("empty", "");
  const auto with = [&](const auto& change) {
    ClusterAccess access = good;
    change(access);
    return problem(access);
  };
  EXPECT_EQ(with([&](auto& a) { a.tls.ca_file = missing; }),
            "cannot read " + missing + ": No such file or directory");
  EXPECT_EQ(with([&](auto& a) { a.tls.ca_file = directory_; }),
            "cannot read " + directory_ + ": is not a regular file");
  EXPECT_EQ(with([&](auto& a) { a.tls.ca_file = garbage; }),
            garbage + ": has no certificate in PEM");
  EXPECT_EQ(with([&](auto& a) { a.tls.ca_pem = "x"; }),
            "certificate-authority-data: has no certificate in PEM");
  EXPECT_EQ(with([&](auto& a) { a.tls.certificate_file = empty; }), empty + ": is empty");
  EXPECT_EQ(with([&](auto& a) { a.tls.key_file = mine + ".crt"; }),
            mine + ".crt: has no private key in PEM, or one with a passphrase");
  EXPECT_EQ(with([&](auto& a) { a.tls.key_file = other + ".key"; }),
            other + ".key: is not the key of the certificate in " + mine + ".crt");
  EXPECT_EQ(with([&](auto& a) { a.token_file = missing; }),
            "the token file " + missing + " cannot be read: No such file or directory");
  EXPECT_EQ(with([&](auto& a) { a.token_file = empty; }),
            "the token file " + empty + " has no token");
}

TEST(ExecCredentialTest, ReadsTokenAndExpiry) {
  const auto credential = parse_exec_credential(
      R"({"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1",)"
      R"("status":{"token":"t","expirationTimestamp":"2026-01-01T00:00:00Z"}})");
  ASSERT_TRUE(credential);
  EXPECT_EQ(credential->token, "t");
  EXPECT_EQ(credential->expires->time_since_epoch().count(), 1'767'225'600);
}

TEST(ExecCredentialTest, RefusesWhatIsNone) {
  EXPECT_FALSE(parse_exec_credential("please log in"));
  EXPECT_FALSE(parse_exec_credential(R"({"kind":"Pod"})"));
  EXPECT_FALSE(parse_exec_credential(R"({"kind":"ExecCredential","status":{}})"));
}

}  // namespace
}  // namespace meshdns::registry::kubernetes
