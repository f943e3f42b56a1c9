// SPDX-License-Identifier: Apache-2.0
// Any octets as what an API server sends: no crash, whatever the pieces are in which they arrive.
//
// The first octet chooses the size of the pieces; octets 0x1E divide the rest into responses, which
// a collection gets one after the other.  A response beginning with '4' or '5' is a refusal.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "registry/source/kubernetes/followed_collection.hpp"
#include "registry/source/kubernetes/json_cutter.hpp"
#include "tests/fuzz/require.hpp"
#include "tests/registry/source/kubernetes/fake_api.hpp"

namespace {

using namespace meshdns::registry;
using namespace meshdns::registry::kubernetes;
using meshdns::fuzz::require;

constexpr char kDivider = '\x1e';

struct Cut {
  std::vector<std::string> objects;
  bool good = true;
  bool complete = false;
  friend bool operator==(const Cut&, const Cut&) = default;
};

Cut cut(JsonCutter::Shape shape, std::string_view text, std::size_t step) {
  JsonCutter cutter(shape, {.object_bytes = 256, .envelope_bytes = 256});
  Cut result;
  for (std::size_t at = 0; at < text.size() && result.good; at += step)
    result.good = cutter.feed(text.substr(at, step), [&](std::string_view object, bool) {
      require(!object.empty() && object.front() == '{' && object.size() <= 256);
      result.objects.emplace_back(object);
    });
  result.complete = result.good && cutter.is_complete();
  return result;
}

class Owner final : public CollectionListener {
 public:
  void on_upsert(FollowedCollection&, Resource&& resource, bool) override {
    require(!meta_of(resource).name.empty());
  }
  void on_remove(FollowedCollection&, ResourceKey&& key) override { require(!key.name.empty()); }
  void on_retain(FollowedCollection&, std::vector<std::uint64_t>&& retained) override {
    require(std::ranges::is_sorted(retained));
  }
  void on_findings(FollowedCollection& from) override {
    require(from.findings().size() <= 100'000);
  }
  void on_state(FollowedCollection&) override {}
  bool may_retry(FollowedCollection&) override { return true; }
};

void follow(std::string_view responses, std::size_t step, bool streams_lists) {
  FakeScheduler scheduler;
  FakeTransport transport;
  JsonParser parser;
  ServerAbilities server{.streams_lists = streams_lists};
  Owner owner;
  PlannedCollection plan;
  plan.label = "endpointslices";
  plan.kind = Kind::EndpointSlice;
  plan.collection = {"/s", "discovery.k8s.io/v1", "EndpointSlice", "", "", Content::Objects};
  FollowedCollection collection(plan, {"fuzz", "", ""}, {},
                                {transport, scheduler, parser, server, no_jitter}, owner);
  collection.start();
  while (!responses.empty()) {
    const std::size_t end = std::min(responses.find(kDivider), responses.size());
    const std::string_view body = responses.substr(0, end);
    responses.remove_prefix(std::min(end + 1, responses.size()));
    const bool is_refusal = body.starts_with('4') || body.starts_with('5');
    unsigned status = 200;
    if (is_refusal) {
      status = 0;
      for (const char digit : body.substr(0, 3))
        status = 10 * status + static_cast<unsigned>(digit - '0') % 10;
    }
    transport.begin("/s", status);
    for (std::size_t at = is_refusal ? 3 : 0; at < body.size(); at += step)
      transport.send("/s", body.substr(at, step));
    transport.end("/s");
    scheduler.pass(Milliseconds(40'000));
    require(transport.open() <= 1);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0 || size > 8'192) return 0;
  const std::size_t step = std::size_t{1} + data[0] % 64;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  for (const auto shape : {JsonCutter::Shape::Sequence, JsonCutter::Shape::List})
    require(cut(shape, text, step) == cut(shape, text, text.size() + 1));
  follow(text, step, false);
  follow(text, step, true);
  return 0;
}
