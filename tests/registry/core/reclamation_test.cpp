// SPDX-License-Identifier: Apache-2.0
// Nothing that a registry held stays in memory when it is gone: snapshots that were replaced, and
// namespaces that were deleted.
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <thread>
#include <vector>

#include "registry/snapshot/publisher.hpp"
#include "tests/fewer.hpp"
#include "tests/registry/core/fixture.hpp"

namespace meshdns::registry {
namespace {

// MESHDNS_RECLAMATION_ROUNDS=100000 makes these tests long; the memory is printed.
int rounds() {
  const char* const text = std::getenv("MESHDNS_RECLAMATION_ROUNDS");
  return text == nullptr ? test::fewer(3'000) : std::atoi(text);
}

long resident_kib() {
  std::ifstream statm("/proc/self/statm");
  long size = 0;
  long resident = 0;
  statm >> size >> resident;
  return resident * 4;
}

std::string entry_text(const std::string& ns, const std::string& address) {
  return "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: api, "
         "namespace: " +
         ns + "}\nspec: {hosts: [api." + ns + ".example.org], addresses: [" + address +
         "], resolution: STATIC, ports: [{number: 80, name: http}]}\n---\n";
}

// Workers that look names up all the time, as under a load of queries.
class LookingWorkers {
 public:
  explicit LookingWorkers(Publisher& publisher) {
    for (int i = 0; i < 2; ++i)
      threads_.emplace_back([&] {
        Publisher::Reader reader(publisher);
        while (!is_over_.load(std::memory_order_relaxed)) {
          const Snapshot& snapshot = reader.current();
          if (View(snapshot, *snapshot.default_client).lookup("api.shop.example.org")) ++found_;
        }
      });
  }
  ~LookingWorkers() {
    is_over_ = true;
    for (auto& thread : threads_) thread.join();
  }
  LookingWorkers(const LookingWorkers&) = delete;
  LookingWorkers& operator=(const LookingWorkers&) = delete;
  std::uint64_t found() const { return found_; }

 private:
  std::atomic<bool> is_over_ = false;
  std::atomic<std::uint64_t> found_ = 0;
  std::vector<std::thread> threads_;
};

TEST(ReclamationTest, FreesSnapshotsThatWorkersHaveLeft) {
  TestRegistry r;
  r.load(entry_text("shop", "10.0.0.1"));
  Publisher publisher(r.registry().current());
  std::vector<std::weak_ptr<const Snapshot>> published;
  r.registry().set_publish([&](std::shared_ptr<const Snapshot> snapshot) {
    published.emplace_back(snapshot);
    publisher.publish(std::move(snapshot));
  });
  const auto alive = [&] {
    std::erase_if(published, [](const auto& snapshot) { return snapshot.expired(); });
    return published.size();
  };
  LookingWorkers workers(publisher);
  while (workers.found() == 0) std::this_thread::yield();
  const long before = resident_kib();
  for (int round = 0; round < rounds(); ++round) {
    r.load(entry_text("shop", "10.0.0." + std::to_string(round % 250 + 1)));
    // The registry's own, and one that each worker holds; the two that it held before go with the
    // next publication.
    if (round % 100 == 0) {
      ASSERT_LE(alive(), 5U) << "after " << round << " commits";
    }
  }
  publisher.collect();
  EXPECT_LE(alive(), 5U);
  std::cout << rounds() << " commits beside " << workers.found() << " lookups: " << before
            << " KiB before, " << resident_kib() << " KiB after\n";
}

TEST(ReclamationTest, ForgetsDeletedNamespaces) {
  TestRegistry r;
  const auto live_through = [&](int number) {
    const std::string ns = "ns-" + std::to_string(number);
    r.load("apiVersion: v1\nkind: Namespace\nmetadata: {name: " + ns + "}\n---\n" +
           entry_text(ns, "10.0.0.1") +
           "apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: " + ns +
           "}\nstatus: {phase: Running, podIP: 10.4.0.7}\n---\n"
           "apiVersion: networking.istio.io/v1\nkind: Sidecar\nmetadata: {name: s, namespace: " +
           ns + "}\nspec: {egress: [{hosts: [\"./*\"]}]}\n");
    r.remove({Kind::Sidecar, "", ns, "s"});
    r.remove({Kind::Pod, "", ns, "web"});
    r.remove({Kind::ServiceEntry, "", ns, "api"});
    r.remove({Kind::Namespace, "", "", ns});
  };
  long before = 0;
  for (int number = 0; number < rounds(); ++number) {
    if (number == rounds() / 10) before = resident_kib();
    live_through(number);
    // Beyond this number, the registry removes unused symbols.
    ASSERT_LE(r.registry().symbols(), 2'000U) << "after " << number << " namespaces";
  }
  EXPECT_LE(r.registry().scopes(), 1U);
  std::cout << rounds() << " namespaces: " << before << " KiB after the first tenth, "
            << resident_kib() << " KiB at the end\n";
}

}  // namespace
}  // namespace meshdns::registry
