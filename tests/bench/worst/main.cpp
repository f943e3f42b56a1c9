// SPDX-License-Identifier: Apache-2.0
// The queries that cost most, searched for among shapes that are meant to be nasty: a registry of
// large Services, many namespaces and long chains, a cache of large answers, and every question put
// to them over UDP with each size of EDNS and over TCP.  Prints the table of the worst, in
// microseconds of CPU per query; the budget is 50.
//
//   bench_worst_queries [BUDGET_US [TEXT]]    fails if a query costs more (0: no limit); TEXT: only
//                                             questions whose description contains it
//   bench_worst_queries --world DIRECTORY     writes the registry's objects there, for a daemon
#include <time.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "dnsd/query/query_handler.hpp"
#include "registry/registry.hpp"
#include "resolver/wire/types.hpp"
#include "resolver/wire/upstream_query.hpp"
#include "tests/bench/entries.hpp"
#include "tests/bench/still_parts.hpp"
#include "tests/bench/worst/shapes.hpp"
#include "tests/bench/worst/world.hpp"

namespace meshdns::bench {
namespace {

constexpr std::size_t kShown = 40;
constexpr double kLeastSeconds = 0.004;      // of each measurement
constexpr double kLeastSecondsOfSome = 0.2;  // for a profiler, if only some questions are asked
constexpr std::size_t kRounds = 6;           // the best of these counts
constexpr double kSuspect = 35;              // microseconds
constexpr int kMaxAgain = 5;

[[noreturn]] void die(const std::string& why) {
  std::fprintf(stderr, "worst_queries: %s\n", why.c_str());
  std::exit(1);
}

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// --- the upstream's answers ----------------------------------------------------------------------

std::string wire_of(const std::string& name) { return *wire::name_from_text(name); }

std::string bytes_of(std::size_t i) {
  return {static_cast<char>(i >> 24), static_cast<char>(i >> 16), static_cast<char>(i >> 8),
          static_cast<char>(i)};
}

wire::ResponseMessage addresses(const std::string& name, std::size_t count) {
  wire::ResponseMessage response = answer_to(name, Type::A);
  for (std::size_t i = 0; i < count; ++i)
    response.answer.push_back(record_of(name, Type::A, bytes_of(0xc6120000U + i)));
  return response;
}

// Names of 120 labels whose ends they share.
wire::ResponseMessage exchangers(const std::string& name) {
  wire::ResponseMessage response = answer_to(name, Type::Mx);
  std::string shared;
  for (int i = 0; i < 110; ++i) shared += "a.";
  for (std::size_t i = 0; i < 4'000; ++i)
    response.answer.push_back(record_of(
        name, Type::Mx,
        std::string("\0\1", 2) + wire_of("m" + number(i) + "." + shared + "up.example.")));
  return response;
}

// Each name is the one before with other letters at its end: nothing can be shared.
wire::ResponseMessage unlike_exchangers(const std::string& name) {
  wire::ResponseMessage response = answer_to(name, Type::Mx);
  for (std::size_t i = 0; i < 2'000; ++i) {
    std::string target;
    for (std::size_t label = 0; label < 120; ++label)
      target += static_cast<char>('a' + (i >> (label % 11)) % 2 + label % 13), target += '.';
    response.answer.push_back(record_of(name, Type::Mx, std::string("\0\1", 2) + wire_of(target)));
  }
  return response;
}

wire::ResponseMessage types(const std::string& name, std::size_t count) {
  wire::ResponseMessage response = answer_to(name, Type::Any);
  for (std::size_t i = 0; i < count; ++i)
    response.answer.push_back(record_of(name, static_cast<Type>(1'000 + i), "x"));
  return response;
}

wire::ResponseMessage with_aliases(wire::ResponseMessage response, const std::string& name,
                                   std::size_t links) {
  const std::string target = response.question_name;
  wire::ResponseMessage behind = answer_to(name, response.question.type);
  std::string at = name;
  for (std::size_t i = 0; i < links; ++i) {
    const std::string next = "link-" + number(i) + ".up.example.";
    behind.answer.push_back(record_of(at, Type::Cname, i + 1 == links ? target : wire_of(next)));
    at = next;
  }
  behind.answer.insert(behind.answer.end(), response.answer.begin(), response.answer.end());
  return behind;
}

struct Way {
  const char* name;
  bool tcp;
  std::uint16_t edns;  // the client's size; 0 = no EDNS
};
constexpr std::array kWays = {Way{"UDP", false, 0}, Way{"UDP 512", false, 512},
                              Way{"UDP 1232", false, 1232}, Way{"UDP 4096", false, 4096},
                              Way{"TCP", true, 4096}};

struct Result {
  double us;
  std::string what;
  std::string way;
  std::string outcome;
};

class Search {
 public:
  explicit Search(registry::Claims claims) : registry_(mesh(claims)) {
    registry::ClientSettings clients;
    clients.default_identity.ns = "default";
    clients.by_source_address = true;
    clients.unknown = registry::UnknownClient::Default;
    registry_.set_clients(std::move(clients));
    registry_.set_sources({.authoritative = true});
    registry::Transaction transaction;
    for (const Manifest& manifest : world())
      read_into(manifest.yaml, transaction, "world.yaml", manifest.network);
    registry_.commit(std::move(transaction));
    publisher_ = std::make_unique<registry::Publisher>(registry_.current());
    dnsd::QuerySettings settings = dnsd::QuerySettings::from(dnsd::Config{});
    settings.dns64 = IpPrefix::parse("64:ff9b::/96");
    settings.chaos = dnsd::ChaosAccess::Allowed;
    handler_ = std::make_unique<dnsd::QueryHandler>(
        dnsd::QueryHandlerParts{*publisher_, upstream_, replies_, clock_, nullptr, {}}, settings);
  }

  void ask_everything(std::string_view filter) {
    if (!filter.empty()) least_seconds_ = kLeastSecondsOfSome;
    for (const Shape& shape : shapes())
      for (const Way& way : kWays)
        if (shape.what.find(filter) != std::string::npos) ask(shape, way);
    if (results_.empty()) die("no question is described so");
  }

  // Measures the cost of an upstream message until it is in the cache.
  void take_everything() {
    const auto text = [](const std::string& name) {
      wire::ResponseMessage response = answer_to(name, Type::Txt);
      for (std::size_t i = 0; i < 250; ++i)
        response.answer.push_back(record_of(
            name, Type::Txt, std::string(1, '\xfa') + std::string(246, 'x') + bytes_of(i)));
      return response;
    };
    const auto no_ipv6 = [](const std::string& name) {
      wire::ResponseMessage response = answer_to(name, Type::Aaaa);
      std::string soa =
          wire_of("ns.up.example.") + wire_of("h.up.example.") + std::string(16, '\0');
      response.authority.push_back(
          record_of("up.example.", Type::Soa, soa + std::string("\0\0\x0e\x10", 4)));
      return response;
    };
    const std::string large = "large.up.example.";
    const std::string alias = "alias.up.example.";
    const std::string chain = "chain.up.example.";
    for (const auto& [name, links] :
         {std::pair{large, std::size_t{0}}, {alias, std::size_t{1}}, {chain, std::size_t{8}}}) {
      take("4,000 addresses", with_aliases(addresses(large, 4'000), name, links), links);
      take("4,000 MX", with_aliases(exchangers(large), name, links), links);
      take("250 TXT", with_aliases(text(large), name, links), links);
      take("4,090 types", types(name, 4'090), 0);
      upstream_.learn(no_ipv6(name));
    }
    // The first names of search walks, so that the walks go on.
    for (const std::size_t labels : {70, 80}) {
      wire::ResponseMessage denial = no_ipv6(deep_name(labels, ""));
      denial.rcode = wire::Rcode::NxDomain;
      for (const Type type : {Type::A, Type::Https, Type::Srv}) {
        denial.question.name =
            wire_of((type == Type::Srv ? "_http._tcp." : "") + deep_name(labels, ""));
        denial.question_name = denial.question.name;
        denial.question.type = type;
        upstream_.learn(denial);
      }
    }
    take("2,000 unlike MX", unlike_exchangers("unlike.up.example."), 0);
  }

  // The most expensive queries first.  Returns the worst, in microseconds.
  double report() {
    std::ranges::sort(results_, std::greater<>{}, &Result::us);
    const std::size_t asked = results_.size();
    // Of each question its worst way.
    std::set<std::string> shown;
    std::erase_if(results_, [&](const Result& each) { return !shown.insert(each.what).second; });
    std::printf("%9s  %-9s %-46s %s\n", "us", "over", "question", "answer");
    for (std::size_t i = 0; i < std::min(kShown, results_.size()); ++i)
      std::printf("%9.1f  %-9s %-46s %s\n", results_[i].us, results_[i].way.c_str(),
                  results_[i].what.c_str(), results_[i].outcome.c_str());
    std::printf("%zu kinds of query; the worst takes %.1f us\n", asked, results_[0].us);
    std::ranges::sort(taken_, std::greater<>{}, &Result::us);
    std::printf("\nAnswers of upstreams, made ready for the cache once each:\n");
    for (const Result& each : taken_)
      std::printf("%9.1f  %-56s %s\n", each.us, each.what.c_str(), each.outcome.c_str());
    return results_[0].us;
  }

 private:
  static registry::MeshSettings mesh(registry::Claims claims) {
    registry::MeshSettings settings;
    settings.claims = claims;
    settings.search_shortcut = registry::SearchShortcut::All;
    settings.reverse_zones = {"10.in-addr.arpa", "0.0.d.f.ip6.arpa"};
    return settings;
  }

  // Repeats `work` until it has run long enough; microseconds of CPU of one.
  template <typename Work>
  double measure(const Work& work) const {
    double best = 1e9;
    for (std::size_t round = 0; round < kRounds; ++round) {
      std::size_t times = 0;
      const double begin = cpu_seconds();
      double spent = 0;
      for (std::size_t batch = 1; spent < least_seconds_; batch *= 2) {
        for (std::size_t i = 0; i < batch; ++i) work();
        times += batch;
        spent = cpu_seconds() - begin;
      }
      best = std::min(best, spent * 1e6 / static_cast<double>(times));
    }
    return best;
  }

  void ask(const Shape& shape, const Way& way) {
    std::vector<std::uint8_t> query(512);
    const std::string name = wire_of(shape.name);
    query.resize(wire::build_query(query, {.name = name,
                                           .type = shape.type,
                                           .qclass = shape.qclass,
                                           .edns = way.edns != 0,
                                           .udp_payload = way.edns}));
    std::vector<std::uint8_t> buffer(dnsd::kTcpBufferSize);
    dnsd::Datagram datagram;
    datagram.buffer =
        std::span(buffer).first(way.tcp ? dnsd::kTcpBufferSize : dnsd::kUdpBufferSize);
    datagram.reply_to.client = {*IpAddress::parse(shape.client), 4711,
                                *IpAddress::parse("127.0.0.1"), way.tcp};
    const auto ask_once = [&] {
      std::ranges::copy(query, buffer.begin());
      datagram.query_size = query.size();
      handler_->on_batch({&datagram, 1});
      if (datagram.reply_size == dnsd::QuerySink::kReplyLater) upstream_.fail_all();
    };
    double us = measure(ask_once);
    // A neighbour on the machine makes a query look dear: what seems to be is measured again.
    for (int again = 0; again < kMaxAgain && us > kSuspect; ++again)
      us = std::min(us, measure(ask_once));
    results_.push_back({us, shape.what, way.name, outcome_of(datagram, buffer)});
  }

  static std::string outcome_of(const dnsd::Datagram& datagram,
                                const std::vector<std::uint8_t>& reply) {
    if (datagram.reply_size == dnsd::QuerySink::kReplyLater) return "asked upstream";
    if (datagram.reply_size == dnsd::QuerySink::kNoReply) return "no reply";
    return std::string(wire::to_string(static_cast<wire::Rcode>(reply[3] & 15))) + ", " +
           number(reply[6] * 256U + reply[7]) + " records, " + number(datagram.reply_size) +
           " octets" + ((reply[2] & 2) != 0 ? ", TC" : "");
  }

  void take(const std::string& what, const wire::ResponseMessage& response, std::size_t links) {
    bool taken = false;
    const double us = measure([&] { taken = upstream_.learn(response); });
    taken_.push_back({us, what + ", " + number(links) + " aliases", "", taken ? "" : "refused"});
  }

  registry::Registry registry_;
  CacheAlone upstream_;
  NoReplies replies_;
  StandingClock clock_;
  std::unique_ptr<registry::Publisher> publisher_;
  std::unique_ptr<dnsd::QueryHandler> handler_;
  std::vector<Result> results_;
  std::vector<Result> taken_;
  double least_seconds_ = kLeastSeconds;
};

// Writes the objects for a daemon, without those of clusters with a network of their own.
int write_world(const std::string& directory) {
  std::size_t files = 0;
  for (const Manifest& manifest : world()) {
    if (!manifest.network.empty()) continue;
    std::ofstream file(directory + "/world-" + number(files++) + ".yaml");
    if (!(file << manifest.yaml).flush()) die("cannot write to " + directory);
  }
  return 0;
}

}  // namespace
}  // namespace meshdns::bench

int main(int argc, char** argv) {
  using namespace meshdns::bench;
  if (argc == 3 && std::string_view(argv[1]) == "--world") return write_world(argv[2]);
  const double budget = argc > 1 ? std::strtod(argv[1], nullptr) : 0;
  double worst = 0;
  for (const auto claims : {meshdns::registry::Claims::Istio, meshdns::registry::Claims::Strict}) {
    std::printf("mesh.claims: %s\n",
                claims == meshdns::registry::Claims::Istio ? "istio" : "strict");
    Search search(claims);
    search.take_everything();
    search.ask_everything(argc > 2 ? argv[2] : "");
    worst = std::max(worst, search.report());
  }
  if (budget > 0 && worst > budget) die("a query costs more than the budget");
}
