// SPDX-License-Identifier: Apache-2.0
#include "tests/resolver/forward/fake_upstream.hpp"

#include <algorithm>
#include <utility>

namespace meshdns::dnsd::test {
namespace {

using Rules = std::vector<UpstreamRule>;

const UpstreamRule kTruncated{.transport = "udp", .truncate = true};

std::vector<std::string> many_addresses() {
  std::vector<std::string> lines;
  for (int i = 0; i < 300; ++i)
    lines.push_back("@ 300 A 192.0." + std::to_string(i / 250 + 2) + "." +
                    std::to_string(i % 250 + 1));
  return lines;
}

UpstreamRule forged(const char* what, const char* transport = "") {
  return {.transport = transport, .forge = what, .then = true};
}

UpstreamRule refused(const char* rcode, const char* when = "") {
  return {.when = when, .rcode = rcode};
}

// A query that no rule is for gets the truth.
const std::map<Behaviour, Rules> kRules = {
    {Behaviour::Answer, {}},
    {Behaviour::Dead, {{.silent = true}}},
    {Behaviour::Slow, {{.delay_ms = 600}}},
    {Behaviour::VerySlow, {{.delay_ms = 4'000}}},
    {Behaviour::Loss30, {{.percent = 30, .silent = true}}},
    {Behaviour::WrongId, {forged("wrong_id")}},
    {Behaviour::WrongQuestion, {forged("wrong_name")}},
    {Behaviour::WrongType, {forged("wrong_type")}},
    {Behaviour::WrongSource, {forged("wrong_port")}},
    {Behaviour::NotAResponse, {forged("not_a_response")}},
    {Behaviour::WrongOpcode, {forged("wrong_opcode")}},
    {Behaviour::Garbage, {forged("garbage")}},
    {Behaviour::Cut, {{.cut = true}}},
    {Behaviour::CutOverUdp, {{.transport = "udp", .cut = true}}},
    {Behaviour::ForgedFlood, {{.transport = "udp", .forge = "wrong_id", .copies = 40}}},
    {Behaviour::Truncate, {kTruncated, {.answer = many_addresses()}}},
    {Behaviour::TruncateThenTcp, {kTruncated}},
    {Behaviour::TruncateThenLateTcp, {kTruncated, {.delay_ms = 40}}},
    {Behaviour::TruncateThenSlowTcp, {kTruncated, {.delay_ms = 1'300}}},
    {Behaviour::TruncateNoTcp, {kTruncated, {.drop = true}}},
    {Behaviour::TruncateCutOnce, {kTruncated, {.times = 1, .drop = true}}},
    {Behaviour::TruncateThenHang, {kTruncated, {.silent = true}}},
    {Behaviour::ServFail, {refused("SERVFAIL")}},
    {Behaviour::Refused, {refused("REFUSED")}},
    {Behaviour::NotImp, {refused("NOTIMP")}},
    {Behaviour::FormErr, {refused("FORMERR")}},
    {Behaviour::NxDomain,
     {{.rcode = "NXDOMAIN",
       .authority = {"example.org. 60 SOA ns.example.org. h.example.org. 1 2 3 4 60"}}}},
    {Behaviour::NxDomainWithoutSoa, {refused("NXDOMAIN")}},
    {Behaviour::AliasLoop,
     {{.answer = {"@ 60 CNAME y.example.org.", "y.example.org. 60 CNAME @"}}}},
    {Behaviour::TtlZero, {{.answer = {"@ 0 A 192.0.2.1"}}}},
    {Behaviour::TtlTopBit, {{.answer = {"@ 2147483653 A 192.0.2.1"}}}},
    {Behaviour::LowerCase, {{.spelling = UpstreamRule::Spelling::Lower}}},
    {Behaviour::UpperCase, {{.spelling = UpstreamRule::Spelling::Upper}}},
    {Behaviour::FormErrOnEdns, {{.formerr_on_edns = true}}},
    {Behaviour::BareFormErrOnEdns, {{.formerr_on_edns = true, .bare = true}}},
    {Behaviour::NearlyBareFormErr, {{.forge = "nearly_bare", .copies = 5, .then = true}}},
    {Behaviour::FormErrWithOptOnEdns, {refused("FORMERR", "edns")}},
    {Behaviour::FormErrOnCookie, {refused("FORMERR", "cookie")}},
    {Behaviour::NotImpOnCookie, {refused("NOTIMP", "cookie")}},
    {Behaviour::RefusedOnCookie, {refused("REFUSED", "cookie")}},
    {Behaviour::BadVersOnCookie, {refused("BADVERS", "cookie")}},
    {Behaviour::WrongCookie, {forged("strange_cookie", "udp")}},
    {Behaviour::BadCookie,
     {{.when = "new", .rcode = "BADCOOKIE", .cookie = true}, {.cookie = true}}},
    {Behaviour::BadCookieOverUdp, {{.transport = "udp", .rcode = "BADCOOKIE", .cookie = true}}},
    {Behaviour::WithCookie, {{.cookie = true}}},
    {Behaviour::ForgedNoCookie,
     {{.transport = "udp", .forge = "no_cookie", .then = true, .cookie = true}, {.cookie = true}}},
    // The forger also answers the query without EDNS that this reply may cause.
    {Behaviour::ForgedFormErr,
     {{.transport = "udp", .when = "plain", .forge = "lie"},
      {.transport = "udp", .forge = "bare", .then = true, .cookie = true},
      {.cookie = true}}},
    {Behaviour::NoCookieNoTcp, {{.transport = "tcp", .drop = true}}},
};

// Probes are answered, unless a server is as bad as this.
bool concerns_probes(Behaviour behaviour) {
  return behaviour == Behaviour::Dead || behaviour == Behaviour::Slow ||
         behaviour == Behaviour::Loss30 || behaviour == Behaviour::RefusedOnCookie;
}

bool has_cookies(Behaviour behaviour) {
  return behaviour == Behaviour::BadCookie || behaviour == Behaviour::BadCookieOverUdp ||
         behaviour == Behaviour::WithCookie || behaviour == Behaviour::ForgedNoCookie ||
         behaviour == Behaviour::ForgedFormErr;
}

}  // namespace

FakeUpstream::FakeUpstream(uv_loop_t* loop, Behaviour behaviour)
    : scripted_(loop, [this](const Received& query) { return on_query(query); }),
      behaviour_(behaviour) {
  set_rules();
}

UpstreamServer FakeUpstream::server() const { return *parse_upstream_server(scripted_.server()); }

void FakeUpstream::behave(Behaviour behaviour) {
  behaviour_ = behaviour;
  set_rules();
}

void FakeUpstream::behave(const std::string& name, Behaviour behaviour) {
  of_names_[name] = behaviour;
  set_rules();
}

void FakeUpstream::set_ttl(std::uint32_t ttl) {
  ttl_ = ttl;
  set_rules();
}

std::size_t FakeUpstream::count(std::string_view name) const {
  return static_cast<std::size_t>(std::ranges::count(received, name, &Received::name));
}

bool FakeUpstream::on_query(const Received& query) {
  const bool counts = query.name.ends_with("example.org");
  if (counts) received.push_back(query);
  return counts || !answers_only_example_org;
}

void FakeUpstream::set_rules() {
  Rules rules;
  const auto add = [&rules](const std::string& match, Behaviour behaviour) {
    for (const UpstreamRule& rule : kRules.at(behaviour)) {
      rules.push_back(rule);
      rules.back().match = match;
    }
  };
  for (const auto& [name, behaviour] : of_names_) {
    add(name + ".", behaviour);
    rules.push_back({.match = name + "."});
  }
  add(concerns_probes(behaviour_) ? "" : "*.example.org.", behaviour_);
  if (has_cookies(behaviour_)) rules.push_back({.cookie = true});
  scripted_.set(UpstreamZone({"*. " + std::to_string(ttl_) + " A 192.0.2.1"}), std::move(rules));
}

}  // namespace meshdns::dnsd::test
