// SPDX-License-Identifier: Apache-2.0
#include "dnsd/admin/page_parameters.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace meshdns::dnsd {
namespace {

using testing::HasSubstr;

TEST(PageParametersTest, EveryHandlerRefusesOtherParametersOnly) {
  const HttpHandler answer = [](const HttpRequest&) { return HttpResponse{}; };
  HttpRoutes routes;
  routes["/cache"].get = answer;
  routes["/cache/flush"].post = answer;
  routes["/healthz"].status = answer;
  refuse_other_parameters(routes);
  const auto ask = [](const HttpHandler& handler, const char* path, const char* name) {
    HttpRequest request;
    request.path = path;
    request.arguments[name] = "x";
    return handler(request);
  };
  EXPECT_EQ(ask(routes["/cache"].get, "/cache", "zone").status, 200U);
  EXPECT_EQ(ask(routes["/cache/flush"].post, "/cache/flush", "zone").status, 200U);
  EXPECT_EQ(ask(routes["/cache/flush"].post, "/cache/flush", "limit").status, 400U);
  const HttpResponse near = ask(routes["/cache"].get, "/cache", "zones");
  EXPECT_EQ(near.status, 400U);
  EXPECT_THAT(
      near.body,
      HasSubstr(
          R"(/cache has no parameter \"zones\", only name, zone, top, limit; did you mean \"zone\"?)"));
  const HttpResponse none = ask(routes["/healthz"].status, "/healthz", "x");
  EXPECT_EQ(none.status, 400U);
  EXPECT_THAT(none.body, HasSubstr("; it has none"));
  EXPECT_EQ(routes["/healthz"].status(HttpRequest{}).status, 200U);
}

}  // namespace
}  // namespace meshdns::dnsd
