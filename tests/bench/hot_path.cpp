// SPDX-License-Identifier: Apache-2.0
// The query path without sockets, for counting its instructions: each workload is answered in
// batches of 64, as a worker would.  Under callgrind every workload's counts are dumped by
// themselves, named after it; alone the program prints the time per query instead.
//
//   hot_path [QUERIES]
#include <valgrind/callgrind.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dnsd/query/query_handler.hpp"
#include "registry/registry.hpp"
#include "resolver/wire/name_text.hpp"
#include "resolver/wire/types.hpp"
#include "resolver/wire/upstream_query.hpp"
#include "tests/bench/entries.hpp"
#include "tests/bench/still_parts.hpp"

namespace meshdns::bench {
namespace {

using dnsd::Datagram;
using wire::Type;

constexpr std::size_t kNames = 1000;
constexpr std::size_t kBatchSize = 64;
constexpr std::size_t kWarmUp = 50'000;

// 100,000 queries a second in batches of 64: what the handler samples depends on their rate.
class PacedClock final : public dnsd::QueryClock {
 public:
  dnsd::Millis now() override { return kNow; }
  std::uint64_t precise_now() override { return now_ns_ += kStepNs; }
  std::uint32_t unix_time() override { return static_cast<std::uint32_t>(kNow / 1000); }
  void call_at(dnsd::Millis, std::function<void()>) override {}
  void cancel() override {}
  void close() override {}

 private:
  static constexpr std::uint64_t kStepNs = 320'000;  // it is read at both ends of a batch
  std::uint64_t now_ns_ = kNow * 1'000'000;
};

[[noreturn]] void die(const std::string& why) {
  std::fprintf(stderr, "hot_path: %s\n", why.c_str());
  std::exit(1);
}

// One address for each name.
void learn(CacheAlone& upstream, const std::string& name) {
  wire::ResponseMessage response = answer_to(name, Type::A);
  response.answer.push_back(record_of(name, Type::A, std::string("\x0a\x63\x00\x01", 4)));
  if (!upstream.learn(response)) die("no answer can be built for " + name);
}

struct Workload {
  const char* name;
  std::function<std::string(std::size_t)> question;  // of the i-th query
  Type type = Type::A;
  bool edns = false;
  bool tcp = false;
  std::string client = "127.0.0.1";
  wire::Rcode rcode = wire::Rcode::NoError;
  unsigned answers = 1;
};

std::vector<Workload> workloads() {
  const auto own = [](std::size_t i) { return host(i) + "."; };
  const auto nobodys = [](std::size_t i) {
    return "unknown-" + std::to_string(i) + ".shop.svc.cluster.local.";
  };
  return {
      {.name = "address", .question = own},
      {.name = "address-edns", .question = own, .edns = true},
      {.name = "no-aaaa", .question = own, .type = Type::Aaaa, .answers = 0},
      {.name = "rotation",
       .question = [](std::size_t i) { return "rotated-" + std::to_string(i) + ".mesh.example."; },
       .answers = 3},
      {.name = "wildcard",
       .question = [](std::size_t i) { return "a.wild-" + std::to_string(i) + ".mesh.example."; }},
      {.name = "view", .question = own, .client = "10.200.0.7"},
      {.name = "nxdomain", .question = nobodys, .rcode = wire::Rcode::NxDomain, .answers = 0},
      {.name = "search",
       .question = [](std::size_t i) { return host(i) + ".default.svc.cluster.local."; },
       .answers = 2},
      {.name = "headless-tcp",
       .question = [](std::size_t) { return std::string("headless.mesh.example."); },
       .tcp = true,
       .answers = 300},
      {.name = "cached",
       .question = [](std::size_t i) { return "cached-" + std::to_string(i) + ".up.example."; }},
  };
}

// Clients of namespaces with and without a Sidecar, told apart by their addresses.
constexpr std::string_view kClients = R"(
apiVersion: v1
kind: Pod
metadata: { name: web, namespace: team }
status: { phase: Running, podIP: 10.200.0.7, podIPs: [{ ip: 10.200.0.7 }] }
---
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: { name: default, namespace: team }
spec: { egress: [{ hosts: ["other/*", "*/*.mesh.example"] }] }
)";

registry::MeshSettings mesh_settings() {
  registry::MeshSettings settings;
  settings.search_shortcut = registry::SearchShortcut::Known;
  return settings;
}

class HotPath {
 public:
  HotPath() : registry_(mesh_settings()) {
    registry::ClientSettings clients;
    clients.default_identity.ns = "default";
    clients.by_source_address = true;
    clients.unknown = registry::UnknownClient::Default;
    registry_.set_clients(std::move(clients));
    registry_.set_sources({.authoritative = true});
    load(manifests(kNames));
    load(std::string(kClients));
    for (std::size_t i = 0; i < kNames; ++i)
      learn(upstream_, "cached-" + std::to_string(i) + ".up.example.");
    publisher_ = std::make_unique<registry::Publisher>(registry_.current());
    handler_ = std::make_unique<dnsd::QueryHandler>(
        dnsd::QueryHandlerParts{*publisher_, upstream_, replies_, clock_, nullptr, {}},
        dnsd::QuerySettings::from(dnsd::Config{}));
  }

