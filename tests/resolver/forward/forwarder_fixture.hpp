// SPDX-License-Identifier: Apache-2.0
// A forwarder on a loop that turns while the test waits, and its fake upstreams.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "resolver/forward/forwarder.hpp"
#include "tests/resolver/cache/messages.hpp"
#include "tests/resolver/forward/fake_upstream.hpp"

namespace meshdns::dnsd::test {

// Limit for steps that wait for nothing, on a machine that is busy with other things; far below the
// timeout that the tests configure.
inline constexpr Millis kAtOnce = 1'500;
inline constexpr std::chrono::milliseconds kTimeout{4'000};

inline constexpr const char* kTruth = "NOERROR [www.example.org. 300 A 192.0.2.1]";

class Events final : public ForwardListener {
 public:
  void on_upstream_down(std::string_view, std::string_view) override { ++downs; }
  void on_upstream_up(std::string_view) override { ++ups; }
  void on_loop_found(std::string_view) override { ++loops; }
  void on_upstream_learned(std::string_view, std::string_view what) override {
    learned.emplace_back(what);
  }
  int downs = 0;
  int ups = 0;
  int loops = 0;
  std::vector<std::string> learned;
};

// The test's loop; turns while the test waits.
class TestLoop {
 public:
  TestLoop() {
    uv_loop_init(&loop_);
    uv_timer_init(&loop_, &tick_);
    uv_timer_start(&tick_, [](uv_timer_t*) {}, 1, 1);
  }
  ~TestLoop() {
    uv_close(reinterpret_cast<uv_handle_t*>(&tick_), nullptr);
    uv_run(&loop_, UV_RUN_DEFAULT);
    EXPECT_EQ(uv_loop_close(&loop_), 0) << "a handle was left open";
  }
  uv_loop_t* get() { return &loop_; }
  Millis now() { return uv_now(&loop_); }
  bool run_until(const std::function<bool()>& done, Millis limit = 15'000) {
    uv_update_time(&loop_);
    const Millis end = now() + limit;
    while (!done() && now() < end) uv_run(&loop_, UV_RUN_ONCE);
    return done();
  }
  // One turn, in which nothing is waited for.
  void turn() { uv_run(&loop_, UV_RUN_NOWAIT); }
  void run_for(Millis time) {
    run_until([] { return false; }, time);
  }

 private:
  uv_loop_t loop_;
  uv_timer_t tick_;
};

class ForwarderTest : public ::testing::Test {
 public:
  ~ForwarderTest() override {
    forwarder_.reset();
    upstreams_.clear();
  }

 protected:
  FakeUpstream& add(Behaviour behaviour = Behaviour::Answer) {
    upstreams_.push_back(std::make_unique<FakeUpstream>(loop_.get(), behaviour));
    config_.servers.push_back(upstreams_.back()->server());
    return *upstreams_.back();
  }
  void start() {
    shared_ = std::make_shared<ForwardShared>(cache_config_, events_);
    shared_->reconfigure(config_);
    forwarder_ = std::make_unique<Forwarder>(loop_.get(), shared_, config_, cache_config_);
  }

  void reconfigure(const UpstreamConfig& config) {
    shared_->reconfigure(config);
    forwarder_->reconfigure(config, cache_config_);
  }

  struct Answer {
    std::string text;
    Millis took = 0;
    Outcome outcome;
  };
  static std::string describe(std::string_view name, const Outcome& outcome, Millis now) {
    ClientQuery client(name, wire::Type::A, {.edns = true});
    const auto reply = client.reply(
        outcome.message->write_reply(client.query, client.frame(65535), now, 0, outcome.freshness));
    std::string text(wire::to_string(reply.rcode));
    if (outcome.freshness == Freshness::Stale) text += " stale";
    for (const auto& line : texts(reply.answer)) text += " [" + line + "]";
    for (const auto& [code, what] : reply.extended_errors) text += " EDE " + std::to_string(code);
    return text;
  }
  void resolve(std::string_view name, std::function<void(const Outcome&)> callback,
               const char* client = "192.0.2.100") {
    ForwardRequest request;
    request.question = question(name);
    request.client = *IpAddress::parse(client);
    forwarder_->resolve(std::move(request), std::move(callback));
  }
  // Asks the forwarder, past the cache, and waits.
  Answer ask(const std::string& name = "www.example.org.", Millis limit = 15'000) {
    Answer answer;
    bool done = false;
    loop_.run_for(0);
    const Millis start = loop_.now();
    resolve(name, [&](const Outcome& outcome) {
      EXPECT_FALSE(done) << "called back twice";
      done = true;
      answer.outcome = outcome;
      answer.text = describe(name, outcome, loop_.now());
    });
    EXPECT_FALSE(done) << "called back from inside resolve()";
    EXPECT_TRUE(loop_.run_until([&] { return done; }, limit)) << "no answer at all";
    answer.took = loop_.now() - start;
    return answer;
  }
  // Asks for so many names at once, and counts the positive answers.
  int positive_answers(int names) {
    int positive = 0;
    int answered = 0;
    for (int i = 0; i < names; ++i)
      resolve("n" + std::to_string(i) + ".example.org.", [&](const Outcome& outcome) {
        ++answered;
        if (outcome.message->kind() == MessageKind::Positive) ++positive;
      });
    EXPECT_TRUE(loop_.run_until([&] { return answered == names; }));
    return positive;
  }
  UpstreamStatus status(std::size_t index = 0) {
    const std::string name = upstreams_[index]->server().to_string();
    for (const UpstreamStatus& each : shared_->upstreams.status(loop_.now()))
      if (each.name == name) return each;
    ADD_FAILURE() << name;
    return {};
  }

  TestLoop loop_;
  Events events_;
  UpstreamConfig config_;
  CacheConfig cache_config_;
  std::vector<std::unique_ptr<FakeUpstream>> upstreams_;
  std::shared_ptr<ForwardShared> shared_;
  std::unique_ptr<Forwarder> forwarder_;
};

}  // namespace meshdns::dnsd::test
