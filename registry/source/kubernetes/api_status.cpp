// SPDX-License-Identifier: Apache-2.0
#include "registry/source/kubernetes/api_status.hpp"

#include <algorithm>
#include <charconv>

#include "registry/source/kubernetes/node_text.hpp"

namespace meshdns::registry::kubernetes {
namespace {

std::optional<std::int64_t> number_of(const Node* object, std::string_view key) {
  const Node* const value = object == nullptr ? nullptr : object->find(key);
  return value == nullptr ? std::nullopt : value->as_integer();
}

}  // namespace

ApiStatus read_status(const Node& object) {
  ApiStatus status;
  status.code = number_of(&object, "code").value_or(0);
  status.reason = text_of(&object, "reason");
  status.message = text_of(&object, "message");
  if (const auto seconds = number_of(object.find("details"), "retryAfterSeconds"))
    status.retry_after = std::chrono::seconds(std::clamp<std::int64_t>(*seconds, 0, 3'600));
  return status;
}

ListMeta read_list_meta(const Node& list) {
  const Node* const metadata = list.find("metadata");
  return {std::string(text_of(&list, "kind")), std::string(text_of(metadata, "resourceVersion")),
          std::string(text_of(metadata, "continue"))};
}

std::string_view resource_version_of(const Node& object) {
  return text_of(object.find("metadata"), "resourceVersion");
}

std::string_view annotation_of(const Node& object, std::string_view name) {
  const Node* const metadata = object.find("metadata");
  return text_of(metadata == nullptr ? nullptr : metadata->find("annotations"), name);
}

std::optional<std::uint64_t> version_number(std::string_view resource_version) {
  std::uint64_t number = 0;
  const auto [stop, error] = std::from_chars(
      resource_version.data(), resource_version.data() + resource_version.size(), number);
  if (error != std::errc{} || stop != resource_version.data() + resource_version.size())
    return std::nullopt;
  return number;
}

}  // namespace meshdns::registry::kubernetes
