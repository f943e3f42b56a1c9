// SPDX-License-Identifier: Apache-2.0
// Single parts, timed by Google Benchmark: reading a query, looking a name up, committing one
// change, at several sizes of the registry.  `./dev bench --parts` runs it; arguments go to Google
// Benchmark.
#include <benchmark/benchmark.h>

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dnsd/kernel/answer_slots.hpp"
#include "registry/registry.hpp"
#include "registry/view/view.hpp"
#include "resolver/wire/name_text.hpp"
#include "resolver/wire/query_message.hpp"
#include "resolver/wire/upstream_query.hpp"
#include "tests/bench/entries.hpp"

namespace meshdns::bench {
namespace {

using registry::EndpointSlice;
using registry::KubeService;
using registry::Registry;
using registry::Transaction;

constexpr std::size_t kEndpoints = 10;

std::string ns_of(std::size_t i) { return "ns-" + std::to_string(i % 1000); }
std::string name_of(std::size_t i) { return "web-" + std::to_string(i); }
std::string host_of(std::size_t i) { return name_of(i) + "." + ns_of(i) + ".svc.cluster.local"; }

// The endpoints of headless service `i`; `version` moves one of them.
EndpointSlice slice(std::size_t i, std::size_t version) {
  EndpointSlice slice;
  slice.meta.name = name_of(i) + "-x";
  slice.meta.ns = ns_of(i);
  slice.service = name_of(i);
  auto& subset = slice.subsets.emplace_back();
  subset.ports.push_back({8080, 8080, "http", "TCP"});
  for (std::size_t k = 0; k < kEndpoints; ++k) {
    const std::size_t n = i * kEndpoints + k;
    registry::Endpoint endpoint;
    const std::size_t moved = k == 0 ? version : 0;
    endpoint.addresses.push_back(IpAddress::v4(
        {static_cast<std::uint8_t>(11 + moved % 200), static_cast<std::uint8_t>(n >> 16),
         static_cast<std::uint8_t>(n >> 8), static_cast<std::uint8_t>(n)}));
    endpoint.target_name = name_of(i) + "-" + std::to_string(k);
    subset.endpoints.push_back(std::move(endpoint));
  }
  return slice;
}

std::unique_ptr<Registry> registry_of(std::size_t services) {
  auto registry = std::make_unique<Registry>(registry::MeshSettings());
  registry->set_sources({.authoritative = true});
  Transaction transaction;
  const std::string origin = "services";
  for (std::size_t i = 0; i < services; ++i) {
    KubeService service;
    service.meta.name = name_of(i);
    service.meta.ns = ns_of(i);
    service.headless = true;
    service.ports.push_back({80, 8080, "http", "TCP"});
    transaction.upsert(service, origin, 0);
    transaction.upsert(slice(i, 0), origin, 0);
  }
  registry->commit(std::move(transaction));
  return registry;
}

// Built once for all benchmarks of a size.
Registry& shared_registry(std::size_t services) {
  static std::map<std::size_t, std::unique_ptr<Registry>> built;
  auto& registry = built[services];
  if (!registry) registry = registry_of(services);
  return *registry;
}

void read_query(benchmark::State& state) {
  std::vector<std::uint8_t> octets(512);
  octets.resize(wire::build_query(
      octets,
      {.name = *wire::name_from_text(host_of(7) + "."), .type = wire::Type::A, .edns = true}));
  wire::QueryMessage query;
  for ([[maybe_unused]] auto _ : state) benchmark::DoNotOptimize(wire::parse_query(octets, query));
}
BENCHMARK(read_query);

void look_up(benchmark::State& state) {
  const auto services = static_cast<std::size_t>(state.range(0));
  const auto snapshot = shared_registry(services).current();
  std::vector<std::string> names;
  for (std::size_t i = 0; i < services; ++i) names.push_back(host_of(i * 7919 % services));
  std::size_t next = 0;
  for ([[maybe_unused]] auto _ : state) {
    const registry::View view(*snapshot, *snapshot->default_client);
    benchmark::DoNotOptimize(view.lookup(names[next]));
    if (++next == names.size()) next = 0;
  }
}
BENCHMARK(look_up)->Arg(1'000)->Arg(10'000)->Arg(100'000);

void commit_changes(benchmark::State& state, Registry& registry) {
  const auto services = static_cast<std::size_t>(state.range(0));
  const std::string origin = "services";
  static std::size_t next = 0;  // of all runs: a change to what is there already is none
  for ([[maybe_unused]] auto _ : state) {
    Transaction transaction;
    transaction.upsert(slice(next * 7919 % services, 1 + next / services), origin, 0);
    benchmark::DoNotOptimize(registry.commit(std::move(transaction)));
    ++next;
  }
}

// One EndpointSlice of ten addresses changes one of them; the snapshot before is let go.
void commit_one_change(benchmark::State& state) {
  commit_changes(state, shared_registry(static_cast<std::size_t>(state.range(0))));
}
BENCHMARK(commit_one_change)->Arg(1'000)->Arg(10'000)->Arg(100'000)->Unit(benchmark::kMicrosecond);

// The same, and what the kernel has answered with before does not hold any more.
void commit_one_change_with_kernel_answers(benchmark::State& state) {
  Registry& registry = shared_registry(static_cast<std::size_t>(state.range(0)));
  std::vector<std::uint64_t> counters(MESHDNS_SLOTS);
  dnsd::AnswerSlots slots(counters, {});
  registry.set_before_publish([&](const registry::Changes& changes) {
    slots.begin_change(changes, registry.current()->settings->cluster_domain);
    slots.end_change();
  });
  commit_changes(state, registry);
  registry.set_before_publish(nullptr);
}
BENCHMARK(commit_one_change_with_kernel_answers)
    ->Arg(1'000)
    ->Arg(10'000)
    ->Arg(100'000)
    ->Unit(benchmark::kMicrosecond);

// One namespace with 200 ServiceEntries that select 10 of its WorkloadEntries each.
constexpr std::size_t kSelectors = 200;
constexpr std::size_t kSelectedByEach = 10;

// WorkloadEntry `i`; those of the first kSelectors * kSelectedByEach are selected by one host each.
registry::WorkloadEntry workload(std::size_t i, std::size_t version) {
  registry::WorkloadEntry workload;
  workload.meta.name = "vm-" + std::to_string(i);
  workload.meta.ns = "vms";
  const bool is_selected = i < kSelectors * kSelectedByEach;
  workload.meta.labels = {
      {"app", is_selected ? name_of(i % kSelectors) : "other-" + std::to_string(i)},
      {"env", "prod"}};
  workload.spec.address =
      IpAddress::v4({static_cast<std::uint8_t>(11 + version % 200),
                     static_cast<std::uint8_t>(i >> 16), static_cast<std::uint8_t>(i >> 8),
                     static_cast<std::uint8_t>(i)})
          .to_string();
  return workload;
}

Registry& registry_with_selectors(std::size_t workloads) {
  static std::map<std::size_t, std::unique_ptr<Registry>> built;
  auto& registry = built[workloads];
  if (registry) return *registry;
  registry = std::make_unique<Registry>(registry::MeshSettings());
  Transaction transaction;
  const std::string origin = "vms";
  for (std::size_t i = 0; i < workloads; ++i) transaction.upsert(workload(i, 0), origin, 0);
  for (std::size_t i = 0; i < kSelectors; ++i) {
    registry::ServiceEntry entry;
    entry.meta.name = name_of(i);
    entry.meta.ns = "vms";
    entry.hosts = {name_of(i) + ".example.org"};
    entry.resolution = registry::Resolution::Static;
    entry.ports.push_back({80, 80, "http", "HTTP"});
    entry.workload_selector = registry::Labels{{"app", name_of(i)}, {"env", "prod"}};
    transaction.upsert(entry, origin, 0);
  }
  registry->commit(std::move(transaction));
  return *registry;
}

void commit_workload(benchmark::State& state, std::size_t i) {
  Registry& registry = registry_with_selectors(static_cast<std::size_t>(state.range(0)));
  const std::string origin = "vms";
  std::size_t version = 0;
  for ([[maybe_unused]] auto _ : state) {
    Transaction transaction;
    transaction.upsert(workload(i, ++version), origin, 0);
    benchmark::DoNotOptimize(registry.commit(std::move(transaction)));
  }
}

// A WorkloadEntry changes that no host selects, or that one of 200 does.
void commit_unselected_workload(benchmark::State& state) {
  commit_workload(state, kSelectors * kSelectedByEach);
}
BENCHMARK(commit_unselected_workload)->Arg(5'000)->Arg(20'000)->Unit(benchmark::kMicrosecond);
void commit_selected_workload(benchmark::State& state) { commit_workload(state, 0); }
BENCHMARK(commit_selected_workload)->Arg(5'000)->Arg(20'000)->Unit(benchmark::kMicrosecond);

void read_manifests(benchmark::State& state) {
  const std::string text = manifests(1000);
  for ([[maybe_unused]] auto _ : state) {
    Transaction transaction;
    read_into(text, transaction, "world.yaml");
    benchmark::DoNotOptimize(transaction.empty());
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()) * 3001);
}
BENCHMARK(read_manifests)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace meshdns::bench

BENCHMARK_MAIN();
