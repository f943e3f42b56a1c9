// SPDX-License-Identifier: Apache-2.0
#include "dnsd/admin/page_parameters.hpp"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "dnsd/admin/json.hpp"
#include "registry/base/did_you_mean.hpp"
#include "registry/base/printable.hpp"

namespace meshdns::dnsd {
namespace {

struct PageParameters {
  std::string_view path;
  std::string_view of_get;  // names with a space between them
  std::string_view of_post = {};
};

// A row for each path that has parameters.
constexpr auto kPageParameters = std::to_array<PageParameters>({
    {"/", "name type from search"},
    {"/registry/services", "host namespace watch"},
    {"/registry/endpoints", "host namespace watch"},
    {"/registry/vips", "host namespace"},
    {"/registry/findings", "limit"},
    {"/changes", "name since limit"},
    {"/resolver", "failing limit"},
    {"/top", "limit"},
    {"/cache", "name zone top limit"},
    {"/cache/flush", "", "name zone"},
    {"/dependencies", "namespace workload host since hidden"},
    {"/dependencies/forget", "", "namespace workload host all"},
    {"/explain", "name type from search connect sni host format"},
    {"/log/level", "", "level"},
});

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    words.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

std::string describe_parameters(const std::vector<std::string_view>& known) {
  if (known.empty()) return "; it has none";
  std::string text;
  for (const std::string_view name : known) text += ", " + std::string(name);
  return ", only " + text.substr(2);
}

HttpHandler refusing_others(HttpHandler handler, std::string_view names) {
  return [handler = std::move(handler), known = words_of(names)](const HttpRequest& request) {
    for (const auto& [name, value] : request.arguments)
      if (std::ranges::find(known, name) == known.end())
        return bad_request(request.path + " has no parameter " + in_quotes(name) +
                           describe_parameters(known) + did_you_mean(name, known));
    return handler(request);
  };
}

}  // namespace

void refuse_other_parameters(HttpRoutes& routes) {
  for (auto& [path, route] : routes) {
    const auto row = std::ranges::find(kPageParameters, path, &PageParameters::path);
    const PageParameters known = row == kPageParameters.end() ? PageParameters{} : *row;
    for (const auto& [handler, names] :
         {std::pair{&route.get, known.of_get}, std::pair{&route.status, known.of_get},
          std::pair{&route.post, known.of_post}})
      if (*handler) *handler = refusing_others(std::move(*handler), names);
  }
}

}  // namespace meshdns::dnsd
