// SPDX-License-Identifier: Apache-2.0
#include "resolver/forward/lifetime.hpp"

#include <gtest/gtest.h>
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "resolver/cache/free_memory.hpp"

namespace meshdns::dnsd::test {
namespace {

// Notes what happens to it.
class Noted final : public Retirable {
 public:
  Noted(RetireList& list, std::vector<std::string>& events, std::string name)
      : Retirable(list), events_(events), name_(std::move(name)) {}

  Owned<Noted> child;
  std::shared_ptr<Noted> shared;

 private:
  ~Noted() override { events_.push_back(name_ + " freed"); }
  void on_retire() override {
    events_.push_back(name_ + " retired");
    child.reset();
  }
  std::vector<std::string>& events_;
  std::string name_;
};

static_assert(!std::is_destructible_v<Noted>);
static_assert(DiesAtTheEndOfATurn<Noted>);

class LifetimeTest : public ::testing::Test {
 protected:
  Owned<Noted> make(std::string name) { return make_owned<Noted>(list_, events_, std::move(name)); }
  using Events = std::vector<std::string>;
  Events events_;
  RetireList list_;
};

TEST_F(LifetimeTest, FreesWhatIsRetiredAtTheEndOfTheOutermostTurn) {
  auto object = make("a");
  {
    const RetireList::Turn outer(list_);
    {
      const RetireList::Turn inner(list_);
      object.reset();
    }
    EXPECT_EQ(events_, Events{"a retired"});
  }
  EXPECT_EQ(events_, (Events{"a retired", "a freed"}));
}

TEST_F(LifetimeTest, FreesAtOnceOutsideOfATurn) {
  make("a").reset();
  EXPECT_EQ(events_, (Events{"a retired", "a freed"}));
}

TEST_F(LifetimeTest, RetiresWhatARetiredObjectOwns) {
  auto object = make("a");
  object->child = make("b");
  const Weak<Noted> child(*object->child);
  {
    const RetireList::Turn turn(list_);
    object.reset();
    EXPECT_FALSE(child);
    EXPECT_EQ(events_, (Events{"a retired", "b retired"}));
  }
  EXPECT_EQ(events_.size(), 4u);
}

TEST_F(LifetimeTest, FreesInTheSameTurnWhatADestructorLetsGoOf) {
  auto object = make("a");
  object->shared = make_shared_owned<Noted>(list_, events_, "b");
  const Weak<Noted> shared(*object->shared);
  object.reset();
  EXPECT_FALSE(shared);
  EXPECT_EQ(events_, (Events{"a retired", "a freed", "b retired", "b freed"}));
}

TEST_F(LifetimeTest, EmptiesEveryWeakWhenTheObjectIsRetired) {
  auto object = make("a");
  Weak<Noted> first(*object);
  std::vector<Weak<Noted>> many(20, first);
  many.erase(many.begin() + 3, many.begin() + 7);
  Weak<Noted> assigned;
  assigned = many.back();
  auto other = make("b");
  many[5] = Weak<Noted>(*other);
  EXPECT_EQ(assigned.get(), object.get());
  const RetireList::Turn turn(list_);
  object.reset();
  EXPECT_FALSE(first);
  EXPECT_EQ(assigned.get(), nullptr);
  for (std::size_t i = 0; i < many.size(); ++i) EXPECT_EQ(bool(many[i]), i == 5);
}

TEST_F(LifetimeTest, MakesNoWeakOfARetiredObject) {
  auto object = make("a");
  Noted& retired = *object;
  const RetireList::Turn turn(list_);
  object.reset();
  EXPECT_FALSE(Weak<Noted>(retired));
}

TEST_F(LifetimeTest, AWeakMayEndBeforeTheObject) {
  auto object = make("a");
  {
    const Weak<Noted> brief(*object);
  }
  const Weak<Noted> left(*object);
  {
    const Weak<Noted> brief(*object);
  }
  EXPECT_EQ(left.get(), object.get());
}

struct Spare final : Recycled<Spare> {
  int values[16] = {};
};

// The test runner collects reports in files and fails for each; this one is expected.
void report_to_stderr() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_set_report_path("stderr");
#endif
}

TEST(RecycledDeathTest, ReportsAWriteToMemoryThatWasFreed) {
  if (kKeepsFreeMemory && !kPoisonsFreeMemory) GTEST_SKIP() << "release builds do not look";
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a write after free is reported at the end of the process";
#endif
  EXPECT_DEATH(
      {
        report_to_stderr();
        auto* const spare = new Spare;
        volatile int* const value = &spare->values[7];
        delete spare;
        *value = 1;
        delete new Spare;
      },
      "after it was freed|heap-use-after-free");
}

}  // namespace
}  // namespace meshdns::dnsd::test
