// SPDX-License-Identifier: Apache-2.0
// The registry without the daemon: watches a directory of manifests and prints changes.
//
//   build/registry_example FOLDER [HOST]
//
// prints each service that comes, changes or goes and, if HOST is given, what a client of namespace
// "default" gets for it after each change, and the services and endpoints of the host.  It ends
// when its standard input does.
#include <uv.h>

#include <cstdio>
#include <iostream>
#include <memory>
#include <string>

#include "registry/base/handle.hpp"
#include "registry/base/host_name.hpp"
#include "registry/registry.hpp"
#include "registry/service_model.hpp"
#include "registry/source/file_source.hpp"
#include "registry/view/view.hpp"

namespace registry = meshdns::registry;

namespace {

// Passes each batch of a source to the registry as one transaction.
class Feed final : public registry::SourceSink {
 public:
  explicit Feed(registry::Registry& target) : target_(target) {}

  void apply(registry::SourceBatch&& batch) override {
    for (const auto& change : batch.changes)
      for (const auto& finding : change.findings)
        std::cout << finding.to_string() << '\n' << std::flush;
    target_.commit({.changes = std::move(batch.changes)});
  }

 private:
  registry::Registry& target_;
};

void print_answer(const registry::Snapshot& snapshot, const std::string& host) {
  const registry::View view(snapshot, *snapshot.default_client);
  const registry::Match match = view.lookup(host);
  std::cout << host << ": " << to_string(match.how);
  if (match) {
    const auto addresses = view.addresses(*match.service);
    for (const auto& address : addresses.v4)
      std::cout << ' ' << meshdns::IpAddress::v4(address).to_string();
    for (const auto& address : addresses.v6)
      std::cout << ' ' << meshdns::IpAddress::v6(address).to_string();
  }
  std::cout << '\n' << std::flush;
}

void print_model(const registry::Registry& services, const std::string& host) {
  const registry::HostEntry* entry = services.current()->find_host(host);
  if (entry == nullptr) return;
  for (const registry::ServiceRecord* record : entry->records())
    for (const registry::ServiceRecord* part : services_of(*record)) {
      const registry::MeshService service = mesh_service(services, host, *part);
      std::cout << service.id.uid << ' ' << to_string(service.resolution) << ' ' << service.address
                << '\n'
                << std::flush;
      for (const auto& instance : instances_of(services, *part))
        std::cout << "  " << instance.address << ' ' << instance.port << ' '
                  << instance.service_port_name << ' ' << instance.uid << '\n'
                  << std::flush;
    }
}

// Ends the loop when standard input does.
void watch_input(uv_loop_t& loop, uv_pipe_t& input) {
  uv_pipe_init(&loop, &input, 0);
  meshdns::check_loop(uv_pipe_open(&input, 0), "open standard input");
  meshdns::check_loop(uv_read_start(
                          reinterpret_cast<uv_stream_t*>(&input),
                          [](uv_handle_t*, std::size_t, uv_buf_t* buffer) {
                            static char ignored[256];
                            *buffer = uv_buf_init(ignored, sizeof ignored);
                          },
                          [](uv_stream_t* stream, ssize_t count, const uv_buf_t*) {
                            if (count < 0) uv_stop(stream->loop);
                          }),
                      "read standard input");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    std::cerr << "usage: registry_example FOLDER [HOST]\n";
    return 2;
  }
  const std::string host = argc == 3 ? meshdns::canonical_host(argv[2]) : "";

  registry::Registry services{registry::MeshSettings()};
  services.controller().append_service_handler([&](registry::Event event,
                                                   const registry::RecordChange& change,
                                                   const registry::Snapshot& snapshot) {
    std::cout << to_string(event) << ' ' << change.ns() << '/' << change.host << '\n' << std::flush;
    if (host.empty()) return;
    print_answer(snapshot, host);
    print_model(services, host);
  });

  uv_loop_t loop;
  meshdns::check_loop(uv_loop_init(&loop), "be made");
  Feed feed(services);
  registry::FileSourceOptions options;
  options.path = argv[1];
  auto source = registry::make_manifest_source(&loop, options, feed);
  source->start();
  uv_pipe_t input;
  watch_input(loop, input);
  uv_run(&loop, UV_RUN_DEFAULT);

  source.reset();
  uv_close(reinterpret_cast<uv_handle_t*>(&input), nullptr);
  uv_run(&loop, UV_RUN_DEFAULT);
  return uv_loop_close(&loop) == 0 ? 0 : 1;
}
