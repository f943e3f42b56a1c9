// SPDX-License-Identifier: Apache-2.0
// Any order of events between clients, upstreams, the clock and reloads: each question is answered
// exactly once and in time, and nothing is left when all is closed.
//
// The input is a script of octets: first the configuration, then steps.  An octet chooses a step
// and the next ones its arguments (step() below); what is missing is 0.
#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "resolver/forward/forwarder.hpp"
#include "tests/fuzz/require.hpp"
#include "tests/fuzz/scripted_network.hpp"
#include "tests/fuzz/scripted_upstream.hpp"
#include "tests/upstream/tls_end.hpp"

namespace {

using namespace meshdns::dnsd;
namespace wire = meshdns::wire;
using meshdns::IpAddress;
using meshdns::fuzz::Reply;
using meshdns::fuzz::require;
using meshdns::fuzz::ScriptedNetwork;
using meshdns::fuzz::ScriptedUpstreams;

constexpr std::size_t kWorkers = 2;
constexpr std::size_t kMaxServers = 3;
constexpr std::size_t kMaxQuestions = 200;
constexpr std::size_t kMaxSteps = 400;
constexpr std::uint64_t kGrace = 600;  // a worker that waits for another's answer has 500 ms more
constexpr std::uint64_t kPauses[] = {0, 1, 20, 100, 300, 500, 1'000, 1'250, 1'500, 3'000, 20'000};

class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : data_(data), left_(size) {}
  bool has_more() const { return left_ > 0; }
  std::size_t below(std::size_t bound) { return next() % bound; }
  std::uint8_t next() {
    if (left_ == 0) return 0;
    --left_;
    return *data_++;
  }

 private:
  const std::uint8_t* data_;
  std::size_t left_;
};

class Play {
 public:
  explicit Play(Input input) : input_(input) {
    network_.reset();
    uv_loop_init(&loop_);
    // Without a handle that counts, the loop would not look at any.
    uv_check_init(&loop_, &alive_);
    uv_check_start(&alive_, [](uv_check_t*) {});
    configure();
    shared_ = std::make_shared<ForwardShared>(cache_, silent_);
    shared_->reconfigure(upstream_);
    for (auto& forwarder : workers_)
      forwarder = std::make_unique<Forwarder>(&loop_, shared_, upstream_, cache_);
  }
  ~Play() { uv_loop_close(&loop_); }

  void run() {
    for (std::size_t i = 0; i < kMaxSteps && input_.has_more(); ++i) {
      step();
      settle();
    }
    finish();
  }

 private:
  struct Question {
    std::uint64_t asked_at;
    int answers = 0;
  };
  enum class Then : std::uint8_t { Nothing, AskAgain, AskOther, Reload, Close, Refresh };

  void configure() {
    upstream_.timeout = std::chrono::milliseconds(500 + 500 * input_.below(8));
    upstream_.max_in_flight = input_.below(2) == 0 ? 4096 : 8;
    cache_.nxdomain_cut = input_.below(2) == 1;
    if (input_.below(2) == 1) cache_.serve_stale = std::chrono::seconds(0);
    upstream_.tls_ca_file = test::authority_file();
    choose_servers();
  }

  void choose_servers() {
    upstream_.policy = static_cast<UpstreamPolicy>(input_.below(5));
    upstream_.case_randomization = input_.below(2) == 0;
    upstream_.servers.clear();
    upstream_.zones.clear();
    const std::size_t count = input_.below(kMaxServers + 1);
    for (std::size_t i = 0; i < count; ++i)
      upstream_.servers.push_back(ScriptedUpstreams::server(input_.below(2 * kMaxServers)));
    if (input_.below(4) == 3)
      upstream_.zones["zone.example.org"] = {ScriptedUpstreams::server(input_.below(6))};
  }

  void step() {
    switch (input_.below(14)) {
      case 0:
      case 1:
        return ask(choose_request(), input_.below(kWorkers), static_cast<Then>(input_.below(6)));
      case 2:
      case 3:
        return pass(kPauses[input_.below(std::size(kPauses))]);
      case 4:
      case 5:
        return upstreams_.reply(input_.next(), choose_reply());
      case 6: {
        const Reply reply = choose_reply();
        return upstreams_.reply_all(static_cast<ScriptedUpstreams::Over>(input_.below(3)), reply);
      }
      case 7:
        return upstreams_.end_connection(input_.next());
      case 8:
        return upstreams_.end_all();
      case 9:
        return network_.refuse(ScriptedUpstreams::port(input_.below(6)), input_.below(2) == 0);
      case 10:
        upstreams_.set_handshakes(input_.below(2) == 0);
        return;
      case 11:
        choose_servers();
        return reload(input_.below(kWorkers));
      case 12:
        return network_.stall(kPauses[input_.below(std::size(kPauses))]);
      default: {
        const std::size_t worker = input_.below(kWorkers);
        if (input_.below(2) == 0)
          refresh(worker);
        else
          close(worker);
      }
    }
  }

