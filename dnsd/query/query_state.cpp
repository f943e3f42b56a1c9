// SPDX-License-Identifier: Apache-2.0
#include "dnsd/query/query_state.hpp"

#include <algorithm>
#include <ranges>

#include "registry/base/host_name.hpp"
#include "registry/base/ip_address.hpp"

namespace meshdns::dnsd {

void SearchWalk::begin(std::string_view rest, const std::vector<std::string>& domains) {
  for (const std::string& domain : domains | std::views::drop(1)) {
    if (domain == domains.front() || rest.size() + 1 + domain.size() > kMaxHostLength) continue;
    names_.push_back(std::string(rest).append(".").append(domain));
  }
  names_.emplace_back(rest);
  active_ = true;
}

std::string_view SearchWalk::next() {
  if (next_ < names_.size()) return names_[next_++];
  active_ = false;
  over_ = true;
  return {};
}

void SearchWalk::stop(wire::Ede why) {
  stopped_by = why;
  active_ = false;
  over_ = true;
}

HeldQuery::HeldQuery(const QueryState& from)
    : query(*from.query), reply_to(*from.reply_to), state(from) {
  const std::size_t size = query.question.size();
  std::memcpy(question.data(), query.question.data(), size);
  query.question = {question.data(), size};
  state.query = &query;
  state.reply_to = &reply_to;
}

HeldQuery* HeldQueries::add(const QueryState& state, std::uint64_t& number) {
  if (queries_.size() >= limit_) return nullptr;
  std::size_t& of_client = by_client_[limit_key_of(state.reply_to->client.address)];
  if (of_client >= limit_per_client_) return nullptr;
  ++of_client;
  number = ++last_number_;
  return queries_.emplace(number, std::make_unique<HeldQuery>(state)).first->second.get();
}

HeldQuery* HeldQueries::find(std::uint64_t number) {
  const auto found = queries_.find(number);
  return found == queries_.end() ? nullptr : found->second.get();
}

void HeldQueries::remove(std::uint64_t number) {
  const auto found = queries_.find(number);
  if (found == queries_.end()) return;
  const auto of_client = by_client_.find(limit_key_of(found->second->reply_to.client.address));
  if (--of_client->second == 0) by_client_.erase(of_client);
  queries_.erase(found);
}

std::vector<std::uint64_t> HeldQueries::awaiting_snapshot(Millis now) const {
  std::vector<std::uint64_t> numbers;
  for (const auto& [number, held] : queries_)
    if (held->awaits_snapshot && held->give_up_at <= now) numbers.push_back(number);
  std::ranges::sort(numbers);  // first come, first served
  return numbers;
}

Millis HeldQueries::next_deadline() const {
  Millis first = kAll;
  for (const auto& [number, held] : queries_)
    if (held->awaits_snapshot) first = std::min(first, held->give_up_at);
  return first;
}

void HeldQueries::clear() {
  queries_.clear();
  by_client_.clear();
}

}  // namespace meshdns::dnsd
