// SPDX-License-Identifier: Apache-2.0
// A simulated API server with every fault that a real one shows, and the rule: no object leaves
// that the server has, and each that it lacks leaves.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <map>
#include <random>

#include "registry/source/kubernetes/cluster_source.hpp"
#include "tests/registry/source/fake_registry.hpp"
#include "tests/registry/source/kubernetes/fake_api.hpp"

namespace meshdns::registry::kubernetes {
namespace {

struct SimulatedKind {
  std::string_view group;  // empty: the core group
  std::string_view plural;
  std::string_view kind;
  std::string_view content;  // after the metadata
  bool is_custom = false;
  std::string name() const {
    return std::string(plural) + (group.empty() ? "" : ".") + std::string(group);
  }
};
constexpr std::string_view kEntryContent =
    R"(,"spec":{"hosts":["a.example.org"],"ports":[{"number":80,"name":"http","protocol":"HTTP"}],)"
    R"("resolution":"STATIC","location":"MESH_INTERNAL","workloadSelector":{"labels":{"a":"b"}}})";
constexpr std::string_view kPodContent =
    R"(,"spec":{"nodeName":"n"},"status":{"phase":"Running","podIP":"10.0.0.9",)"
    R"("podIPs":[{"ip":"10.0.0.9"}]})";
constexpr std::array kKinds = {
    SimulatedKind{"", "namespaces", "Namespace", ""},
    SimulatedKind{"", "services", "Service", R"(,"spec":{"clusterIP":"10.96.0.1"})"},
    SimulatedKind{"", "pods", "Pod", kPodContent},
    SimulatedKind{"discovery.k8s.io", "endpointslices", "EndpointSlice",
                  R"(,"addressType":"IPv4","endpoints":[{"addresses":["10.0.0.1"]}])"},
    SimulatedKind{"networking.istio.io", "serviceentries", "ServiceEntry", kEntryContent, true},
    SimulatedKind{"networking.istio.io", "sidecars", "Sidecar",
                  R"(,"spec":{"egress":[{"hosts":["*/*"]}]})", true},
    SimulatedKind{"multicluster.x-k8s.io", "serviceexports", "ServiceExport", "", true},
    SimulatedKind{"apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition",
                  ""},
};
constexpr std::string_view kCrdPlural = "customresourcedefinitions";

class SimulatedServer final : public FakeTransport {
 public:
  enum class State : std::uint8_t { Ready, Starting, Down };

  explicit SimulatedServer(std::uint64_t seed) : random_(seed) {
    for (const SimulatedKind& kind : kKinds)
      if (kind.is_custom) define(kind);
    add("namespaces", "shop");
  }

  // --- the store ---------------------------------------------------------------------------------

  bool is_defined(const SimulatedKind& kind) const {
    return !kind.is_custom || objects_.at(std::string(kCrdPlural)).contains(kind.name());
  }
  void define(const SimulatedKind& kind) { add(kCrdPlural, kind.name()); }
  // A definition goes after its objects.
  void undefine(const SimulatedKind& kind) {
    for (const auto& [name, version] : std::map(objects_[std::string(kind.plural)]))
      remove(kind.plural, name);
    remove(kCrdPlural, kind.name());
    cut_watches_of(kind.plural);
  }
  void add(std::string_view plural, const std::string& name) { change(plural, name, "ADDED"); }
  void remove(std::string_view plural, const std::string& name) { change(plural, name, "DELETED"); }
  std::vector<std::string> names(std::string_view plural) {
    std::vector<std::string> all;
    for (const auto& [name, version] : objects_[std::string(plural)]) all.push_back(name);
    return all;
  }
  // As the sink calls them.
  FakeRegistry::Texts labels() {
    FakeRegistry::Texts all;
    for (const SimulatedKind& kind : kKinds)
      for (const auto& name : names(kind.plural))
        if (kind.plural == "namespaces")
          all.insert("Namespace " + name);
        else if (kind.plural != kCrdPlural)
          all.insert(std::string(kind.kind) + " shop/" + name);
    return all;
  }

  // --- its moods ---------------------------------------------------------------------------------

  void become(State state) {
    state_ = state;
    if (state == State::Down)
      while (!requests().empty()) end(requests().begin()->first, fail("reset"));
  }
  void forget_history() { history_.clear(), oldest_ = version_ + 1; }

  // Answers what is open, each at random.
  void work() {
    std::vector<std::size_t> ids;
    for (const auto& [id, request] : requests()) ids.push_back(id);
    for (const std::size_t id : ids)
      if (requests().contains(id) && (!has_faults || chance(70))) serve(id);
  }
  bool chance(unsigned percent) { return random_() % 100 < percent; }
  std::size_t below(std::size_t limit) { return random_() % limit; }

  bool has_faults = true;
  bool shows_definitions = true;  // to this client
  bool may_discover = true;

 private:
  struct Watch {
    std::string plural;
    int seen = 0;  // the version of the last event that was sent
  };
  // A list that is read page by page.
  struct Pages {
    int version = 0;
    std::map<std::string, int> objects;
  };
  struct Event {
    int version = 0;
    std::string plural;
    std::string type;
    std::string name;
  };
  void change(std::string_view plural, const std::string& name, std::string_view type) {
    ++version_;
    auto& of_kind = objects_[std::string(plural)];
    if (type == "DELETED")
      of_kind.erase(name);
    else
      of_kind[name] = version_;
    history_.push_back({version_, std::string(plural), std::string(type), name});
  }
  void cut_watches_of(std::string_view plural) {
    for (auto again = true; std::exchange(again, false);)
      for (const auto& [id, request] : requests())
        if (watches_.contains(id) && watches_.at(id).plural == plural) {
          end(id, {});
          again = true;
          break;
        }
  }

  void end(std::size_t id, const Result<void>& how) {
    const auto request = requests().find(id);
    ResponseListener* const listener = request->second.listener;
    requests().erase(request);
    listener->on_end(how);
  }
  void answer(std::size_t id, unsigned status, const std::string& body) {
    ResponseListener* const listener = requests().at(id).listener;
    listener->on_head({status, {}, true});
    if (!requests().contains(id)) return;
    const bool is_cut = has_faults && status == 200 && chance(5);
    listener->on_body(is_cut ? body.substr(0, below(body.size() + 1)) : body);
    if (requests().contains(id)) end(id, is_cut ? Result<void>(fail("cut")) : Result<void>());
  }
  void refuse(std::size_t id, unsigned status) {
    answer(id, status, R"({"kind":"Status","code":)" + std::to_string(status) + "}");
  }

  void serve(std::size_t id) {
    const Request& request = requests().at(id);
    if (watches_.contains(id)) return send_events(id);
    if (state_ == State::Down) return end(id, fail("refused"));
    if (has_faults && chance(12)) return fail_somehow(id);
    const std::string path = request.path.substr(0, request.path.find('?'));
    if (path == "/livez") return answer(id, 200, "ok");
    if (path == "/readyz") return answer(id, state_ == State::Ready ? 200 : 500, "");
    const bool is_discovery = path.starts_with("/apis/") && std::ranges::count(path, '/') <= 3;
    is_discovery ? discover(id, path) : serve_collection(id, path);
  }
  void fail_somehow(std::size_t id) {
    constexpr std::array<unsigned, 5> kRefusals = {403, 404, 410, 429, 503};
    const std::size_t which = below(kRefusals.size() + 1);
    which == kRefusals.size() ? end(id, fail("reset")) : refuse(id, kRefusals.at(which));
  }

  // A server that starts does not know its CRDs; another one behind the same address may be older.
  bool is_published(const SimulatedKind& kind) {
    if (!is_defined(kind) || (kind.is_custom && state_ == State::Starting)) return false;
    return !has_faults || !is_of_other_version_;
  }
  void discover(std::size_t id, const std::string& path) {
    if (!may_discover) return refuse(id, 403);
    is_of_other_version_ = has_faults && chance(10);
    const bool is_group = std::ranges::count(path, '/') == 2;
    const std::string group = path.substr(6, path.find('/', 6) - 6);
    std::string kinds;
    for (const SimulatedKind& kind : kKinds)
      if (kind.group == group && is_published(kind))
        kinds += (kinds.empty() ? "" : ",") + (R"({"name":")" + std::string(kind.plural) + R"("})");
    if (kinds.empty()) return refuse(id, state_ == State::Starting && chance(30) ? 503 : 404);
    if (is_group) return answer(id, 200, R"({"kind":"APIGroup","versions":[{"version":"v1"}]})");
    answer(id, 200, path.ends_with("/v1") ? R"({"resources":[)" + kinds + "]}" : "{}");
  }

  std::string object(const SimulatedKind& kind, const std::string& name, int version) const {
    return R"({"metadata":{"name":")" + name + R"(","namespace":"shop","labels":)" +
           R"({"kubernetes.io/service-name":"s"},"resourceVersion":")" + std::to_string(version) +
           R"("})" + std::string(kind.content) + "}";
  }
  static bool is_selected(const std::string& path, std::string_view plural) {
    if (plural == "endpointslices") return path.contains("labelSelector=service");
    return plural != "pods" || path.contains("/namespaces/shop/");
  }
  static int version_of(const std::string& path) {
    const std::size_t at = path.find("resourceVersion=");
    return at == std::string::npos ? -1 : std::atoi(path.c_str() + at + 16);
  }

  void serve_collection(std::size_t id, const std::string& path) {
    const std::string plural = path.substr(path.rfind('/') + 1);
    const auto kind = std::ranges::find(kKinds, plural, &SimulatedKind::plural);
    if (kind == kKinds.end() || !is_published(*kind)) return refuse(id, 404);
    if (plural == kCrdPlural && !shows_definitions) return refuse(id, 403);
    const std::string& query = requests().at(id).path;
    if (!query.contains("watch=1")) return list(id, *kind);
    const bool is_streamed = query.contains("sendInitialEvents");
    if (is_streamed && !streams_lists_) return refuse(id, 400);
    const int since = is_streamed ? version_ : version_of(query);
    if (since < oldest_ - 1) return refuse(id, 410);
    open_at(id, *kind, since, is_streamed);
  }
  void open_at(std::size_t id, const SimulatedKind& kind, int since, bool is_streamed) {
    watches_[id] = {std::string(kind.plural), since};
    const Request& request = requests().at(id);
    ResponseListener* const listener = request.listener;
    const bool is_selected_here = is_selected(request.path, kind.plural);
    listener->on_head({200, {}, true});
    if (!is_streamed || !requests().contains(id)) return;
    std::string events;
    if (is_selected_here)
      for (const auto& [name, version] : objects_[std::string(kind.plural)])
        events += R"({"type":"ADDED","object":)" + object(kind, name, version) + "}\n";
    events += R"({"type":"BOOKMARK","object":{"metadata":{"resourceVersion":")" +
              std::to_string(since) + R"(","annotations":{"k8s.io/initial-events-end":"true"}}}})";
    const bool is_cut = has_faults && chance(10);
    listener->on_body(is_cut ? events.substr(0, below(events.size())) : events);
    if (is_cut && requests().contains(id)) end(id, fail("cut"));
  }
  void send_events(std::size_t id) {
    const Request& request = requests().at(id);
    Watch& watch = watches_.at(id);
    if (has_faults && chance(3)) return end(id, chance(50) ? Result<void>() : fail("cut"));
    const auto kind = std::ranges::find(kKinds, watch.plural, &SimulatedKind::plural);
    if (watch.seen < oldest_ - 1) {
      request.listener->on_body(R"({"type":"ERROR","object":{"code":410,"reason":"Expired"}})");
      return;
    }
    std::string events;
    for (const Event& event : history_) {
      if (event.version <= watch.seen || event.plural != watch.plural) continue;
      if (!is_selected(request.path, event.plural)) continue;
      events += R"({"type":")" + event.type + R"(","object":)" +
                object(*kind, event.name, event.version) + "}\n";
    }
    watch.seen = version_;
    events += R"({"type":"BOOKMARK","object":{"metadata":{"resourceVersion":")" +
              std::to_string(version_) + R"("}}})";
    request.listener->on_body(events);
  }

  // By pages of two, each of which may fail.
  void list(std::size_t id, const SimulatedKind& kind) {
    const std::string query = requests().at(id).path;
    const std::size_t token = query.find("continue=");
    const std::size_t from =
        token == std::string::npos ? 0 : std::strtoul(query.c_str() + token + 9, nullptr, 10);
    // Each collection has pages of its own.
    const std::size_t selector = query.find("labelSelector");
    const std::string whole = query.substr(0, query.find('?')) +
                              (selector == std::string::npos ? "" : query.substr(selector));
    Pages& pages = pages_[whole];
    if (from == 0) pages = {version_, objects_[std::string(kind.plural)]};
    std::string items;
    std::size_t index = 0;
    for (const auto& [name, version] : pages.objects) {
      const bool is_here = index >= from && index < from + 2 && is_selected(query, kind.plural);
      if (is_here) items += (items.empty() ? "" : ",") + object(kind, name, version);
      ++index;
    }
    const std::string next = from + 2 < pages.objects.size() ? std::to_string(from + 2) : "";
    answer(id, 200,
           R"({"kind":")" + std::string(kind.kind) + R"(List","metadata":{"resourceVersion":")" +
               std::to_string(pages.version) + R"(","continue":")" + next + R"("},"items":[)" +
               items + "]}");
  }

  std::mt19937_64 random_;
  State state_ = State::Ready;
  bool is_of_other_version_ = false;
  const bool streams_lists_ = chance(50);
  int version_ = 100;
  int oldest_ = 0;
  std::map<std::string, std::map<std::string, int>> objects_;
  std::vector<Event> history_;
  std::map<std::string, Pages> pages_;
  std::map<std::size_t, Watch> watches_;  // by the number of the request
};

// Sanitizers make each of them ten times slower.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kServers = 3;
#else
constexpr std::uint64_t kServers = 12;
#endif

std::uint64_t number_of_environment(const char* name, std::uint64_t usual) {
  const char* const text = std::getenv(name);
  return text == nullptr ? usual : std::strtoull(text, nullptr, 10);
}

// A daemon with saved state, and a server, through random days.
class ObjectsStayTest : public ::testing::Test {
 protected:
  void begin(std::uint64_t seed) {
    source_.reset();
    server_ = std::make_unique<SimulatedServer>(seed);
    sink_ = FakeRegistry();
    last_name_ = 0;
    restart();
  }
  void restart() {
    source_.reset();
    ClusterSourceOptions options;
    options.naming.source = "kubernetes:t";
    options.needs.root_namespace_is_set = true;
    options.reflector.page_size = 2;
    for (const auto& [origin, held] : sink_.origins)
      options.known.insert(origin.substr(origin.find('/') + 1));
    source_ =
        std::make_unique<ClusterSource>(options, *server_, scheduler_, [] { return 0.5; }, sink_);
    source_->start();
  }
  void pass(Milliseconds time) {
    for (const Milliseconds until = scheduler_.now() + time; scheduler_.now() < until;) {
      scheduler_.pass(Milliseconds(200));
      server_->work();
    }
  }
  std::string new_name() { return "o" + std::to_string(++last_name_); }

  void change_the_store() {
    const SimulatedKind& kind = kKinds.at(1 + server_->below(kKinds.size() - 2));
    if (kind.is_custom && server_->chance(4))
      return server_->is_defined(kind) ? server_->undefine(kind) : server_->define(kind);
    if (!server_->is_defined(kind)) return;
    const auto names = server_->names(kind.plural);
    if (names.size() > 6 || (!names.empty() && server_->chance(30)))
      return server_->remove(kind.plural, names[server_->below(names.size())]);
    server_->add(kind.plural, new_name());
  }
  void change_the_mood() {
    using State = SimulatedServer::State;
    if (server_->chance(5)) restart();
    if (server_->chance(5)) server_->forget_history();
    if (server_->chance(15))
      server_->become(
          std::array{State::Ready, State::Ready, State::Starting, State::Down}[server_->below(4)]);
  }
  std::string state() const {
    const SourceStatus status = source_->status();
    std::string text = status.last_error;
    for (const auto& each : status.cluster->collections)
      text += "\n" + each.name + ": " + (each.watching ? "watching " : "") +
              std::to_string(each.objects) + " " + each.trouble + " " + each.error;
    return text;
  }
  // Pods are followed in the namespaces of ServiceEntries alone.
  FakeRegistry::Texts expected() {
    FakeRegistry::Texts all = server_->labels();
    if (server_->names("serviceentries").empty())
      std::erase_if(all, [](const std::string& label) { return label.starts_with("Pod "); });
    return all;
  }

  FakeScheduler scheduler_;
  std::unique_ptr<SimulatedServer> server_;
  FakeRegistry sink_;
  std::unique_ptr<ClusterSource> source_;
  int last_name_ = 0;
};

TEST_F(ObjectsStayTest, WhatTheServerHasStaysAndWhatItLacksLeaves) {
  const std::uint64_t first = number_of_environment("MESHDNS_SERVERS_SEED", 1);
  const std::uint64_t count = number_of_environment("MESHDNS_SERVERS", kServers);
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE("MESHDNS_SERVERS_SEED=" + std::to_string(seed));
    begin(seed);
    server_->shows_definitions = seed % 3 != 0;
    for (int step = 0; step < 250; ++step) {
      const FakeRegistry::Texts before = sink_.texts();
      const FakeRegistry::Texts had = expected();
      if (server_->chance(60)) change_the_store();
      change_the_mood();
      pass(Milliseconds(200 * (1 + server_->below(15))));
      const FakeRegistry::Texts after = sink_.texts();
      const FakeRegistry::Texts has = expected();
      for (const auto& label : before) {
        const bool stays = had.contains(label) && has.contains(label);
        ASSERT_TRUE(!stays || after.contains(label)) << label << " has left in step " << step;
      }
    }
    server_->become(SimulatedServer::State::Ready);
    server_->has_faults = false;
    // A refusal (403) is tried again after two minutes.
    pass(KindDiscovery::kAbsenceLimit + Milliseconds(130'000));
    ASSERT_EQ(sink_.texts(), expected()) << state();
    ASSERT_TRUE(sink_.complete);
  }
}

}  // namespace
}  // namespace meshdns::registry::kubernetes
