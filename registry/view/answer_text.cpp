// SPDX-License-Identifier: Apache-2.0
#include "registry/view/answer_text.hpp"

#include <algorithm>
#include <vector>

namespace meshdns::registry {
namespace {

std::string address_text(const AddressView& addresses, std::size_t max) {
  std::vector<std::string> words;
  for (const auto& octets : addresses.v4) {
    if (words.size() == max) break;
    words.push_back(IpAddress::v4(octets).to_string());
  }
  for (const auto& octets : addresses.v6) {
    if (words.size() == max) break;
    words.push_back(IpAddress::v6(octets).to_string());
  }
  std::ranges::sort(words);
  return list_of(words, addresses.v4.size() + addresses.v6.size(), "addresses");
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
      return address_text(view.addresses(*service), max);
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
