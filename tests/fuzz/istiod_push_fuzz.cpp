// SPDX-License-Identifier: Apache-2.0
// Any octets as responses of istiod: no crash, and the findings, the names and the memory keep
// their limits.
//
// The first octet chooses the transport; octets 0x1E divide the rest into responses.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "registry/source/istiod/held.hpp"
#include "registry/source/istiod/module/ads_session.hpp"
#include "tests/fuzz/require.hpp"

namespace {

using namespace meshdns::registry::istiod;
using meshdns::fuzz::require;

constexpr char kPushDivider = '\x1e';

void take_one(AdsSession& session, HeldNames& held, MessageReader& reader,
              std::string_view octets) {
  const AdsResponse response = session.read(octets);
  const std::size_t before = held.size();
  if (!response.fault) {
    const auto difference = held.take(response.push, reader);
    require(difference.has_value());
    for (const auto& change : difference->changes) require(change.resources.size() <= held.size());
    // The same again is no news.
    require(held.take(response.push, reader)->changed == 0);
  } else {
    require(held.size() == before);
  }
  require(held.refused() <= held.size());
  require(!session.reply(response, response.fault).empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  AdsOptions options;
  options.transport = data[0] % 2 == 0 ? AdsTransport::Delta : AdsTransport::StateOfTheWorld;
  AdsSession session(std::move(options));
  HeldNames held("fuzz");
  const auto reader = make_message_reader();
  std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(kPushDivider), rest.size());
    take_one(session, held, *reader, rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return 0;
}
