// SPDX-License-Identifier: Apache-2.0
// A handler over a registry that is fed from manifests, and its answers as one line of text.
//
//   ask("web.shop. A")  ->  "web.shop. 5 A 10.96.0.1"          an authoritative answer
//                           "NODATA cluster.local."            empty, the owner of its SOA
//                           "NXDOMAIN cluster.local."
//                           "FORWARD"                          the upstream is asked for this name
//                           "WAIT"                             no addresses yet
//                           "not aa, SERVFAIL, EDE 14"         everything else, in words
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dnsd/query/query_handler.hpp"
#include "registry/base/host_name.hpp"
#include "resolver/wire/record_text.hpp"
#include "resolver/wire/response_message.hpp"
#include "resolver/wire/upstream_query.hpp"
#include "tests/dnsd/query/fake_parts.hpp"
#include "tests/registry/core/fixture.hpp"

namespace meshdns::dnsd {

struct AskOptions {
  bool tcp = false;
  bool edns = true;
  std::uint16_t bufsize = 1232;
  bool dnssec_ok = false;
  bool recursion_desired = true;
  std::string cookie = "";
  std::string from = "127.0.0.1";
  std::string local = "127.0.0.1";
};

class QueryFixture : public testing::Test {
 protected:
  void load(std::string_view yaml) { registry_.load(yaml); }
  void load_api() {
    load(R"(
ServiceEntry /api
spec: { hosts: [api.example.org], addresses: [10.0.0.7], resolution: STATIC }
)");
  }
  void be_in(std::string ns) { registry_.be_in(std::move(ns)); }
  // From now on; resources stay.
  void configure(registry::MeshSettings settings) {
    registry_.registry().set_settings(std::move(settings));
  }
  void be_authority() { registry_.registry().set_sources({.authoritative = true}); }

  // The reply's octets, or what stands for them.
  std::string ask_raw(std::string_view question, const AskOptions& options = {}) {
    publish();
    const std::size_t space = question.rfind(' ');
    const std::string_view name = question.substr(0, question.find(' '));
    wire::UpstreamQuery query{.id = 0x1234,
                              .recursion_desired = options.recursion_desired,
                              .edns = options.edns,
                              .udp_payload = options.bufsize,
                              .dnssec_ok = options.dnssec_ok,
                              .cookie = options.cookie};
    const std::string wire_name = *wire::name_from_text(name);
    query.name = wire_name;
    if (!wire::type_from_string(question.substr(space + 1), query.type)) ADD_FAILURE() << question;
    if (question.find(" CH ") != std::string_view::npos) query.qclass = wire::Class::Chaos;
    if (question.find(" HS ") != std::string_view::npos) query.qclass = wire::Class{4};
    std::vector<std::uint8_t> buffer(options.tcp ? kTcpBufferSize : kUdpBufferSize);
    const std::size_t size = wire::build_query(buffer, query);
    return ask_octets(buffer, size, options);
  }

  std::string ask_octets(std::vector<std::uint8_t>& buffer, std::size_t size,
                         const AskOptions& options = {}) {
    publish();
    ReplyTo reply_to;
    reply_to.client = {*IpAddress::parse(options.from), 4711, *IpAddress::parse(options.local),
                       options.tcp};
    const std::size_t before = upstream_.asked.size();
    const std::size_t reply = handler().on_query(buffer, size, reply_to);
    if (reply == QuerySink::kNoReply) return "NO REPLY";
    if (reply == QuerySink::kReplyLater)
      return upstream_.asked.size() == before ? "WAIT" : "FORWARD " + upstream_.asked.back();
    reply_.assign(buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(reply));
    return {};
  }

  std::string ask(std::string_view question, const AskOptions& options = {}) {
    const std::string later = ask_raw(question, options);
    if (later.starts_with("FORWARD ")) {
      // The question itself, or where aliases of ours lead.
      const std::string sent = later.substr(8);
      return equals_ignoring_case(sent, question) ? "FORWARD" : later;
    }
    return later.empty() ? summary(reply_) : later;
  }

