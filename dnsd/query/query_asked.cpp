// SPDX-License-Identifier: Apache-2.0
// The part of QueryHandler that notes which host a client has asked for.
#include <array>

#include "dnsd/query/query_handler.hpp"
#include "registry/base/host_name.hpp"

namespace meshdns::dnsd {
namespace {

using registry::AnswerKind;
using registry::HostEntry;
using registry::ServiceRecord;
using registry::View;
using wire::Rcode;

constexpr std::string_view kReverseZone = "arpa";

AskedResult result_of(const ServiceRecord& service) {
  switch (service.answer) {
    case AnswerKind::Alias:
      return AskedResult::Alias;
    case AnswerKind::NoAddress:
    case AnswerKind::NoReadyEndpoints:
      return AskedResult::NoData;
    case AnswerKind::Forward:
      return AskedResult::Forwarded;
    case AnswerKind::Unresolvable:
      return AskedResult::Failed;
    case AnswerKind::Vips:
    case AnswerKind::Endpoints:
    case AnswerKind::Pending:
      break;
  }
  return AskedResult::Address;
}

// REQUIRES: the decision has a match.
AskedResult result_of(const Decision& decision) {
  switch (decision.verdict) {
    case Verdict::Forward:
      return AskedResult::Forwarded;
    case Verdict::NxDomain:  // below a Service
      return AskedResult::NxDomain;
    case Verdict::NoData:
      return result_of(*decision.match.service);
    case Verdict::AliasItself:
      return AskedResult::Alias;
    default:
      return is_failure(decision.verdict) ? AskedResult::Failed : AskedResult::Address;
  }
}

// Returns whether the decision says that no object has given the client this name.  Names that are
// ours without an object (a zone, a Pod's address, localhost) are none that a client depends on.
bool lacks_object(Verdict verdict) {
  return verdict == Verdict::Forward || verdict == Verdict::NxDomain ||
         verdict == Verdict::LocalAddresses || verdict == Verdict::Denied ||
         verdict == Verdict::Refused || verdict == Verdict::NotReady;
}

// The first object that a host has in any namespace.
const ServiceRecord* first_record(const HostEntry* entry) {
  if (entry == nullptr) return nullptr;
  for (const ServiceRecord* const record : entry->records())
    if (!record->placeholder) return record;
  return nullptr;
}

struct Hidden {
  const HostEntry* entry = nullptr;
  const ServiceRecord* record = nullptr;  // null: no object has the name
};

// The host of that name, or else the longest wildcard that takes it in.
Hidden host_for_anybody(const registry::Snapshot& snapshot, std::string_view name) {
  const HostEntry* entry = snapshot.find_host(name);
  if (const ServiceRecord* const record = first_record(entry)) return {entry, record};
  if (snapshot.wildcards.empty()) return {};
  for (std::string_view suffix = parent_of(name); !suffix.empty(); suffix = parent_of(suffix)) {
    if (!snapshot.wildcard_suffixes.may_have(suffix)) continue;
    entry = snapshot.find_wildcard(suffix);
    if (const ServiceRecord* const record = first_record(entry)) return {entry, record};
  }
  return {};
}

// The name that a client's resolver looks for, which has appended a search domain to it.
std::string_view meant_name(const View& view, std::string_view name) {
  if (zone_of(view, name).empty()) return name;
  const std::string_view rest = view.name_without_domain(name);
  return rest.empty() ? name : rest;
}

// The host that a client means by a name that it does not get from the registry.
MeantNames::Meant find_meant(const View& query_view, std::string_view name) {
  // The lookups are none of the query's.
  View view(query_view.snapshot(), query_view.client());
  view.limit_work(kMaxWork);
  const std::string_view meant = meant_name(view, name);
  if (meant.size() != name.size())
    if (const registry::Match match = view.lookup(meant))
      return {0, match.entry, match.service->ns.get(), result_of(*match.service)};
  Hidden hidden = host_for_anybody(view.snapshot(), name);
  if (hidden.record == nullptr && meant.size() != name.size())
    hidden = host_for_anybody(view.snapshot(), meant);
  std::array<char, kMaxHostLength> text;
  for (const std::string& domain : view.client().search) {
    if (hidden.record != nullptr) break;
    if (meant.size() + 1 + domain.size() > text.size()) continue;
    meant.copy(text.data(), meant.size());
    text[meant.size()] = '.';
    domain.copy(text.data() + meant.size() + 1, domain.size());
    const HostEntry* const entry =
        view.snapshot().find_host({text.data(), meant.size() + 1 + domain.size()});
    if (const ServiceRecord* const record = first_record(entry)) hidden = {entry, record};
  }
  if (hidden.record == nullptr) return {};
  const bool is_seen = view.sees(hidden.entry->host(), *hidden.record);
  return {0, hidden.entry, hidden.record->ns.get(),
          is_seen ? result_of(*hidden.record) : AskedResult::Hidden};
}

AskedResult result_of(Rcode rcode, bool has_records) {
  switch (rcode) {
    case Rcode::NoError:
      return has_records ? AskedResult::Address : AskedResult::NoData;
    case Rcode::NxDomain:
      return AskedResult::NxDomain;
    case Rcode::Refused:
      return AskedResult::Refused;
    default:
      return AskedResult::Failed;
  }
}

}  // namespace

void QueryHandler::count_asked(std::shared_ptr<AskedInbox> inbox, bool has_names) {
  hand_over_asked();
  asked_inbox_ = std::move(inbox);
  asked_ = asked_inbox_ ? std::make_unique<AskedHosts>(has_names) : nullptr;
  meant_ = asked_inbox_ ? std::make_unique<MeantNames>() : nullptr;
}

void QueryHandler::hand_over_asked() {
  if (asked_ && !asked_->is_empty()) asked_inbox_->put(asked_);
}

void QueryHandler::note_asked(QueryState& state, const View& view, const Decision& decision) {
  const AskedHosts::Question question{.client = *client_,
                                      .type_slot = QueryCounters::type_slot(state.query->qtype),
                                      .now_ns = state.started_ns};
  if (const auto aliases = passed_.all(); !aliases.empty()) [[unlikely]] {
    for (const registry::Match& alias : aliases)
      asked_->note(question, *alias.entry, alias.service->ns.get(), AskedResult::Alias);
    state.is_asked_noted = true;
  }
  if (decision.match) {
    asked_->note(question, *decision.match.entry, decision.match.service->ns.get(),
                 result_of(decision));
    state.is_asked_noted = true;
  } else if (!state.is_asked_noted && lacks_object(decision.verdict)) {
    note_unknown(state, view, question);
  }
}

// Nobody asks for a host by a reverse name.
void QueryHandler::note_unknown(QueryState& state, const View& view,
                                const AskedHosts::Question& question) {
  const std::string_view name = state.query->qname();
  if (is_at_or_below(name, kReverseZone)) return;
  state.is_asked_noted = true;
  const std::uint64_t tag =
      hash_detail::mix(hash_bytes(name) ^ view.snapshot().generation,
                       reinterpret_cast<std::uintptr_t>(&question.client) | 1U);
  MeantNames::Meant& meant = meant_->at(tag);
  if (meant.tag != tag) {
    meant = find_meant(view, name);
    meant.tag = tag;
  }
  if (meant.entry != nullptr)
    asked_->note(question, *meant.entry, meant.ns, meant.result);
  else if (asked_->has_names() && !state.query->has_odd_octets && !name.empty())
    state.outside_size = static_cast<std::uint8_t>(meant_name(view, name).size());
  else
    asked_->note_outside(question);
}

void QueryHandler::note_outside_reply(const QueryState& state, Rcode rcode, bool has_records) {
  if (!asked_ || client_ == nullptr) return;
  const AskedHosts::Question question{.client = *client_,
                                      .type_slot = QueryCounters::type_slot(state.query->qtype),
                                      .now_ns = state.started_ns};
  const std::string_view name = state.query->qname().substr(0, state.outside_size);
  // A reload may have switched names off while the query waited.
  if (asked_->has_names())
    asked_->note_name(question, name, result_of(rcode, has_records));
  else
    asked_->note_outside(question);
}

}  // namespace meshdns::dnsd
