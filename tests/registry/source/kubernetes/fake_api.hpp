// SPDX-License-Identifier: Apache-2.0
// A clock that a test turns, and a server whose answers the test gives one by one.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "registry/source/kubernetes/transport.hpp"
#include "registry/source/scheduler.hpp"

namespace meshdns::registry::kubernetes {

inline constexpr std::string_view kServices = "/api/v1/services";

class FakeScheduler final : public Scheduler {
 public:
  Milliseconds now() const override { return now_; }
  std::unique_ptr<Timer> after(Milliseconds delay, std::function<void()> work) override {
    const std::size_t id = ++last_id_;
    due_[{now_ + std::max(delay, Milliseconds(0)), id}] = std::move(work);
    return std::make_unique<FakeTimer>(*this, id);
  }
  // Does what falls due on the way.
  void pass(Milliseconds time) {
    const Milliseconds until = now_ + time;
    while (!due_.empty() && due_.begin()->first.first <= until) {
      now_ = std::max(now_, due_.begin()->first.first);
      const auto work = std::move(due_.begin()->second);
      due_.erase(due_.begin());
      work();
    }
    now_ = until;
  }

 private:
  class FakeTimer final : public Timer {
   public:
    FakeTimer(FakeScheduler& scheduler, std::size_t id) : scheduler_(scheduler), id_(id) {}
    ~FakeTimer() override {
      std::erase_if(scheduler_.due_, [&](const auto& item) { return item.first.second == id_; });
    }
    FakeTimer(const FakeTimer&) = delete;
    FakeTimer& operator=(const FakeTimer&) = delete;

   private:
    FakeScheduler& scheduler_;
    std::size_t id_;
  };

  Milliseconds now_{1'000'000};
  std::size_t last_id_ = 0;
  std::map<std::pair<Milliseconds, std::size_t>, std::function<void()>> due_;
};

class FakeTransport : public Transport {
 public:
  // A request that is under way.
  struct Request {
    std::string path;
    ResponseListener* listener = nullptr;

    void head(unsigned status, std::optional<std::chrono::seconds> retry_after = {}) const {
      listener->on_head({status, retry_after, true});
    }
  };

  std::unique_ptr<Exchange> get(std::string path, Content, ResponseListener& listener) override {
    paths.push_back(path);
    const std::size_t id = ++last_id_;
    open_[id] = {std::move(path), &listener};
    return std::make_unique<FakeExchange>(*this, id);
  }
  void renew_credentials() override { ++renewals; }
  void distrust_connections() override { ++distrusts; }

  // The latest request under way whose path begins so; fails the test's way: null.
  const Request* find(std::string_view prefix) const {
    for (auto it = open_.rbegin(); it != open_.rend(); ++it)
      if (it->second.path.starts_with(prefix)) return &it->second;
    return nullptr;
  }
  std::size_t open() const { return open_.size(); }

  // Each is false when nobody asks for it.
  bool begin(std::string_view prefix, unsigned status = 200,
             std::optional<std::chrono::seconds> retry_after = {}) {
    ResponseListener* const listener = listener_of(prefix);
    if (listener == nullptr) return false;
    listener->on_head({status, retry_after, is_multiplexed, connection});
    return true;
  }
  bool send(std::string_view prefix, std::string_view body) {
    ResponseListener* const listener = listener_of(prefix);
    if (listener == nullptr) return false;
    listener->on_body(body);
    return true;
  }
  bool end(std::string_view prefix, const Result<void>& end = {}) {
    ResponseListener* const listener = listener_of(prefix);
    if (listener == nullptr) return false;
    listener->on_end(end);
    return true;
  }
  bool answer(std::string_view prefix, unsigned status, std::string_view body,
              std::optional<std::chrono::seconds> retry_after = {}) {
    return begin(prefix, status, retry_after) && send(prefix, body) && end(prefix);
  }

  // Answers the request for exactly `path`.
  bool answer_whole(std::string_view path, unsigned status, std::string_view body) {
    const auto open = std::ranges::find(
        open_, path, [](const auto& item) { return std::string_view(item.second.path); });
    if (open == open_.end()) return false;
    const std::size_t id = open->first;
    ResponseListener* const listener = open->second.listener;
    listener->on_head({status, {}, is_multiplexed, connection});
    if (open_.contains(id)) listener->on_body(body);
    if (open_.contains(id)) listener->on_end({});
    return true;
  }

  std::vector<std::string> paths;  // all that were ever asked for
  int renewals = 0;
  int distrusts = 0;
  bool is_multiplexed = true;    // whether answers come by HTTP/2
  std::uint64_t connection = 1;  // that answers come over

 protected:
  std::map<std::size_t, Request>& requests() { return open_; }

 private:
  class FakeExchange final : public Exchange {
   public:
    FakeExchange(FakeTransport& transport, std::size_t id) : transport_(transport), id_(id) {}
    ~FakeExchange() override { transport_.open_.erase(id_); }
    FakeExchange(const FakeExchange&) = delete;
    FakeExchange& operator=(const FakeExchange&) = delete;

   private:
    FakeTransport& transport_;
    std::size_t id_;
  };

  ResponseListener* listener_of(std::string_view prefix) const {
    const Request* const request = find(prefix);
    return request == nullptr ? nullptr : request->listener;
  }

  std::map<std::size_t, Request> open_;
  std::size_t last_id_ = 0;
};

inline double no_jitter() { return 0.0; }

}  // namespace meshdns::registry::kubernetes