  // The same, with the upstream's help.
  std::string ask_through(std::string_view question, const AskOptions& options = {}) {
    const std::string later = ask_raw(question, options);
    if (later.empty()) return summary(reply_);
    const std::size_t before = replies_.sent.size();
    upstream_.settle();
    return replies_.sent.size() == before ? later : summary(replies_.last);
  }

  std::string summary(const std::vector<std::uint8_t>& octets) {
    const auto parsed = wire::parse_response(octets);
    if (!parsed) return "MALFORMED: " + parsed.error().message;
    message_ = *parsed;
    EXPECT_EQ(message_.id, 0x1234);
    EXPECT_TRUE(message_.recursion_available);
    EXPECT_FALSE(message_.authentic_data);
    std::vector<std::string> parts;
    const bool negative = message_.answer.empty() && message_.authoritative &&
                          message_.authority.size() == 1 &&
                          message_.authority[0].type == wire::Type::Soa;
    if (negative && message_.rcode == wire::Rcode::NoError)
      parts.push_back("NODATA " + wire::name_to_text(message_.authority[0].owner));
    else if (negative && message_.rcode == wire::Rcode::NxDomain)
      parts.push_back("NXDOMAIN " + wire::name_to_text(message_.authority[0].owner));
    else
      describe(parts);
    if (message_.truncated) parts.push_back("TC");
    const auto glue = static_cast<std::ptrdiff_t>(parts.size());
    for (const auto& record : message_.additional) parts.push_back("+ " + text_of(record));
    std::ranges::sort(parts.begin() + glue, parts.end());  // they rotate
    std::string line;
    for (const auto& part : parts) line += (line.empty() ? "" : ", ") + part;
    return line.empty() ? "EMPTY" : line;
  }

  QueryHandler& handler() {
    if (!handler_) {
      publish();
      handler_ = std::make_unique<QueryHandler>(
          QueryHandlerParts{*publisher_, upstream_, replies_, clock_, nullptr, {}}, settings_);
    }
    return *handler_;
  }
  void publish() {
    if (!publisher_)
      publisher_ = std::make_unique<registry::Publisher>(registry_.registry().current());
    else if (publisher_->current() != registry_.registry().current())
      publisher_->publish(registry_.registry().current());
  }

  registry::TestRegistry registry_;
  std::unique_ptr<registry::Publisher> publisher_;
  FakeUpstream upstream_;
  KeptReplies replies_;
  StandingClock clock_;
  QuerySettings settings_ = QuerySettings::from(Config{});
  std::unique_ptr<QueryHandler> handler_;
  std::vector<std::uint8_t> reply_;
  wire::ResponseMessage message_;

 private:
  // "web. 5 A 10.96.0.1": without class, escapes as in zone files.
  static std::string text_of(const wire::ResponseRecord& record) {
    std::string text = wire::record_to_text(record);
    for (const char* rclass : {"IN", "CH"}) {
      const std::size_t at = text.find(std::string(" ") + rclass + " ");
      if (at != std::string::npos) text.erase(at, 3);
    }
    std::ranges::replace(text, '\t', ' ');
    return text;
  }
  void describe(std::vector<std::string>& parts) const {
    if (!message_.authoritative) parts.push_back("not aa");
    if (message_.rcode != wire::Rcode::NoError)
      parts.push_back(std::string(wire::to_string(message_.rcode)));
    std::vector<std::string> answers;
    for (const auto& record : message_.answer) answers.push_back(text_of(record));
    // Addresses rotate; everything else keeps its order.
    if (std::ranges::all_of(message_.answer,
                            [&](const auto& r) { return r.type == message_.answer[0].type; }))
      std::ranges::sort(answers);
    parts.insert(parts.end(), answers.begin(), answers.end());
    for (const auto& record : message_.authority)
      parts.push_back("@ " + wire::name_to_text(record.owner) + " " + wire::to_string(record.type));
    for (const auto& [code, text] : message_.extended_errors)
      parts.push_back("EDE " + std::to_string(code));
  }
};

// Asks every question of a table; one row: question, expected answer.
struct Row {
  const char* question;
  const char* answer;
};

}  // namespace meshdns::dnsd
