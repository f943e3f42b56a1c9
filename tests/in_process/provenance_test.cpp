// SPDX-License-Identifier: Apache-2.0
// Random sequences of questions, reloads, restarts and faults: every answer, and every address of
// an endpoint set, was given by a server that the configuration asks for the name, within its life.
// The set's last good addresses stay while lookups fail.
//
// The addresses in answers tell which server gave them, at which step, and for which name: the
// model needs no log.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "dnsd/log/log.hpp"
#include "dnsd/mesh/engine.hpp"
#include "dnsd/query/upstreams.hpp"
#include "registry/view/view.hpp"
#include "resolver/forward/forwarder.hpp"
#include "tests/in_process/fake_loop.hpp"
#include "tests/resolver/cache/messages.hpp"
#include "tests/upstream/scripted_upstream.hpp"

namespace meshdns::dnsd::test {
namespace {

constexpr std::size_t kServers = 4;
constexpr int kSteps = 120;
constexpr Millis kSecond = 1'000;
constexpr int kTtl = 6;
constexpr Millis kStale = 20 * kSecond;
// After a reload, all endpoint names are looked up again within this time.
constexpr Millis kRetrySpread = kSecond;
// The rest of a cached TTL is rounded up, and the lookup after it begins so much later at most.
constexpr Millis kRemainder = kSecond + 250;
// From a question to its last packet, with all retries.
constexpr Millis kLongestQuestion = 6 * kSecond;

const std::vector<std::string> kNames = {"a.test.",      "b.test.",        "a.corp.test.",
                                         "b.corp.test.", "a.x.corp.test.", "x.corp.test."};
const std::vector<std::string> kZones = {"corp.test", "x.corp.test"};

int sequences() {
  const char* const text = std::getenv("MESHDNS_PROVENANCE_SEQUENCES");
  return text == nullptr ? 8 : std::atoi(text);
}

// The engine with two workers on one loop, and for each name a ServiceEntry whose endpoint it is.
class Process {
 public:
  Process(FakeLoop& loop, ForwardListener& listener, const UpstreamConfig& upstream,
          const CacheConfig& cache_config)
      : loop_(loop),
        config_(config_with(cache_config)),
        engine_(loop.get(), config_, listener, log_, {}),
        cache(engine_.forwarding->cache) {
    engine_.use(upstream);
    for (int i = 0; i < 2; ++i) {
      forwarders_.push_back(
          std::make_unique<Forwarder>(loop.get(), engine_.forwarding, upstream, cache_config));
      upstreams.push_back(
          std::make_unique<ForwarderUpstreams>(*forwarders_.back(), engine_.forwarding));
    }
  }
  ~Process() {
    engine_.close();
    loop_.run_for({});
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void begin_endpoint_sets(const UpstreamConfig& upstream) {
    EXPECT_TRUE(engine_.start(upstream, QuerySettings::from(Config{})));
    registry::SourceBatch batch{.source = "test", .changes = {}, .complete = true};
    registry::OriginChange& change = batch.changes.emplace_back();
    change.origin = "test.yaml";
    for (std::size_t name = 0; name < kNames.size(); ++name)
      change.resources.push_back(entry(name), 1);
    engine_.feed.apply(std::move(batch));
  }
  void reconfigure(const UpstreamConfig& upstream, const CacheConfig& cache_config) {
    engine_.use(upstream);
    for (const auto& forwarder : forwarders_) forwarder->reconfigure(upstream, cache_config);
  }
  std::vector<IpAddress> addresses(std::size_t name) const {
    const auto snapshot = engine_.registry.current();
    const registry::View view(*snapshot, *snapshot->default_client);
    const registry::Match match = view.lookup(host_of(name));
    std::vector<IpAddress> found;
    for (const auto& octets : view.addresses(*match.service).v4)
      found.push_back(IpAddress::v4(octets));
    return found;
  }
  // Whether the last lookup of the name has failed, or another one is under way.
  bool is_being_resolved(std::size_t name) const {
    for (const resolver::NameStatus& status : engine_.resolution.resolver().status())
      if (status.name.host + "." == kNames[name])
        return status.families[0].in_flight ||
               status.families[0].last == resolver::Answer::Status::Failed;
    return false;
  }

 private:
  static Config config_with(const CacheConfig& cache_config) {
    Config config;
    config.cache = cache_config;
    return config;
  }
  static std::string host_of(std::size_t name) {
    return "set" + std::to_string(name) + ".mesh.example";
  }
  static registry::ServiceEntry entry(std::size_t name) {
    registry::ServiceEntry entry;
    entry.meta.ns = "shop";
    entry.meta.name = host_of(name);
    entry.hosts = {host_of(name)};
    entry.ports.push_back({80, 0, "http", "HTTP"});
    entry.resolution = registry::Resolution::Dns;
    entry.auto_allocate = false;
    entry.endpoints.emplace_back().address = kNames[name].substr(0, kNames[name].size() - 1);
    return entry;
  }

  FakeLoop& loop_;
  const Config config_;
  Log log_{{.level = LogLevel::Off}};
  Engine engine_;
  std::vector<std::unique_ptr<Forwarder>> forwarders_;

 public:
  Cache& cache;
  std::vector<std::unique_ptr<ForwarderUpstreams>> upstreams;
};

class Provenance {
 public:
  explicit Provenance(unsigned seed) : random_(seed) {
    cache_.serve_stale = std::chrono::seconds(kStale / kSecond);
    upstream_.timeout = std::chrono::milliseconds(1'500);
    upstream_.case_randomization = below(2) == 0;
    for (std::size_t i = 0; i < kServers; ++i)
      servers_.push_back(std::make_unique<ScriptedUpstream>(loop_.get(), loop_.round_trip()));
    choose_servers();
    restart();
  }
  ~Provenance() {
    process_.reset();
    loop_.run_for(std::chrono::seconds(10));
  }

  void run() {
    for (step_ = 1; step_ <= kSteps && !::testing::Test::HasFatalFailure(); ++step_) {
      began_[step_] = loop_.now();
      for (std::size_t i = 0; i < kServers; ++i) script(i);
      note_groups();
      take_step();
      check_sets();
    }
  }
  std::map<std::string, int> seen;  // kinds of answers

 private:
  unsigned below(unsigned limit) {
    return std::uniform_int_distribution<unsigned>(0, limit - 1)(random_);
  }

  void script(std::size_t server) {
    std::vector<std::string> records;
    for (std::size_t name = 0; name < kNames.size(); ++name)
      records.push_back(kNames[name] + " " + std::to_string(kTtl) + " A 10." +
                        std::to_string(server) + "." + std::to_string(step_) + "." +
                        std::to_string(name));
    std::vector<UpstreamRule> rules(1);
    rules[0].drop = dead_.contains(server);
    rules[0].delay_ms = slow_.contains(server) ? 700 : 0;
    servers_[server]->set(UpstreamZone(records), std::move(rules));
  }

  std::vector<UpstreamServer> some_servers() {
    std::vector<UpstreamServer> some;
    for (const auto& server : servers_)
      if (below(2) == 0) some.push_back(*parse_upstream_server(server->server()));
    if (some.empty()) some.push_back(*parse_upstream_server(servers_[below(kServers)]->server()));
    std::ranges::shuffle(some, random_);
    return some;
  }
  void choose_servers() {
    upstream_.servers = some_servers();
    upstream_.zones.clear();
    for (const std::string& zone : kZones)
      if (below(2) == 0) upstream_.zones[zone] = some_servers();
    upstream_.policy = below(4) == 0 ? UpstreamPolicy::Parallel : UpstreamPolicy::Random;
  }
  void restart() {
    std::vector<std::uint8_t> saved;
    if (process_) saved = process_->cache.save(unix_now(), loop_.now());
    process_.reset();
    loop_.run_for(std::chrono::seconds(2));
    process_ = std::make_unique<Process>(loop_, listener_, upstream_, cache_);
    if (!saved.empty()) {
      EXPECT_TRUE(process_->cache.load(saved, unix_now(), loop_.now()).has_value());
    }
    process_->begin_endpoint_sets(upstream_);
    reloaded_at_ = loop_.now();
  }
  std::int64_t unix_now() const {
    return 1'700'000'000 + static_cast<std::int64_t>(loop_.now() / 1000);
  }

  void take_step() {
    switch (below(16)) {
      case 0:
        choose_servers();
        return reload();
      case 1:
        std::ranges::reverse(upstream_.servers);
        return reload();
      case 2:
        choose_servers();
        return restart();
      case 3:
        return restart();
      case 4:
        toggle(dead_);
        return;
      case 5:
        toggle(slow_);
        return;
      case 6:
        loop_.run_for(std::chrono::milliseconds(below(8'000)));
        return;
      default:
        return ask(below(static_cast<unsigned>(kNames.size())), below(2));
    }
  }
  void toggle(std::set<std::size_t>& set) {
    const std::size_t server = below(kServers);
    if (set.erase(server) == 0) set.insert(server);
    script(server);
  }
  void reload() {
    process_->reconfigure(upstream_, cache_);
    note_groups();
    reloaded_at_ = loop_.now();
  }

  // As the query path does: the cache first, then the forwarder.  Some questions are left alone, so
  // that a reload comes while they wait.
  void ask(std::size_t name, std::size_t worker) {
    ForwarderUpstreams& upstreams = *process_->upstreams[worker];
    ClientQuery client(kNames[name]);
    const Cache::Hit hit = upstreams.answer(client.query, client.frame(), loop_.now(), 0);
    if (hit.refresh_due) upstreams.refresh(request(name));
    if (hit.size != 0) {
      const wire::ResponseMessage reply = client.reply(hit.size);
      return check("cache", name, reply, hit.freshness, upstream_);
    }
    auto done = std::make_shared<bool>(false);
    upstreams.resolve(request(name), [this, name, done, asked = upstream_](const Outcome& outcome) {
      *done = true;
      check("forward", name, outcome.message->expand(loop_.now(), outcome.freshness),
            outcome.freshness, asked);
    });
    if (below(3) != 0)
      loop_.run_until([done] { return *done; }, std::chrono::seconds(5));
    else
      loop_.run_for(std::chrono::milliseconds(below(400)));
  }
  ForwardRequest request(std::size_t name) const {
    ForwardRequest request;
    request.question = question(kNames[name]);
    request.client = *IpAddress::parse("192.0.2.100");
    return request;
  }

  // `asked`: the configuration when the question came.
  void check(const char* from, std::size_t name, const wire::ResponseMessage& reply,
             Freshness freshness, const UpstreamConfig& asked) {
    ++seen[std::string(from) + (freshness == Freshness::Stale ? " stale" : "") +
           (reply.rcode == wire::Rcode::NoError ? "" : " failure")];
    if (reply.rcode != wire::Rcode::NoError) return;
    ASSERT_EQ(reply.answer.size(), 1U);
    const auto octet = [&](std::size_t i) {
      return static_cast<std::size_t>(static_cast<unsigned char>(reply.answer[0].rdata[i]));
    };
    EXPECT_EQ(octet(3), name);
    EXPECT_TRUE(is_asked(asked, kNames[name], servers_[octet(1)]->server()))
        << from << ", step " << step_ << ": " << kNames[name] << " of server " << octet(1)
        << ", step " << octet(2);
    const int given = static_cast<int>(octet(2));
    ASSERT_LE(given, step_);
    const Millis life = kTtl * kSecond + (freshness == Freshness::Stale ? kStale : 0);
    EXPECT_LT(loop_.now(), last_reply_of(given) + life)
        << from << ", step " << step_ << ", of step " << given;
  }
  // Replies of a step are sent before the next one begins, or a slow server's time later.
  Millis last_reply_of(int step) const {
    return (step == step_ ? loop_.now() : began_.at(step + 1)) + kSecond;
  }

  // --- endpoint sets

  // The configurations of each step, one after the other.
  void note_groups() { configs_[step_].push_back(upstream_); }
  // Whether the server was asked for the name in that step, or so shortly before it that a reply
  // may have come then.
  bool was_asked(std::size_t name, std::size_t server, int step) const {
    for (int at = step; at > 0 && last_reply_of(at) + kLongestQuestion >= began_.at(step); --at)
      for (const UpstreamConfig& config : configs_.at(at))
        if (is_asked(config, kNames[name], servers_[server]->server())) return true;
    return false;
  }
  void check_sets() {
    for (std::size_t name = 0; name < kNames.size(); ++name)
      for (const IpAddress& address : process_->addresses(name)) {
        const std::size_t server = address.octets()[13];
        const int given = address.octets()[14];
        SCOPED_TRACE(kNames[name] + ": " + address.to_string() + ", step " + std::to_string(step_));
        ASSERT_EQ(address.octets()[15], name);
        ASSERT_LE(given, step_);
        EXPECT_TRUE(was_asked(name, server, given)) << "not asked then";
        const bool is_in_life = loop_.now() < last_reply_of(given) + kTtl * kSecond + kRemainder;
        const bool is_present = is_asked(upstream_, kNames[name], servers_[server]->server());
        const bool is_last_good = !is_in_life || !is_present;
        ++seen[is_last_good ? "set, last good" : "set"];
        if (!is_last_good || loop_.now() <= reloaded_at_ + kRetrySpread) continue;
        EXPECT_TRUE(process_->is_being_resolved(name))
            << (is_present ? "its life is over" : "the server is not asked any more");
      }
  }
  // The longest zone counts, by text.
  static bool is_asked(const UpstreamConfig& config, const std::string& name,
                       const std::string& server) {
    const std::vector<UpstreamServer>* group = &config.servers;
    std::size_t longest = 0;
    for (const auto& [zone, servers] : config.zones) {
      const std::string suffix = zone + ".";
      if (name != suffix && !name.ends_with("." + suffix)) continue;
      if (zone.size() < longest) continue;
      longest = zone.size();
      group = &servers;
    }
    return std::ranges::any_of(
        *group, [&](const UpstreamServer& each) { return each.to_string() == server; });
  }

  std::mt19937 random_;
  FakeLoop loop_;
  ForwardListener listener_;
  CacheConfig cache_;
  UpstreamConfig upstream_;
  std::vector<std::unique_ptr<ScriptedUpstream>> servers_;
  std::set<std::size_t> dead_;
  std::set<std::size_t> slow_;
  std::map<int, Millis> began_;
  int step_ = 0;
  std::unique_ptr<Process> process_;
  std::map<int, std::vector<UpstreamConfig>> configs_;
  Millis reloaded_at_ = 0;
};

TEST(ProvenanceTest, EveryAnswerIsOfAServerThatIsAskedForItsName) {
  std::map<std::string, int> seen;
  for (int i = 0; i < sequences() && !::testing::Test::HasFailure(); ++i) {
    SCOPED_TRACE("sequence " + std::to_string(i));
    Provenance sequence(static_cast<unsigned>(i));
    sequence.run();
    for (const auto& [kind, count] : sequence.seen) seen[kind] += count;
  }
  // The hash's secret decides a part, so a few sequences may have no stale answer.
  if (sequences() >= 100) {
    EXPECT_GT(seen["cache stale"] + seen["forward stale"], 0);
  }
  for (const char* kind : {"cache", "forward", "forward failure", "set", "set, last good"})
    EXPECT_GT(seen[kind], 0) << kind;
}

}  // namespace
}  // namespace meshdns::dnsd::test
