// SPDX-License-Identifier: Apache-2.0
// Any octets as responses of the workload API: no crash, the limits hold, and the keys that are
// added and taken away are those of the objects.
//
// Octets 0x1E divide the input into responses.
#include <cstddef>
#include <cstdint>
#include <set>
#include <string_view>

#include "registry/snapshot/stored_resource.hpp"
#include "registry/source/istiod/held.hpp"
#include "registry/source/istiod/module/ads_session.hpp"
#include "tests/fuzz/require.hpp"

namespace {

using namespace meshdns::registry;
using namespace meshdns::registry::istiod;
using meshdns::fuzz::require;

constexpr char kAddressesDivider = '\x1e';

class Follower {
 public:
  void take(std::string_view octets) {
    const AdsResponse response = session_.read(octets);
    if (!response.fault) {
      const auto difference = *held_.take(response.push, *reader_);
      for (const OriginChange& change : difference.changes) apply(change);
      require(difference.refusal.size() < 2'000);
      require(held_.refused() <= held_.size());
      require(held_.begin_stream().size() <= held_.size());
    }
    require(!session_.reply(response, response.fault).empty());
  }

  // Removes what is left: the registry is empty then.
  void end() {
    Push push;
    for (const HeldResource& held : held_.begin_stream()) push.removed.push_back(held.name);
    const auto difference = *held_.take(push, *reader_);
    for (const OriginChange& change : difference.changes) apply(change);
    require(held_.size() == 0);
    require(keys_.empty());
  }

 private:
  static AdsOptions options() {
    AdsOptions options;
    options.api = AdsApi::Workloads;
    return options;
  }

  void apply(const OriginChange& change) {
    if (change.effect == OriginChange::Effect::Replace) keys_.clear();
    change.resources.for_each([&](std::string_view encoded, std::uint32_t) {
      const auto stored = StoredResource::from_encoded(encoded, 1, 0);
      require(stored.has_value());
      keys_.insert((*stored)->key_hash());
    });
    for (const std::uint64_t key : change.removed) keys_.erase(key);
    require(change.findings.size() <= HeldWorkloads::kMaxFaulty);
  }

  AdsSession session_{options()};
  HeldWorkloads held_{"fuzz", {}};
  const std::unique_ptr<MessageReader> reader_ = make_message_reader();
  std::set<std::uint64_t> keys_;  // hashes
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Follower follower;
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(kAddressesDivider), rest.size());
    follower.take(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  follower.end();
  return 0;
}
