// SPDX-License-Identifier: Apache-2.0
// Links in the tree of a FileSource, and ConfigMaps, whose updates swap one.
#include "tests/registry/source/file_source_fixture.hpp"

namespace meshdns::registry {
namespace {

TEST_F(FileSourceTest, ALinkToTheParentIsNotFollowed) {
  fs::create_directory(dir_ / "shop");
  write(dir_ / "shop" / "a.yaml", "api\n");
  write(dir_ / "outside.yaml", "outside\n");
  fs::create_symlink("..", dir_ / "shop" / "up");
  open(options(dir_ / "shop"));
  EXPECT_TRUE(becomes("a.yaml: api"));
}

TEST_F(FileSourceTest, LinksInCirclesAndToTheSamePlaceAreReadOnce) {
  fs::create_directory(dir_ / "shop");
  write(dir_ / "shop" / "a.yaml", "api\n");
  fs::create_symlink("..", dir_ / "shop" / "up");
  fs::create_symlink("shop", dir_ / "zz");
  fs::create_symlink("shop/a.yaml", dir_ / "zzz.yaml");
  fs::create_symlink("loop.yaml", dir_ / "loop.yaml");
  open();
  EXPECT_EQ(registry_.print(), "shop/a.yaml: api");
  EXPECT_THAT(registry_.findings_of("loop.yaml"), HasSubstr("has no target"));
}

TEST_F(FileSourceTest, LinkedDirectoriesAreFollowedWhereverTheyLead) {
  fs::create_directories(base_ / "v1");
  fs::create_directories(base_ / "v2");
  write(base_ / "v1" / "a.yaml", "v1\n");
  write(base_ / "v2" / "a.yaml", "v2\n");
  fs::create_symlink("v1", base_ / "current");
  fs::create_symlink("../current", dir_ / "linked");
  open();
  EXPECT_EQ(registry_.print(), "linked/a.yaml: v1");
  write(base_ / "v1" / "a.yaml", "v1b\n");
  EXPECT_TRUE(becomes("linked/a.yaml: v1b"));
  swap_link(base_ / "current", "v2");
  EXPECT_TRUE(becomes("linked/a.yaml: v2"));
  write(base_ / "v2" / "a.yaml", "v2b\n");
  EXPECT_TRUE(becomes("linked/a.yaml: v2b"));
}

TEST_F(FileSourceTest, ThePathItselfMayLeadThroughLinks) {
  fs::create_directories(base_ / "v1" / "conf");
  fs::create_directories(base_ / "v2" / "conf");
  write(base_ / "v1" / "conf" / "a.yaml", "v1\n");
  write(base_ / "v2" / "conf" / "a.yaml", "v2\n");
  fs::create_directory_symlink("v1", base_ / "current");
  open_at(base_ / "current" / "conf");
  EXPECT_EQ(registry_.print(), "a.yaml: v1");
  registry_.history.clear();
  swap_link(base_ / "current", "v2");
  EXPECT_TRUE(becomes("a.yaml: v2"));
  EXPECT_THAT(registry_.history, ElementsAre("a.yaml: v2"));
}

// A ConfigMap mount as the kubelet makes it: DIR/KEY -> ..data/KEY, ..data -> ..TIMESTAMP, swapped
// by a rename over ..data, the old directory deleted afterwards.
class ConfigMapTest : public FileSourceTest {
 protected:
  void publish(const std::string& api, const std::string& web) {
    std::string stamp = "..2026_";
    stamp.append(std::to_string(++version_));
    fs::create_directory(dir_ / stamp);
    write(dir_ / stamp / "api.yaml", api + "\n");
    write(dir_ / stamp / "web.yaml", web + "\n");
    swap_link(dir_ / "..data", stamp);
    if (version_ == 1) {
      fs::create_symlink("..data/api.yaml", dir_ / "api.yaml");
      fs::create_symlink("..data/web.yaml", dir_ / "web.yaml");
    }
    if (!last_.empty()) fs::remove_all(dir_ / last_);
    last_ = stamp;
  }
  int version_ = 0;
  std::string last_;
};

TEST_F(ConfigMapTest, IsReadOnceThroughItsVisibleNames) {
  publish("api", "web");
  open();
  EXPECT_EQ(registry_.print(), "api.yaml: api | web.yaml: web");
  EXPECT_EQ(texts_read_, 2);
}

TEST_F(ConfigMapTest, TwoHundredSwapsAreFollowedWithoutALeak) {
  publish("v0", "w0");
  open();
  run_for(milliseconds{200});
  const std::size_t watches = count_watches();
  const std::size_t descriptors = count_descriptors();
  for (int i = 1; i <= 200; ++i) {
    const std::string v = std::to_string(i);
    registry_.history.clear();
    publish("v" + v, "w" + v);
    std::string after = "api.yaml: v";
    after.append(v).append(" | web.yaml: w").append(v);
    ASSERT_TRUE(becomes(after));
    ASSERT_THAT(registry_.history, ElementsAre(after)) << "both keys change in one transaction";
  }
  run_for(milliseconds{200});
  EXPECT_EQ(count_watches(), watches);
  EXPECT_EQ(count_descriptors(), descriptors);
  EXPECT_THAT(registry_.findings, IsEmpty());
}

TEST_F(ConfigMapTest, TheLastOfAThousandQuickSwapsIsServed) {
  publish("v0", "w0");
  open();
  for (int i = 1; i <= 1'000; ++i) {
    const std::string v = std::to_string(i);
    publish("v" + v, "w" + v);
    if (i % 10 == 0) uv_run(&loop_, UV_RUN_NOWAIT);
  }
  EXPECT_TRUE(becomes("api.yaml: v1000 | web.yaml: w1000"));
  EXPECT_TRUE(run_until([&] { return registry_.findings.empty(); }));
  EXPECT_EQ(registry_.print(), "api.yaml: v1000 | web.yaml: w1000");
}

TEST_F(ConfigMapTest, AKeyThatIsTakenOutTakesItsObjectsAway) {
  publish("api", "web");
  open();
  fs::create_directory(dir_ / "..2027");
  write(dir_ / "..2027" / "api.yaml", "api2\n");
  swap_link(dir_ / "..data", "..2027");
  fs::remove(dir_ / "web.yaml");
  EXPECT_TRUE(becomes("api.yaml: api2"));
}

}  // namespace
}  // namespace meshdns::registry
