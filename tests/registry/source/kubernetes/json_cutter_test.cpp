// SPDX-License-Identifier: Apache-2.0
#include "registry/source/kubernetes/json_cutter.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace meshdns::registry::kubernetes {
namespace {

using ::testing::ElementsAre;
using Shape = JsonCutter::Shape;

struct Cut {
  std::vector<std::string> objects;
  bool good = true;
  bool complete = false;
  std::string envelope;
  std::vector<std::string> beginnings;  // of objects that are too long
};

Cut cut(Shape shape, std::string_view text, std::size_t step, CutterLimits limits = {}) {
  JsonCutter cutter(shape, limits);
  Cut result;
  for (std::size_t at = 0; at < text.size() && result.good; at += step)
    result.good = cutter.feed(text.substr(at, step), [&](std::string_view object, bool is_whole) {
      (is_whole ? result.objects : result.beginnings).emplace_back(object);
    });
  result.complete = cutter.is_complete();
  result.envelope = cutter.envelope();
  return result;
}

constexpr std::string_view kList =
    R"({"kind":"ServiceList","metadata":{"resourceVersion":"7","x":["items"]},"items":[)"
    R"({"metadata":{"name":"a]}"}}, {"b":["\"}",{}]}],"apiVersion":"v1"})";

TEST(JsonCutterTest, CutsTheItemsOfAListWhereverItIsDivided) {
  for (std::size_t step = 1; step <= kList.size(); ++step) {
    const Cut result = cut(Shape::List, kList, step);
    EXPECT_THAT(result.objects,
                ElementsAre(R"({"metadata":{"name":"a]}"}})", R"({"b":["\"}",{}]})"))
        << step;
    EXPECT_TRUE(result.good && result.complete) << step;
    EXPECT_EQ(
        result.envelope,
        R"({"kind":"ServiceList","metadata":{"resourceVersion":"7","x":["items"]},"items":[],)"
        R"("apiVersion":"v1"})");
  }
}

TEST(JsonCutterTest, CutsEventsWhereverTheyAreDivided) {
  const std::string text = "{\"type\":\"ADDED\"}\n\n{\"type\":\"\\\\\"}\r\n";
  for (std::size_t step = 1; step <= text.size(); ++step) {
    const Cut result = cut(Shape::Sequence, text, step);
    EXPECT_THAT(result.objects, ElementsAre(R"({"type":"ADDED"})", R"({"type":"\\"})")) << step;
    EXPECT_TRUE(result.good && result.complete) << step;
  }
}

TEST(JsonCutterTest, KnowsThatSomethingIsStillOpen) {
  for (const std::size_t size : {std::size_t{1}, kList.size() / 2, kList.size() - 1})
    EXPECT_FALSE(cut(Shape::List, kList.substr(0, size), 7).complete) << size;
  EXPECT_FALSE(cut(Shape::Sequence, R"({"type":)", 3).complete);
}

TEST(JsonCutterTest, RefusesWhatStandsBetweenObjects) {
  EXPECT_FALSE(cut(Shape::Sequence, R"({"a":1} garbage {"b":1})", 4).good);
  EXPECT_FALSE(cut(Shape::List, R"({"items":[{"a":1}, 5]})", 4).good);
  EXPECT_FALSE(cut(Shape::List, R"([{"a":1}])", 4).good);
  EXPECT_FALSE(cut(Shape::List, R"({"items":[]} {"items":[]})", 4).good);
}

TEST(JsonCutterTest, AnEventThatIsCutShortDoesNotSwallowTheNext) {
  EXPECT_FALSE(cut(Shape::Sequence, "{\"a\":\"b\n{\"c\":1}\n", 4).good);
  EXPECT_FALSE(cut(Shape::Sequence, "{\"a\":{\n{\"c\":1}\n", 4).good);
}

TEST(JsonCutterTest, LeavesTheOctetsOfStringsToTheParser) {
  const std::string object("{\"a\":\"\0\n\xFF\"}", 11);
  EXPECT_THAT(cut(Shape::List, "{\"items\":[" + object + "]}", 4).objects, ElementsAre(object));
}

TEST(JsonCutterTest, FindsItemsOnlyAtTheListsOwnLevel) {
  const Cut result = cut(Shape::List, R"({"metadata":{"items":[{"a":1}]},"items":[{"b":1}]})", 5);
  EXPECT_THAT(result.objects, ElementsAre(R"({"b":1})"));
}

TEST(JsonCutterTest, TakesAListWithoutItems) {
  EXPECT_TRUE(cut(Shape::List, R"({"kind":"ServiceList","items":null})", 5).complete);
  EXPECT_TRUE(cut(Shape::List, R"({"kind":"ServiceList","items":[]})", 5).complete);
}

TEST(JsonCutterTest, GivesTheBeginningOfObjectsThatAreTooLong) {
  CutterLimits limits;
  limits.object_bytes = 20;
  const std::string text =
      R"({"items":[{"a":1},{"long":")" + std::string(100, 'x') + R"("},{"b":1}]})";
  for (const std::size_t step : {std::size_t{1}, std::size_t{10}, std::size_t{1'000}}) {
    const Cut result = cut(Shape::List, text, step, limits);
    EXPECT_THAT(result.objects, ElementsAre(R"({"a":1})", R"({"b":1})")) << step;
    EXPECT_THAT(result.beginnings, ElementsAre(R"({"long":"xxxxxxxxxxx)")) << step;
    EXPECT_TRUE(result.complete) << step;
  }
}

TEST(JsonCutterTest, BoundsWhatStandsAroundTheItems) {
  CutterLimits limits;
  limits.envelope_bytes = 100;
  EXPECT_FALSE(cut(Shape::List, "{\"metadata\":\"" + std::string(1'000, 'x'), 64, limits).good);
}

TEST(JsonCutterTest, GivesUpAnObjectThatDoesNotEnd) {
  const std::string endless = R"({"items":[{"a":1},{"a":")" + std::string(400, 'x');
  for (const std::size_t step : {1, 7, 1000}) {
    JsonCutter cutter(Shape::List, {.object_bytes = 64, .hopeless_bytes = 200});
    std::size_t fed = 0;
    while (fed < endless.size() && cutter.feed(endless.substr(fed, step), [](auto...) {}))
      fed += step;
    EXPECT_LT(fed, endless.size()) << step;
    EXPECT_EQ(cutter.why(), "an object is longer than 200 bytes");
  }
}

TEST(JsonCutterTest, GivesUpWhereThereIsNothingButSpace) {
  JsonCutter cutter(Shape::Sequence, {.hopeless_bytes = 200});
  const std::string space(150, ' ');
  EXPECT_TRUE(cutter.feed(space + "{}" + space, [](auto...) {}));
  EXPECT_TRUE(cutter.feed("{}" + space, [](auto...) {})) << "counts anew behind each object";
  EXPECT_FALSE(cutter.feed(space, [](auto...) {}));
  EXPECT_EQ(cutter.why(), "there is nothing in 200 bytes");
}

}  // namespace
}  // namespace meshdns::registry::kubernetes
