// SPDX-License-Identifier: Apache-2.0
#include "dnsd/answer/explanation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "dnsd/answer/answer_history.hpp"
#include "dnsd/answer/decision.hpp"
#include "dnsd/answer/known_names.hpp"
#include "dnsd/answer/local_resolution.hpp"
#include "dnsd/answer/reverse_zone.hpp"
#include "dnsd/answer/unreached.hpp"
#include "registry/base/counted.hpp"
#include "registry/base/host_name.hpp"
#include "registry/view/view_explanation.hpp"
#include "resolver/wire/name_text.hpp"
#include "resolver/wire/record_text.hpp"
#include "resolver/wire/response_message.hpp"
#include "resolver/wire/upstream_query.hpp"

namespace meshdns::dnsd {
namespace {

using registry::View;
using wire::Type;

// A query as a client would send it, parsed: what answers are made from.
struct AskedQuestion {
  std::array<std::uint8_t, wire::kMaxQuerySize> octets;
  wire::QueryMessage query;
};

void make_question(std::string_view wire_name, Type type, AskedQuestion& question) {
  const std::size_t size =
      wire::build_query(question.octets, {.name = wire_name, .type = type, .edns = false});
  wire::parse_query(std::span(question.octets).first(size), question.query);
}

std::vector<Type> types_for(std::string_view name) {
  if (is_reverse_name(name)) return {Type::Ptr};
  if (name.starts_with('_')) return {Type::Srv};
  return {Type::A, Type::Aaaa};
}

// An explanation shows the beginning of an answer.  A plain query returns all of it.
constexpr std::size_t kShownOctets = 512;
constexpr std::size_t kShownRecords = 4;

// The records that this very decision is answered with.  Aliases are among the facts already:
// `wire_name` is the name at the end of the chain.
std::vector<std::string> answer_records(const ExplainRequest& request, const View& view,
                                        std::string_view wire_name, const Decision& decision,
                                        Type type, RotationTable& rotation) {
  if (decision.verdict == Verdict::Forward || decision.verdict == Verdict::Wait) return {};
  AskedQuestion question;
  make_question(wire_name, type, question);
  std::array<std::uint8_t, kShownOctets> buffer;
  wire::MessageWriter writer(buffer, buffer.size(), question.query);
  AnswerContext context{.view = view,
                        .rotation = rotation,
                        .writer = writer,
                        .type = type,
                        .name = question.query.qname(),
                        .question_size = question.query.qname_size,
                        .server_addresses = request.settings.server_addresses};
  write_answer(decision, context);
  const auto reply = wire::parse_response(std::span(buffer).first(writer.finish()));
  std::vector<std::string> records;
  if (!reply) return records;
  std::vector<const wire::ResponseRecord*> shown;
  for (const auto& record : reply->answer) shown.push_back(&record);
  for (const auto& record : reply->authority) shown.push_back(&record);
  const bool are_all = !reply->truncated && shown.size() <= kShownRecords;
  shown.resize(std::min(shown.size(), kShownRecords));
  for (const auto* record : shown) records.push_back(wire::record_to_text(*record));
  if (!are_all) records.emplace_back("; and more");
  return records;
}

// Adds the servers that a forwarded question goes to, their health, and the cached answer.
void add_forwarding(ForwardingFacts facts, Explanation::Answer& answer, Explanation& explanation) {
  if (!facts.servers.empty()) answer.verdict += " to " + facts.servers;
  answer.cached = std::move(facts.cached);
  // The same for each type, unless an alias leads elsewhere.
  for (std::string& server : facts.health)
    if (std::ranges::find(explanation.upstreams, server) == explanation.upstreams.end())
      explanation.upstreams.push_back(std::move(server));
}

std::string wire_of(const AliasChain& chain, std::string_view wire_name) {
  return chain.empty() ? std::string(wire_name) : wire::wire_from_host(chain.last());
}

std::string lower_case(std::string_view wire_name) {
  std::string lower(wire_name);
  std::ranges::transform(lower, lower.begin(), [](char c) { return to_lower(c); });
  return lower;
}

// The search domain of the client that `name` ends in; empty: none.
std::string_view search_domain_of(const View& view, std::string_view name) {
  const auto& search = view.client().search;
  const auto found = std::ranges::find_if(
      search, [&](const std::string& domain) { return is_below(name, domain); });
  return found == search.end() ? std::string_view() : std::string_view(*found);
}

// A resolver with a search list asks for names that nobody has typed.
void add_search(const View& view, std::string_view name, const Decision& decision,
                const AliasChain& chain, Explanation& explanation) {
  const std::string_view domain = search_domain_of(view, name);
  if (domain.empty() || is_service_name(view, name)) return;
  const std::string_view meant = name.substr(0, name.size() - domain.size() - 1);
  if (chain.empty() && !is_unknown_name(decision)) return;
  explanation.facts.push_back(
      {fmt::format("search: ends in {}, which the client's search list appends; the "
                   "application probably asked for {}.",
                   domain, meant)});
}

std::string age_text(const registry::LostAddress& lost) {
  if (lost.holder_created == lost.created)
    return "it is as old, and its namespace and name come first";
  if (lost.holder_created == registry::kUnknownCreationTime)
    return "it has no creationTimestamp and counts as older";
  return fmt::format("it is older, created {}; this one {}", time_text(lost.holder_created),
                     time_text(lost.created));
}

void add_lost_addresses(const View& view, const registry::Match& match, Explanation& explanation) {
  for (const registry::LostAddress& lost : registry::lost_addresses(view, match))
    explanation.facts.push_back(
        {fmt::format("note: {} is an address of {}: {}", lost.address.to_string(),
                     describe_source(lost.holder, view.snapshot()), age_text(lost)),
         !lost.is_seen});
}

// The facts behind the first type's decision; those of the others differ by family alone.
void add_facts(const View& view, const registry::Trace& trace, const Decision& decision,
               const AliasChain& chain, Explanation& explanation) {
  // A candidate is met twice where a name and the same name without a search domain lead to it.
  for (const auto& step : trace.steps) {
    std::string text = step.candidate + ": " + step.verdict;
    if (std::ranges::find(explanation.facts, text, &Explanation::Fact::text) ==
        explanation.facts.end())
      explanation.facts.push_back({std::move(text), step.hidden});
  }
  if (trace.left_out != 0)
    explanation.facts.push_back(
        {fmt::format("{} more candidates are not shown", trace.left_out), true});
  for (std::size_t i = 0; i < chain.size(); ++i)
    explanation.facts.push_back({fmt::format("alias: leads to {}.", chain.target(i))});
  if (!decision.match) return;
  for (std::string& fact : service_facts(view, decision.match))
    explanation.facts.push_back({std::move(fact)});
  add_lost_addresses(view, decision.match, explanation);
}

// Names the namespace to look at where a question needs too much work.
void add_work(const View& view, const Decision& decision, Explanation& explanation) {
  if (decision.verdict != Verdict::Overworked || view.busiest_namespace() == nullptr) return;
  explanation.facts.push_back({fmt::format("work: most of it is made by objects of namespace {} "
                                           "(/registry/findings: too-much-work)",
                                           view.busiest_namespace()->text()),
                               true});
}

std::string kernel_entry(const ExplainRequest& request, std::string_view wire_name, Type type) {
  if (request.kernel == nullptr) return {};
  const auto entry = request.kernel->find(wire_name, type, request.client);
  if (!entry) return {};
  return fmt::format("answered in the kernel, entry of generation {}", entry->generation);
}

bool would_walk(const View& view, const Decision& decision, std::string_view name) {
  return is_unknown_name(decision) && !walked_name(view, name).empty();
}

// The names that the client may have meant by one that nobody knows.
void add_near_names(const ExplainRequest& request, const Asked& asked, const Decision& decision,
                    const AliasChain& chain, Explanation& explanation) {
  const bool is_unknown =
      is_unknown_name(decision) || decision.registry_only == RegistryOnlyEffect::Refused;
  if (!chain.empty() || !is_unknown || is_reverse_name(asked.name)) return;
  explanation.near = registry::near_names(request.snapshot, request.client, asked.name,
                                          request.most_names_compared);
}

void add_near_lines(const registry::NearNames& near, Audience audience,
                    std::vector<std::string>& lines) {
  std::string text;
  for (const registry::NearName& name : near.names)
    text += fmt::format("{}{} (namespace {})", text.empty() ? "near names: " : ", ", name.name,
                        name.ns);
  if (!text.empty()) lines.push_back(std::move(text));
  // The number of hosts would tell of hidden ones.
  if (!near.is_complete && audience == Audience::Operator)
    lines.push_back(fmt::format("near names: {} of {} were compared; there may be nearer ones",
                                near.compared, counted(near.known, "name")));
}

void add_registry_only(const View& view, const Decision& decision, Explanation& explanation) {
  if (decision.registry_only == RegistryOnlyEffect::None) return;
  explanation.facts.push_back(
      {"REGISTRY_ONLY, by outboundTrafficPolicy of " +
       outbound_policy_of(view.snapshot(), view.client()) +
       ": the client's proxy drops traffic to names that no object that the client sees has"});
}

std::string_view registry_only_text(RegistryOnlyEffect effect) {
  switch (effect) {
    case RegistryOnlyEffect::Explained:
      return "; REGISTRY_ONLY would drop traffic to it";
    case RegistryOnlyEffect::Audited:
      return "; REGISTRY_ONLY would drop traffic to it (counted: mesh.registry_only)";
    case RegistryOnlyEffect::None:
    case RegistryOnlyEffect::Refused:
      break;
  }
  return {};
}

void explain_type(const ExplainRequest& request, std::string_view wire_name, Type type,
                  RotationTable& rotation, FoundNames& found, Explanation& explanation) {
  AskedQuestion question;
  make_question(wire_name, type, question);
  View view(request.snapshot, request.client);
  view.limit_work(kMaxWork);
  std::array<char, wire::kMaxNameLength + 1> odd_name;
  Asked asked = asked_of(question.query, odd_name);
  asked.server_addresses = request.settings.server_addresses;
  asked.found = &found;
  asked.local = request.settings.local.get();
  asked.served = request.settings.served.get();
  asked.registry_only = request.settings.registry_only.get();
  if (request.settings.dns64) asked.dns64 = &*request.settings.dns64;
  registry::Trace trace;
  const bool first = explanation.answers.empty();
  if (first) asked.trace = &trace;
  AliasChain chain;
  const Decision decision = resolve_locally(view, asked, chain);
  if (first) {
    if (!request.snapshot.sources.synced) {
      explanation.facts.push_back({std::string(kNotSynced)});
      if (const std::string source = awaited_source(request.snapshot); !source.empty())
        explanation.facts.push_back({source, true});
    }
    add_search(view, asked.name, decision, chain, explanation);
    add_facts(view, trace, decision, chain, explanation);
    add_work(view, decision, explanation);
    add_registry_only(view, decision, explanation);
    add_near_names(request, asked, decision, chain, explanation);
    if (would_walk(view, decision, asked.name))
      explanation.facts.push_back(
          {"search_shortcut all: the name is tried with the client's other search domains, then "
           "without one, and the client gets what is found; the answer below is for the case that "
           "nothing is"});
  }
  if (!chain.empty()) point_at(chain, asked);
  asked.trace = nullptr;
  const bool decided = decision.verdict != Verdict::Forward && decision.verdict != Verdict::Wait;
  const std::string end = wire_of(chain, wire_name);
  Explanation::Answer answer{
      .type = type,
      .verdict = std::string(to_string(decision.verdict)),
      .why = why_of(view, decision),
      .rcode = decided ? std::string(wire::to_string(rcode_of(decision.verdict))) : "",
      .records = answer_records(request, view, end, decision, type, rotation),
      .cached = {},
      .kernel = chain.empty() ? kernel_entry(request, lower_case(end), type) : std::string()};
  answer.why += registry_only_text(decision.registry_only);
  if (decision.verdict == Verdict::Forward && is_known_by_other_types(view, asked))
    answer.why +=
        "; NXDOMAIN from there becomes NODATA: the client knows this name or one below it";
  if (decision.verdict == Verdict::Forward && request.forwarding)
    add_forwarding(request.forwarding(lower_case(end), type), answer, explanation);
  explanation.answers.push_back(std::move(answer));
}

}  // namespace

Result<Explanation> explain(const ExplainRequest& request) {
  const auto wire_name = wire::name_from_text(request.name);
  if (!wire_name) return std::unexpected(wire_name.error());
  AskedQuestion question;
  make_question(*wire_name, Type::A, question);
  Explanation explanation;
  explanation.name = wire::name_to_text(*wire_name);
  explanation.identity = identity_of(request.client);
  std::vector<Type> types = request.types;
  if (types.empty()) types = types_for(question.query.qname());
  RotationTable rotation(1);
  FoundNames found;
  for (const Type type : types)
    explain_type(request, *wire_name, type, rotation, found, explanation);
  if (!request.past) return explanation;
  View view(request.snapshot, request.client);
  view.limit_work(kMaxWork);
  for (std::string& fact : request.past(view, request.name))
    explanation.facts.push_back({std::move(fact), true});
  return explanation;
}

std::vector<std::string> to_lines(const Explanation& explanation, Audience audience) {
  std::vector<std::string> lines;
  lines.push_back(explanation.name + " for " + explanation.identity);
  for (const auto& fact : explanation.facts)
    if (!fact.hidden || audience == Audience::Operator) lines.push_back(fact.text);
  for (const auto& answer : explanation.answers) {
    std::string line = fmt::format("{}: {}", wire::to_string(answer.type), answer.verdict);
    if (!answer.rcode.empty()) line += ", " + answer.rcode;
    if (!answer.why.empty()) line += ": " + answer.why;
    lines.push_back(std::move(line));
    for (const std::string& record : answer.records) lines.push_back(record);
    if (!answer.kernel.empty())
      lines.push_back(fmt::format("{}: {}", wire::to_string(answer.type), answer.kernel));
    if (!answer.cached.empty() && audience == Audience::Operator)
      lines.push_back(fmt::format("cache, {}: {}", wire::to_string(answer.type), answer.cached));
  }
  if (audience == Audience::Operator)
    for (const std::string& server : explanation.upstreams) lines.push_back("upstream: " + server);
  add_near_lines(explanation.near, audience, lines);
  return lines;
}

Result<Explanation> explain_unknown_client(std::string_view name, const IpAddress& address) {
  const auto wire_name = wire::name_from_text(name);
  if (!wire_name) return std::unexpected(wire_name.error());
  Explanation explanation;
  explanation.name = wire::name_to_text(*wire_name);
  explanation.identity = "an unknown client";
  explanation.facts.push_back({"no Pod or WorkloadEntry has " + address.to_string() +
                                   ", and client.unknown is refuse: its queries are REFUSED, "
                                   "whatever the name",
                               false});
  return explanation;
}

void add_client_facts(Explanation& explanation, const registry::Snapshot& snapshot,
                      const AccessList& allow, const IpAddress& address) {
  auto& facts = explanation.facts;
  if (const auto* entry = snapshot.client_entry_at(address); entry != nullptr)
    facts.insert(facts.begin(), {"identity: " + entry->why, true});
  else if (snapshot.by_source_address && snapshot.client_at(address) != nullptr)
    facts.insert(facts.begin(), {"identity: no Pod or WorkloadEntry has the address", true});
  if (allow.contains(address)) return;
  facts.insert(facts.begin(), {"server.allow does not include " + address.to_string() +
                                   ": its queries are REFUSED, whatever the name",
                               false});
  for (Explanation::Answer& answer : explanation.answers)
    answer = {.type = answer.type,
              .verdict = "REFUSED",
              .why = "this client is not in server.allow",
              .rcode = std::string(wire::to_string(wire::Rcode::Refused)),
              .records = {},
              .cached = {},
              .kernel = {}};
  explanation.upstreams.clear();
}

}  // namespace meshdns::dnsd
