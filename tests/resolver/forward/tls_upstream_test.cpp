// SPDX-License-Identifier: Apache-2.0
// DNS over TLS against a server of our own, with a certificate made for the test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/resolver/forward/forwarder_fixture.hpp"
#include "tests/upstream/scripted_upstream.hpp"
#include "tests/upstream/tls_end.hpp"

namespace meshdns::dnsd::test {
namespace {

class TlsUpstreamTest : public ForwarderTest {
 protected:
  TlsUpstreamTest() { server_.set(UpstreamZone({"*. 300 A 192.0.2.7"}), {}); }
  ~TlsUpstreamTest() override { forwarder_.reset(); }

  void start_with(const std::string& name, const std::string& ca_file) {
    config_.servers = {*parse_upstream_server("tls://" + server_.server() + "#" + name)};
    config_.tls_ca_file = ca_file;
    start();
  }

  int queries_ = 0;
  ScriptedUpstream server_{loop_.get(),
                           [this](const Received&) {
                             ++queries_;
                             return true;
                           },
                           ScriptedUpstream::Streams::Tls};
};

TEST_F(TlsUpstreamTest, AsksOverOneConnectionAndResumesItsSession) {
  start_with("dns.example.org", authority_file());
  EXPECT_EQ(ask("a.example.org.").text, "NOERROR [a.example.org. 300 A 192.0.2.7]");
  EXPECT_EQ(ask("b.example.org.").text, "NOERROR [b.example.org. 300 A 192.0.2.7]");
  EXPECT_EQ(server_.connections(), 1u);
  server_.end_connections(ScriptedUpstream::End::Close);
  EXPECT_EQ(ask("c.example.org.").text, "NOERROR [c.example.org. 300 A 192.0.2.7]");
  EXPECT_EQ(server_.connections(), 2u);
  EXPECT_EQ(shared_->upstreams.status(loop_.now()).at(0).resumed, 1u);
}

TEST_F(TlsUpstreamTest, RefusesACertificateOfAnotherName) {
  start_with("other.example.org", authority_file());
  const MessageRef answer = ask("a.example.org.").outcome.message;
  EXPECT_EQ(answer->kind(), MessageKind::Failure);
  EXPECT_THAT(std::string(answer->ede_text()), ::testing::HasSubstr("ertificate"));
  EXPECT_EQ(queries_, 0);
}

TEST_F(TlsUpstreamTest, RefusesACertificateOfUnknownAuthority) {
  start_with("dns.example.org", "");
  EXPECT_EQ(ask("a.example.org.").outcome.message->kind(), MessageKind::Failure);
  EXPECT_EQ(queries_, 0);
}

TEST_F(TlsUpstreamTest, SaysWhichFileOfAuthoritiesCannotBeRead) {
  start_with("dns.example.org", "/nonexistent/ca.pem");
  EXPECT_THAT(std::string(ask("a.example.org.").outcome.message->ede_text()),
              ::testing::HasSubstr("/nonexistent/ca.pem"));
}

}  // namespace
}  // namespace meshdns::dnsd::test
