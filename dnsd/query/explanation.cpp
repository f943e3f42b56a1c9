#include "dnsd/query/explanation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "dnsd/query/local_resolution.hpp"
#include "dnsd/query/reverse_zone.hpp"
#include "dnsd/query/service_facts.hpp"
#include "dnsd/wire/name_text.hpp"
#include "dnsd/wire/record_text.hpp"
#include "dnsd/wire/response_message.hpp"
#include "dnsd/wire/upstream_query.hpp"

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

// The records that this very decision is answered with.
std::vector<std::string> answer_records(const View& view, const AskedQuestion& question,
                                        const Decision& decision, const AliasChain& chain,
                                        const QuerySettings& settings) {
  std::vector<std::uint8_t> buffer(wire::kMaxMessageSize);
  wire::MessageWriter writer(buffer, buffer.size(), question.query);
  RotationTable rotation(1);
  AnswerContext context{.view = view,
                        .rotation = rotation,
                        .writer = writer,
                        .type = question.query.qtype,
                        .name = question.query.qname(),
                        .question_size = question.query.qname_size,
                        .server_addresses = settings.server_addresses};
  if (decision.verdict == Verdict::Forward || decision.verdict == Verdict::Wait)
    chain.write(writer, context.owner);
  else
    write_resolution(decision, chain, context);
  const auto reply = wire::parse_response(std::span(buffer).first(writer.finish()));
  std::vector<std::string> records;
  if (!reply) return records;
  for (const auto& record : reply->answer) records.push_back(wire::record_to_text(record));
  for (const auto& record : reply->authority) records.push_back(wire::record_to_text(record));
  return records;
}

std::string describe_verdict(const ExplainRequest& request, const Decision& decision,
                             std::string_view name) {
  std::string text(to_string(decision.verdict));
  if (decision.verdict != Verdict::Forward || !request.route) return text;
  const std::string servers = request.route(name);
  return servers.empty() ? text : text + " to " + servers;
}

std::string wire_of(const AliasChain& chain, std::string_view wire_name) {
  return chain.empty() ? std::string(wire_name) : wire::wire_from_host(chain.last());
}

std::string lower_case(std::string_view wire_name) {
  std::string lower(wire_name);
  std::ranges::transform(lower, lower.begin(), [](char c) { return to_lower(c); });
  return lower;
}

// The facts behind the first type's decision; those of the others differ by family alone.
void add_facts(const View& view, const registry::Trace& trace, const Decision& decision,
               const AliasChain& chain, Explanation& explanation) {
  for (const auto& step : trace.steps)
    explanation.facts.push_back({step.candidate + ": " + step.verdict, step.hidden});
  for (std::size_t i = 0; i < chain.size(); ++i)
    explanation.facts.push_back({fmt::format("alias: leads to {}.", chain.target(i))});
  if (!decision.match) return;
  for (std::string& fact : service_facts(view, decision.match))
    explanation.facts.push_back({std::move(fact)});
}

bool would_walk(const View& view, const Decision& decision, std::string_view name) {
  return view.settings().search_shortcut == registry::SearchShortcut::All && !decision.match &&
         (decision.verdict == Verdict::NxDomain || decision.verdict == Verdict::Forward) &&
         std::ranges::any_of(view.client().search,
                             [&](const std::string& domain) { return is_below(name, domain); });
}

void explain_type(const ExplainRequest& request, std::string_view wire_name, Type type,
                  Explanation& explanation) {
  AskedQuestion question;
  make_question(wire_name, type, question);
  const View view(request.snapshot, request.client);
  std::array<char, wire::kMaxNameLength + 1> odd_name;
  Asked asked = asked_of(question.query, odd_name);
  asked.server_addresses = request.settings.server_addresses;
  asked.local = request.settings.local.get();
  if (request.settings.dns64) asked.dns64 = &*request.settings.dns64;
  registry::Trace trace;
  const bool first = explanation.answers.empty();
  if (first) asked.trace = &trace;
  AliasChain chain;
  const Decision decision = resolve_locally(view, asked, chain);
  if (first) {
    add_facts(view, trace, decision, chain, explanation);
    if (would_walk(view, decision, asked.name))
      explanation.facts.push_back(
          {"search_shortcut all: the rest of the client's search list is tried, then the name "
           "alone"});
  }
  const bool decided = decision.verdict != Verdict::Forward && decision.verdict != Verdict::Wait;
  explanation.answers.push_back(
      {.type = type,
       .verdict = describe_verdict(request, decision, lower_case(wire_of(chain, wire_name))),
       .why = std::string(decision.why),
       .rcode = decided ? std::string(wire::to_string(rcode_of(decision.verdict))) : "",
       .records = answer_records(view, question, decision, chain, request.settings)});
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
  for (const Type type : types) explain_type(request, *wire_name, type, explanation);
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
  }
  return lines;
}

}  // namespace meshdns::dnsd
