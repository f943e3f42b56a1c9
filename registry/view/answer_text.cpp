// SPDX-License-Identifier: Apache-2.0
#include "registry/view/answer_text.hpp"

#include <algorithm>
#include <vector>

#include "registry/view/near_order.hpp"

namespace meshdns::registry {
namespace {

// The least of the addresses, as text.  They do not depend on the order of the endpoints, and the
// others, of which there may be thousands, do not become text.
template <typename Octets>
void add_least(std::span<const Octets> addresses, std::size_t max, IpAddress (*address_of)(Octets),
               std::vector<std::string>& words) {
  std::vector<Octets> least(std::min(addresses.size(), max));
  std::ranges::partial_sort_copy(addresses, least);
  for (const Octets& octets : least) words.push_back(address_of(octets).to_string());
}

std::string address_text(std::span<const std::array<std::uint8_t, 4>> v4,
                         std::span<const std::array<std::uint8_t, 16>> v6, std::size_t max) {
  std::vector<std::string> words;
  add_least(v4, max, &IpAddress::v4, words);
  add_least(v6, max - words.size(), &IpAddress::v6, words);
  std::ranges::sort(words);
  return list_of(words, v4.size() + v6.size(), "addresses");
}

template <typename Octets>
std::vector<Octets> nearest_of(std::span<const Octets> addresses, const AddressPlaces& places,
                               std::span<const std::uint16_t> of_address, const Place& client) {
  std::vector<Octets> nearest;
  if (addresses.empty()) return nearest;
  const NearOrder order(places, of_address, client);
  for (std::size_t i = 0; i < addresses.size(); ++i)
    if (order.nearness_of(i) == order.nearest()) nearest.push_back(addresses[i]);
  return nearest;
}

std::string address_text(const View& view, const ServiceRecord& service, std::size_t max) {
  const AddressView all = view.addresses(service);
  if (all.places == nullptr || view.settings().locality != LocalityChoice::Only)
    return address_text(all.v4, all.v6, max);
  const Place& client = view.client().place;
  return address_text(nearest_of(all.v4, *all.places, all.places->v4, client),
                      nearest_of(all.v6, *all.places, all.places->v6, client), max);
}

// The answer of a service whose endpoints are names.
std::string name_text(const ServiceRecord& service, std::size_t max) {
  if (!service.details) return "addresses of its endpoints' names";
  auto names = service.details->resolved_names;
  std::ranges::sort(names);
  const auto first = std::span(names).first(std::min(names.size(), max));
  return "addresses of " + list_of(first, names.size(), "names");
}

}  // namespace

std::string list_of(std::span<const std::string> words, std::size_t count, std::string_view what) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  if (count > words.size())
    text += " and " + std::to_string(count - words.size()) + " more " + std::string(what);
  return text;
}

std::string answer_text(const View& view, const ServiceRecord* service, std::size_t max) {
  if (service == nullptr) return "not a name of the mesh";
  switch (service->answer) {
    case AnswerKind::Vips:
    case AnswerKind::Endpoints:
      return address_text(view, *service, max);
    case AnswerKind::Alias:
      return "CNAME " + std::string(service->alias());
    case AnswerKind::NoAddress:
      return "no address";
    case AnswerKind::NoReadyEndpoints:
      return "no ready endpoints";
    case AnswerKind::Forward:
      return "forwarded";
    case AnswerKind::Pending:
    case AnswerKind::Unresolvable:
      return name_text(*service, max);
  }
  return {};
}

}  // namespace meshdns::registry
