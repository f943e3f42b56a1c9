// SPDX-License-Identifier: Apache-2.0
#include "tests/in_process/scenario.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <iterator>
#include <optional>
#include <ranges>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string_view>

#include "dnsd/config/load.hpp"
#include "tests/in_process/yaml_text.hpp"

namespace meshdns::dnsd::test {
namespace {

// As in tests/harness/scenario.py: what a change may take to be seen.
constexpr std::chrono::milliseconds kVisibleWithin{1'500};
constexpr std::chrono::milliseconds kRetryAfter{50};
// The forwarder asks each upstream for a name below this one when it is first used.
constexpr std::string_view kLoopCheck = ".loop-check.meshdns.internal.";
constexpr int kSharedAnswers = 400;
// The worst difference that first_weighted_place() has from the share of a weight, see its test.
constexpr double kWeightTolerance = 3;

const std::map<std::string, std::set<std::string>> kStepKeys = {
    {"query",
     {"query", "answer", "client", "from", "transport", "sent_upstream", "asked_upstream",
      "eventually", "repeat", "first_share", "edns", "bufsize", "do", "ad", "cd", "rd"}},
    {"write", {"write", "resources"}},
    {"delete", {"delete"}},
    {"upstream", {"upstream", "index"}},
    {"time_passes", {"time_passes"}}};
const std::set<std::string> kScenarioKeys = {"name",     "about",     "config",   "client",
                                             "clients",  "resources", "load",     "steps",
                                             "upstream", "upstreams", "any_order"};
const std::set<std::string> kRuleKeys = {
    "match",  "transport", "times",      "drop",  "delay", "rcode",           "truncate",
    "answer", "authority", "additional", "forge", "then",  "formerr_on_edns", "when"};

void refuse_unknown(const YAML::Node& mapping, const std::set<std::string>& known,
                    const std::string& place) {
  for (const auto& item : mapping)
    if (!known.contains(item.first.Scalar()))
      throw std::invalid_argument(place + ": '" + item.first.Scalar() +
                                  "' is unknown or has no meaning inside the test process; a "
                                  "scenario that is for the daemon alone says `needs: daemon`");
}

std::vector<YAML::Node> nodes_of(const YAML::Node& list) {
  std::vector<YAML::Node> result;
  for (const auto& each : list) result.push_back(each);
  return result;
}

// "30s", "2m", "250ms"; a number without unit is seconds.
std::chrono::milliseconds duration_of(const std::string& text) {
  std::size_t end = 0;
  const double number = std::stod(text, &end);
  const std::string unit = text.substr(end);
  const double ms = unit == "ms"                  ? 1
                    : unit.empty() || unit == "s" ? 1'000
                    : unit == "m"                 ? 60'000
                    : unit == "h"                 ? 3'600'000
                                                  : 0;
  if (ms == 0) throw std::invalid_argument("'" + text + "' is no time; write 250ms, 30s, 2m or 1h");
  return std::chrono::milliseconds(std::llround(number * ms));
}

UpstreamRule rule_of(const YAML::Node& node) {
  refuse_unknown(node, kRuleKeys, "upstream rule");
  UpstreamRule rule;
  rule.match = node["match"].as<std::string>("");
  rule.transport = node["transport"].as<std::string>("");
  rule.times = node["times"].as<int>(-1);
  rule.drop = node["drop"].as<bool>(false);
  rule.delay_ms = static_cast<std::uint64_t>(std::llround(node["delay"].as<double>(0) * 1'000));
  rule.rcode = node["rcode"].as<std::string>("");
  rule.truncate = node["truncate"].as<bool>(false);
  rule.answer = strings_of(node["answer"]);
  rule.authority = strings_of(node["authority"]);
  rule.additional = strings_of(node["additional"]);
  rule.forge = node["forge"].as<std::string>("");
  rule.then = node["then"].as<bool>(false);
  rule.formerr_on_edns = node["formerr_on_edns"].as<bool>(false);
  rule.when = node["when"].as<std::string>("");
  return rule;
}

void set_upstream(ScriptedUpstream& upstream, const YAML::Node& spec) {
  if (spec.IsSequence()) return upstream.set(UpstreamZone(strings_of(spec)), {});
  refuse_unknown(spec, {"records", "rules"}, "upstream");
  std::vector<UpstreamRule> rules;
  for (const auto& rule : spec["rules"]) rules.push_back(rule_of(rule));
  upstream.set(UpstreamZone(strings_of(spec["records"])), std::move(rules));
}

// `base` with `change` laid over it, mapping by mapping.
void merge(YAML::Node base, const YAML::Node& change) {
  for (const auto& item : change) {
    const std::string key = item.first.Scalar();
    if (base[key] && base[key].IsMap() && item.second.IsMap())
      merge(base[key], item.second);
    else
      base[key] = YAML::Clone(item.second);
  }
}

void replace_all(std::string& text, const std::string& what, const std::string& with) {
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at))
    text.replace(at, what.size(), with);
}

// How often each address was first, against an even share or the shares that the step gives.
std::vector<std::string> share_problems(const std::map<std::string, int>& firsts,
                                        const YAML::Node& wanted) {
  std::vector<std::string> problems;
  if (wanted.IsScalar()) {
    const auto [least, most] = std::ranges::minmax(firsts | std::views::values);
    if (wanted.Scalar() != "even") throw std::invalid_argument("first_share: write even or shares");
    if (most - least > 1)
      problems.push_back("an address is first in " + std::to_string(most) +
                         " answers, another in " + std::to_string(least));
    return problems;
  }
  for (const auto& item : wanted) {
    const auto found = firsts.find(item.first.Scalar());
    const int times = found == firsts.end() ? 0 : found->second;
    if (std::abs(times - item.second.as<double>() * kSharedAnswers) > kWeightTolerance)
      problems.push_back(item.first.Scalar() + " is first in " + std::to_string(times) + " of " +
                         std::to_string(kSharedAnswers) + " answers");
  }
  return problems;
}

}  // namespace

std::vector<YAML::Node> scenarios_of(const std::filesystem::path& file) {
  std::vector<YAML::Node> scenarios = YAML::LoadAllFromFile(file.string());
  std::erase_if(scenarios, [](const YAML::Node& node) { return !node || node.IsNull(); });
  return scenarios;
}

bool needs_daemon(const YAML::Node& scenario) {
  return scenario["needs"].as<std::string>("") == "daemon";
}

ScenarioRun::ScenarioRun(const YAML::Node& scenario, Order order) : scenario_(scenario) {
  refuse_unknown(scenario, kScenarioKeys, "scenario");
  start_upstreams();
  start_daemons(order);
}

void ScenarioRun::start_upstreams() {
  std::vector<YAML::Node> specs;
  const YAML::Node& scenario = scenario_;
  if (const YAML::Node several = scenario["upstreams"])
    specs = nodes_of(several);
  else
    specs.push_back(scenario["upstream"] ? scenario["upstream"]
                                         : YAML::Node(YAML::NodeType::Sequence));
  for (const YAML::Node& spec : specs) {
    upstreams_.push_back(std::make_unique<ScriptedUpstream>(loop_.get(), loop_.round_trip()));
    set_upstream(*upstreams_.back(), spec);
  }
}

void ScenarioRun::start_daemons(Order order) {
  const YAML::Node& scenario = scenario_;
  std::vector<std::pair<std::string, YAML::Node>> clients;
  if (scenario["clients"])
    for (const auto& item : scenario["clients"])
      clients.emplace_back(item.first.Scalar(), item.second);
  else
    clients.emplace_back("", scenario["client"]);
  for (const auto& [name, identity] : clients)
    daemons_[name] = std::make_unique<InProcessDaemon>(loop_, config_for(identity));
  for (const auto& path : strings_of(scenario["load"])) {
    const std::filesystem::path folder = std::filesystem::path(MESHDNS_SOURCE_DIR) / path;
    for (const auto& file : std::filesystem::recursive_directory_iterator(folder)) {
      if (!file.is_regular_file()) continue;
      std::ostringstream text;
      text << std::ifstream(file.path()).rdbuf();
      write(file.path().lexically_relative(folder.parent_path()).string(), text.str());
    }
  }
  // Assignment of a Node changes the Node that it refers to, so that std::ranges::reverse would mix
  // them up.
  std::vector<YAML::Node> resources = nodes_of(scenario["resources"]);
  if (order == Order::Reversed) resources = {resources.rbegin(), resources.rend()};
  if (!resources.empty()) write("resources.yaml", manifest_text(resources));
}

Config ScenarioRun::config_for(const YAML::Node& identity) const {
  YAML::Node config = YAML::Load(R"({admin: {listen: ""}, sources: [{files: {path: /unused}}]})");
  for (const auto& upstream : upstreams_)
    config["upstream"]["servers"].push_back(upstream->server());
  const YAML::Node& scenario = scenario_;
  if (scenario["config"]) merge(config, scenario["config"]);
  if (identity && identity.IsMap()) {
    YAML::Node client;
    client["client"]["default"] = identity;
    merge(config, client);
  }
  std::string text = json_text(config);
  for (std::size_t i = 0; i < upstreams_.size(); ++i)
    replace_all(text, "$UPSTREAM" + std::to_string(i), upstreams_[i]->server());
  LoadedConfig loaded = parse_config(text, "config");
  if (!loaded.valid()) throw std::invalid_argument(loaded.findings.front().to_string());
  return std::move(loaded.config);
}

void ScenarioRun::write(const std::string& file, const std::string& text) {
  for (const auto& [name, daemon] : daemons_) daemon->write(file, text);
}

std::vector<std::string> ScenarioRun::run() {
  int number = 0;
  for (const auto& step : scenario_["steps"]) {
    ++number;
    Problems problems = do_step(step);
    if (problems.empty()) continue;
    problems.insert(problems.begin(), "step " + std::to_string(number));
    return problems;
  }
  return {};
}

ScenarioRun::Problems ScenarioRun::do_step(const YAML::Node& step) {
  const auto kind = std::ranges::find_if(
      kStepKeys, [&](const auto& item) { return static_cast<bool>(step[item.first]); });
  if (kind == kStepKeys.end()) refuse_unknown(step, {}, "step");
  refuse_unknown(step, kind->second, "step");
  if (kind->first == "query") return do_query(step);
  if (kind->first == "time_passes") {
    loop_.run_for(duration_of(step["time_passes"].Scalar()));
    return {};
  }
  if (kind->first == "write")
    write(step["write"].Scalar(), manifest_text(nodes_of(step["resources"])));
  else if (kind->first == "delete")
    for (const auto& [name, daemon] : daemons_) daemon->remove(step["delete"].Scalar());
  else
    set_upstream(*upstreams_.at(step["index"].as<std::size_t>(0)), step["upstream"]);
  has_just_changed_ = true;
  return {};
}

ScenarioRun::Problems ScenarioRun::do_query(const YAML::Node& step) {
  const std::chrono::milliseconds limit = step["eventually"]
                                              ? duration_of(step["eventually"].Scalar())
                                          : has_just_changed_ ? kVisibleWithin
                                                              : std::chrono::milliseconds(0);
  has_just_changed_ = false;
  const Millis end = loop_.now() + static_cast<Millis>(limit.count());
  for (;;) {
    Problems problems = query_once(step);
    if (problems.empty() || loop_.now() >= end) return problems;
    loop_.run_for(kRetryAfter);
  }
}

ScenarioRun::Problems ScenarioRun::query_once(const YAML::Node& step) {
  const YAML::Node queries = step["query"];
  const std::vector<std::string> texts =
      queries.IsScalar() ? std::vector{queries.Scalar()} : strings_of(queries);
  const std::vector<std::string> asked_before = asked_upstream();
  for (const std::string& text : texts) {
    const AskedQuestion question = AskedQuestion::from(text, step);
    const std::size_t before = received(question);
    Problems problems = ask_all_transports(step, question);
    if (problems.empty() && step["first_share"]) problems = compare_first_share(step, question);
    const std::size_t sent = received(question) - before;
    if (problems.empty() && step["sent_upstream"].as<std::size_t>(sent) != sent)
      problems.push_back(std::to_string(sent) + " queries were sent upstream, not " +
                         step["sent_upstream"].Scalar());
    if (problems.empty()) continue;
    problems.insert(problems.begin(), text);
    return problems;
  }
  return compare_asked(step, asked_before);
}

std::vector<std::string> ScenarioRun::asked_upstream() const {
  std::vector<std::string> all;
  for (const auto& upstream : upstreams_)
    std::ranges::copy_if(upstream->asked(), std::back_inserter(all),
                         [](const auto& each) { return !each.contains(kLoopCheck); });
  std::ranges::sort(all);
  return all;
}

ScenarioRun::Problems ScenarioRun::compare_asked(const YAML::Node& step,
                                                 const std::vector<std::string>& before) const {
  if (!step["asked_upstream"]) return {};
  std::vector<std::string> asked;
  std::ranges::set_difference(asked_upstream(), before, std::back_inserter(asked));
  std::vector<std::string> wanted = strings_of(step["asked_upstream"]);
  std::ranges::sort(wanted);
  if (asked == wanted) return {};
  return {"the upstreams were asked " + json_text(YAML::Node(asked)) + ", not " +
          json_text(YAML::Node(wanted))};
}

ScenarioRun::Problems ScenarioRun::ask_all_transports(const YAML::Node& step,
                                                      const AskedQuestion& question) {
  const std::string transport = step["transport"].as<std::string>("both");
  for (const bool tcp : {false, true}) {
    if (transport == (tcp ? "udp" : "tcp")) continue;
    for (int i = step["repeat"].as<int>(1); i > 0; --i) {
      Problems problems = compare(step, question, ask(step, question, tcp));
      if (problems.empty()) continue;
      problems.insert(problems.begin(), tcp ? "over TCP" : "over UDP");
      return problems;
    }
  }
  return {};
}

AskedAnswer ScenarioRun::ask(const YAML::Node& step, const AskedQuestion& question, bool tcp) {
  InProcessDaemon& daemon = *daemons_.at(step["client"].as<std::string>(""));
  const IpAddress client = *IpAddress::parse(step["from"].as<std::string>("127.0.0.1"));
  const Millis start = loop_.now();
  AskedAnswer answer{.wire = daemon.ask(question.to_wire(), client, tcp), .tcp = tcp};
  answer.elapsed = std::chrono::milliseconds(loop_.now() - start);
  return answer;
}

ScenarioRun::Problems ScenarioRun::compare(const YAML::Node& step, const AskedQuestion& question,
                                           const AskedAnswer& answer) const {
  const YAML::Node wanted = step["answer"];
  if (!wanted) return {};
  if (!wanted.IsScalar() || wanted.Scalar() != "FORWARDED")
    return problems_of(question, answer, expectation_of(wanted));
  Problems problems =
      problems_of(question, answer, forwarded_expectation(upstreams_.front()->zone(), question));
  // By any type: a name that does not exist is missing in all of them.
  if (received(question) == 0) problems.emplace_back("never reached the upstream");
  return problems;
}

ScenarioRun::Problems ScenarioRun::compare_first_share(const YAML::Node& step,
                                                       const AskedQuestion& question) {
  std::map<std::string, int> firsts;
  for (int i = 0; i < kSharedAnswers; ++i) {
    const auto reply = wire::parse_response(ask(step, question, false).wire);
    bool is_first = true;
    for (const auto& record : reply->answer) {
      if (record.type == wire::Type::Cname) continue;
      firsts[record_of(record).rdata] += is_first ? 1 : 0;
      is_first = false;
    }
  }
  return share_problems(firsts, step["first_share"]);
}

std::size_t ScenarioRun::received(const AskedQuestion& question) const {
  std::size_t sum = 0;
  for (const auto& upstream : upstreams_) sum += upstream->received(lower(question.name));
  return sum;
}

}  // namespace meshdns::dnsd::test
