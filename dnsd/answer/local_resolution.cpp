// SPDX-License-Identifier: Apache-2.0
#include "dnsd/answer/local_resolution.hpp"

#include <algorithm>
#include <cstring>

#include "dnsd/answer/dns64.hpp"
#include "registry/base/host_name.hpp"

namespace meshdns::dnsd {
namespace {

using registry::Match;

// The absolute name that a search step stands for: for short forms the Service's full name, since
// "web.other" is no name that resolves elsewhere (docs/semantics-istio.md, "Search names").
bool add_search_target(const registry::View& view, const Decision& decision, AliasChain& chain) {
  const Match& match = decision.match;
  const std::string_view host = match.entry->host();
  const bool wildcard = host.starts_with('*');
  const std::uint32_t ttl = negative_ttl(view);
  if (match.how == Match::How::Below && !wildcard) return chain.add(match.below, host, ttl);
  return chain.add({}, match.how == Match::How::Short ? host : decision.stripped, ttl);
}

bool add_target(const registry::View& view, const Decision& decision, AliasChain& chain) {
  if (decision.verdict == Verdict::SearchAlias) return add_search_target(view, decision, chain);
  return chain.add({}, decision.match.service->alias(), view.ttl(*decision.match.service));
}

bool is_alias(const Decision& decision) {
  return decision.verdict == Verdict::Alias || decision.verdict == Verdict::SearchAlias;
}

// The name of a translated address leads to that of the address it stands for.
bool add_translated_pointer(const registry::View& view, const Asked& asked,
                            const Decision& decision, AliasChain& chain) {
  const bool is_unknown = decision.verdict == Verdict::Forward || decision.is_empty_zone;
  if (asked.dns64 == nullptr || !is_unknown || decision.match || asked.type != wire::Type::Ptr)
    return false;
  const std::string target = translated_pointer(*asked.dns64, asked.name);
  return !target.empty() && chain.add({}, target, view.settings().ttl.endpoint);
}

// A name with a label that no host has, for look-ups that only a wildcard may answer: everything
// up to the last such label becomes "*".
std::string_view wildcard_form(const wire::QueryMessage& query, std::span<char> text) {
  const std::uint8_t* const name = query.question.data();
  std::size_t good = 0;  // where the labels behind the last odd one begin, in the text
  for (std::size_t at = 0; name[at] != 0; at += name[at] + std::size_t{1}) {
    const std::span label(name + at + 1, name[at]);
    if (std::ranges::any_of(label, [](std::uint8_t c) { return c == '.' || c == 0; }))
      good = at + label.size() + 1;
  }
  text[0] = '*';
  if (good >= query.qname().size()) return {text.data(), 1};
  const std::string_view rest = query.qname().substr(good - 1);  // with the dot
  std::memcpy(text.data() + 1, rest.data(), rest.size());
  return {text.data(), rest.size() + 1};
}

}  // namespace

Asked asked_of(const wire::QueryMessage& query, std::span<char> odd_name) {
  return {.name = query.has_odd_octets ? wildcard_form(query, odd_name) : query.qname(),
          .type = query.qtype,
          .has_odd_labels = query.has_odd_octets};
}

void point_at(const AliasChain& chain, Asked& asked) {
  asked.name = chain.last();
  asked.is_target = !asked.is_walking || chain.size() > 1;
  asked.is_absolute = true;
  asked.has_odd_labels = false;
}

Decision resolve_locally(const registry::View& view, Asked asked, AliasChain& chain) {
  for (;;) {
    if (!chain.empty()) point_at(chain, asked);
    Decision decision = decide(view, asked);
    if (add_translated_pointer(view, asked, decision, chain)) continue;
    if (!is_alias(decision)) return decision;
    if (!add_target(view, decision, chain)) {
      decision.verdict = Verdict::AliasLoop;
      decision.why = "the chain of aliases is a loop or too long";
      return decision;
    }
    // RFC 1034, section 3.6.2: a query for the alias itself gets the alias only.
    if (asked.type == wire::Type::Cname || asked.type == wire::Type::Any) {
      decision.verdict = Verdict::AliasItself;
      return decision;
    }
    // A search step has found what its target finds again.
    if (asked.passed != nullptr && decision.verdict == Verdict::Alias)
      asked.passed->add(decision.match);
  }
}

void write_resolution(const Decision& decision, const AliasChain& chain, AnswerContext& context) {
  // A failure is the answer of the whole chain: nothing of it may be kept.
  if (!chain.empty() && !is_failure(decision.verdict)) {
    context.name = chain.last();
    if (!chain.write(context.writer, context.now, context.owner))
      return context.writer.set_truncated();
  }
  write_answer(decision, context);
}

}  // namespace meshdns::dnsd