  // Until the handler has found the rate of the queries.
  void warm_up(const Workload& workload) {
    prepare(workload);
    for (std::size_t i = 0; i < kWarmUp; i += kBatchSize) answer(workload, i, false);
  }
  // All names once before it counts, which also checks the answers.
  void run(const Workload& workload, std::size_t queries) {
    prepare(workload);
    for (std::size_t i = 0; i < kNames; i += kBatchSize) answer(workload, i, true);
    std::chrono::nanoseconds spent{0};
    CALLGRIND_ZERO_STATS;
    for (std::size_t i = 0; i < queries; i += kBatchSize) {
      fill(workload, i);
      const auto begin = std::chrono::steady_clock::now();
      handler_->on_batch(batch_);
      spent += std::chrono::steady_clock::now() - begin;
    }
    CALLGRIND_DUMP_STATS_AT(workload.name);
    if (RUNNING_ON_VALGRIND == 0)
      std::printf("%-14s %7.1f ns\n", workload.name,
                  static_cast<double>(spent.count()) / static_cast<double>(queries));
  }

 private:
  void load(const std::string& yaml) {
    registry::Transaction transaction;
    read_into(yaml, transaction, "world.yaml");
    registry_.commit(std::move(transaction));
  }

  void prepare(const Workload& workload) {
    queries_.clear();
    for (std::size_t i = 0; i < kNames; ++i) {
      std::vector<std::uint8_t> octets(512);
      const std::string name = *wire::name_from_text(workload.question(i));
      octets.resize(
          wire::build_query(octets, {.name = name, .type = workload.type, .edns = workload.edns}));
      queries_.push_back(std::move(octets));
    }
    const std::size_t size = workload.tcp ? dnsd::kTcpBufferSize : dnsd::kUdpBufferSize;
    for (std::size_t i = 0; i < kBatchSize; ++i) {
      buffers_[i].resize(dnsd::kTcpBufferSize);
      batch_[i].buffer = std::span(buffers_[i]).first(size);
      batch_[i].reply_to.client = {*IpAddress::parse(workload.client), 4711,
                                   *IpAddress::parse("127.0.0.1"), workload.tcp};
    }
  }
  void fill(const Workload&, std::size_t first) {
    for (std::size_t i = 0; i < kBatchSize; ++i) {
      // 7 names further each time: neighbours in the registry are no neighbours here.
      const auto& query = queries_[(first + i) * 7 % kNames];
      std::copy(query.begin(), query.end(), buffers_[i].begin());
      batch_[i].query_size = query.size();
    }
  }
  void answer(const Workload& workload, std::size_t first, bool check) {
    fill(workload, first);
    handler_->on_batch(batch_);
    for (std::size_t i = 0; check && i < kBatchSize; ++i) {
      const auto& reply = buffers_[i];
      if (batch_[i].reply_size > reply.size() ||
          (reply[3] & 15) != static_cast<int>(workload.rcode) ||
          reply[6] * 256U + reply[7] != workload.answers)
        die(std::string(workload.name) + ": a wrong answer");
    }
  }

  registry::Registry registry_;
  CacheAlone upstream_;
  NoReplies replies_;
  PacedClock clock_;
  std::unique_ptr<registry::Publisher> publisher_;
  std::unique_ptr<dnsd::QueryHandler> handler_;
  std::vector<std::vector<std::uint8_t>> queries_;
  std::array<std::vector<std::uint8_t>, kBatchSize> buffers_;
  std::array<Datagram, kBatchSize> batch_;
};

}  // namespace
}  // namespace meshdns::bench

int main(int argc, char** argv) {
  using namespace meshdns::bench;
  const std::size_t queries = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 64'000;
  if (queries < kBatchSize) die("at least 64 queries");
  HotPath path;
  path.warm_up(workloads().front());
  for (const Workload& workload : workloads())
    path.run(workload, queries / kBatchSize * kBatchSize);
}
