// SPDX-License-Identifier: Apache-2.0
// Worlds that change: after any changes, a registry answers as one that has just read the same
// objects.
//
// Each object has some forms, and is absent at first; a change gives one or two objects another
// form.  MESHDNS_CHANGES sets the number of changes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/registry/core/changing_objects.hpp"

namespace meshdns::registry {
namespace {

class ChangingWorld {
 public:
  explicit ChangingWorld(unsigned variant)
      : variant_(variant), forms_(objects_.size(), 0), registry_(changing_settings(variant)) {
    registry_.set_clients(changing_clients());
    handler_ = registry_.controller().attach(
        [this](const Changes& changes, const Snapshot&) { note(changes); });
  }

  void change(std::mt19937& random) {
    Transaction transaction;
    const std::string origin = "world.yaml";
    const unsigned flip = random() % 2;  // of two changes, each has an object of its own
    for (unsigned i = 1 + random() % 2; i-- > 0;) {
      const std::size_t which = random() % (objects_.size() / 2) * 2 + (i ^ flip);
      const std::size_t form = random() % (objects_[which].forms.size() + 1);
      if (form == 0 && forms_[which] != 0)
        transaction.remove(key_of(object_in_form(objects_[which], 0)), origin);
      if (form != 0) transaction.upsert(object_in_form(objects_[which], form - 1), origin, 1);
      forms_[which] = form;
      last_ = objects_[which].head + " in form " + std::to_string(form);
    }
    follow(registry_, registry_.commit(std::move(transaction)));
  }

  // As once a minute.
  void settle_networks() { registry_.settle_networks(); }
  // Reads everything again, as after a change of the settings.
  void start_over() { registry_.set_settings(changing_settings(variant_)); }

  std::vector<std::string> answers() const { return all_answers(registry_); }
  // Returns the records that the changes of all commits lead to, and those that there are.
  std::vector<std::string> followed_records() const {
    std::vector<std::string> lines;
    for (const auto& [key, record] : records_) lines.push_back(line_of(key.first, *record));
    std::ranges::sort(lines);
    return lines;
  }
  std::vector<std::string> records() const {
    std::vector<std::string> lines;
    const auto add = [&](const HostEntry& entry) {
      for (const ServiceRecord* record : entry.records())
        lines.push_back(line_of(entry.host(), *record));
    };
    registry_.current()->hosts.for_each(add);
    registry_.current()->wildcards.for_each(add);
    std::ranges::sort(lines);
    return lines;
  }
  std::vector<std::string> fresh_answers() const {
    Registry fresh(changing_settings(variant_));
    fresh.set_clients(changing_clients());
    Transaction transaction;
    for (std::size_t i = 0; i < objects_.size(); ++i)
      if (forms_[i] != 0)
        transaction.upsert(object_in_form(objects_[i], forms_[i] - 1), "world.yaml", 1);
    follow(fresh, fresh.commit(std::move(transaction)));
    return all_answers(fresh);
  }
  const std::string& last() const { return last_; }

 private:
  static std::string line_of(std::string_view host, const ServiceRecord& record) {
    std::ostringstream line;
    line << host << " " << record.ns->text() << " " << &record;
    return line.str();
  }
  void note(const Changes& changes) {
    for (const RecordChange& change : changes.records) {
      const std::pair key(change.host, std::string(change.ns()));
      const auto known = records_.find(key);
      EXPECT_EQ(known == records_.end() ? nullptr : known->second, change.before) << change.host;
      if (change.after)
        records_[key] = change.after;
      else
        records_.erase(key);
    }
  }
  // Each endpoint name has one address, at once.
  static void follow(Registry& registry, const Changes& changes) {
    if (changes.names.added.empty()) return;
    Transaction transaction;
    for (const NameUse& use : changes.names.added)
      transaction.set_resolved(
          use.ns, {use.name, ResolvedName::State::Resolved, {*IpAddress::parse("10.7.0.1")}});
    registry.commit(std::move(transaction));
  }

  const std::vector<ObjectForms> objects_ = changing_objects();
  const unsigned variant_;
  std::vector<std::size_t> forms_;
  Registry registry_;
  std::shared_ptr<const Controller::Handler> handler_;
  std::map<std::pair<std::string, std::string>, Ref<const ServiceRecord>> records_;
  std::string last_;
};

TEST(ChangingWorldsTest, ARegistryAnswersAsOneThatHasJustReadTheSame) {
  const char* const text = std::getenv("MESHDNS_CHANGES");
  const unsigned changes = text == nullptr ? 40 : static_cast<unsigned>(std::atoi(text));
  std::mt19937 random(20261127);
  for (unsigned variant = 0; variant < 10; ++variant) {
    ChangingWorld world(variant);
    for (unsigned i = 0; i < changes; ++i) {
      world.change(random);
      if (random() % 16 == 0) world.start_over();
      world.settle_networks();
      ASSERT_EQ(world.followed_records(), world.records())
          << "variant " << variant << ", change " << i << ": " << world.last();
      const auto found = world.answers();
      const auto expected = world.fresh_answers();
      ASSERT_EQ(found.size(), expected.size())
          << "variant " << variant << ", change " << i << ": " << world.last();
      for (std::size_t line = 0; line < found.size(); ++line)
        ASSERT_EQ(found[line], expected[line])
            << "variant " << variant << ", change " << i << ": " << world.last();
    }
  }
}

}  // namespace
}  // namespace meshdns::registry