  // A reply, and octets of the script for those that are garbled.
  Reply choose_reply() {
    const auto kind = static_cast<Reply::Kind>(input_.below(Reply::kKinds));
    return {kind, input_.below(4) == 3, input_.next()};
  }

  ForwardRequest choose_request() {
    const std::uint8_t choice = input_.next();
    ForwardRequest request;
    request.question.name = std::string(
        "\x02n0\x04zone\x07"
        "example\x03org\0",
        21);
    request.question.name[2] = static_cast<char>('0' + choice % 4);
    if ((choice & 4) == 0) request.question.name.erase(3, 5);
    request.question.type = (choice & 8) == 0 ? wire::Type::A : wire::Type::Aaaa;
    request.question.qclass = wire::Class::In;
    request.recursion_desired = (choice & 16) == 0;
    request.dnssec_ok = (choice & 32) != 0;
    request.client = IpAddress::v4({192, 0, 2, static_cast<std::uint8_t>(choice >> 6)});
    return request;
  }

  void ask(const ForwardRequest& request, std::size_t worker, Then then) {
    if (is_closed_[worker] || questions_.size() >= kMaxQuestions) return;
    Question& question = questions_.emplace_back(network_.now());
    const bool outer = std::exchange(is_asking_, true);
    workers_[worker]->resolve(request,
                              [this, &question, request, worker, then](const Outcome& outcome) {
                                require(!is_asking_ && question.answers == 0 && outcome.message);
                                ++question.answers;
                                carry_on(request, worker, then);
                              });
    is_asking_ = outer;
  }

  // The next action of a client after its answer.
  void carry_on(ForwardRequest request, std::size_t worker, Then then) {
    switch (then) {
      case Then::Nothing:
        return;
      case Then::AskAgain:
        return ask(request, worker, then);
      case Then::AskOther:
        request.question.name[1] = 'o';
        return ask(request, worker, Then::Nothing);
      case Then::Reload:
        std::ranges::reverse(upstream_.servers);
        if (upstream_.servers.size() > 1) upstream_.servers.pop_back();
        return reload(worker);
      case Then::Close:
        return close(worker);
      case Then::Refresh:
        if (!is_closed_[worker]) workers_[worker]->refresh(request);
    }
  }

  void reload(std::size_t worker) {
    shared_->reconfigure(upstream_);
    if (!is_closed_[worker]) workers_[worker]->reconfigure(upstream_, cache_);
  }
  void refresh(std::size_t worker) {
    const ForwardRequest request = choose_request();
    if (!is_closed_[worker]) workers_[worker]->refresh(request);
  }
  void close(std::size_t worker) {
    if (std::exchange(is_closed_[worker], true)) return;
    workers_[worker]->close();
    require(workers_[worker]->pending() == 0);
  }

  // Runs the loop until nothing moves at this moment.
  void settle() {
    constexpr int kMaxRounds = 100;
    bool moved = true;
    for (int left = kMaxRounds; left > 0 && moved; --left) {
      uv_run(&loop_, UV_RUN_NOWAIT);
      moved = upstreams_.receive();
      moved |= network_.fire_due();
    }
  }

  void pass(std::uint64_t milliseconds) {
    network_.pass(milliseconds, [this] { settle(); });
    const auto limit = static_cast<std::uint64_t>(upstream_.timeout.count()) + kGrace;
    for (const Question& question : questions_)
      require(question.answers == 1 || network_.now() <= question.asked_at + limit);
  }

  void finish() {
    for (std::size_t i = 0; i < kWorkers; ++i) close(i);
    settle();
    for (const Question& question : questions_) require(question.answers == 1);
    require(shared_->flights.in_flight() == 0);
    for (auto& forwarder : workers_) forwarder.reset();
    uv_close(reinterpret_cast<uv_handle_t*>(&alive_), nullptr);
    uv_run(&loop_, UV_RUN_DEFAULT);
    require(shared_->upstreams.status(network_.now()).empty());
    require(upstreams_.is_deserted());
  }

  Input input_;
  ScriptedNetwork& network_ = ScriptedNetwork::get();
  ScriptedUpstreams upstreams_;
  uv_loop_t loop_;
  uv_check_t alive_;
  ForwardListener silent_;
  UpstreamConfig upstream_;
  CacheConfig cache_;
  std::shared_ptr<ForwardShared> shared_;
  std::unique_ptr<Forwarder> workers_[kWorkers];
  bool is_closed_[kWorkers] = {};
  bool is_asking_ = false;
  std::deque<Question> questions_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Play(Input(data, size)).run();
  return 0;
}
