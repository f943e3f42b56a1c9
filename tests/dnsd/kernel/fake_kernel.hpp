// SPDX-License-Identifier: Apache-2.0
// The program in the kernel as a model: it has the entries that a daemon gives it, and answers with
// them by the rules of dnsd/kernel/program/answer_maps.h.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <map>
#include <optional>
#include <vector>

#include "dnsd/kernel/kernel_feed.hpp"
#include "resolver/wire/octets.hpp"
#include "resolver/wire/query_message.hpp"

namespace meshdns::dnsd {

class FakeKernel final : public KernelStore {
 public:
  meshdns_control& control() const override { return control_; }
  std::span<std::uint64_t> generations() const override { return generations_; }
  std::span<std::uint64_t> accounts() const override { return accounts_; }
  bool put(const meshdns_address& address, const meshdns_client& client) const override {
    clients_[octets_of(address)] = client;
    return true;
  }
  bool put(const meshdns_question& question, const meshdns_answer& answer) const override {
    answers_[octets_of(question)] = answer;
    return true;
  }
  bool get(const meshdns_address& address, meshdns_client& client) const override {
    return find(clients_, address, client);
  }
  bool get(const meshdns_question& question, meshdns_answer& answer) const override {
    return find(answers_, question, answer);
  }

  // The reply to a query of the simple form; nullopt: the daemon gets it.
  std::optional<std::vector<std::uint8_t>> answer(std::span<const std::uint8_t> query,
                                                  const IpAddress& from) {
    wire::QueryMessage message;
    if (wire::parse_query(query, message) != wire::ParseOutcome::Ok) return {};
    meshdns_client client;
    if (!get(address_in_maps(from), client) || client.stamp != stamp({&client.slot, 1})) return {};
    if (now_ns() >= client.until_ns) return {};
    meshdns_question question{};
    std::ranges::copy(client.view, question.view);
    for (std::size_t i = 0; i < message.qname_size; ++i)
      question.name[i] = static_cast<std::uint8_t>(std::tolower(message.question[i]));
    std::memcpy(&question.type, message.question.data() + message.qname_size, 2);
    question.flags = static_cast<std::uint8_t>(
        (message.has_edns ? MESHDNS_HAS_OPT : 0) |
        (message.has_edns && message.edns.dnssec_ok ? MESHDNS_DNSSEC_OK : 0));
    const auto found = answers_.find(octets_of(question));
    if (found == answers_.end()) return {};
    meshdns_answer& entry = found->second;
    if (entry.stamp != stamp(std::span(entry.dependencies).first(entry.dependency_count)))
      return {};
    ++answered;
    return reply(query, message, entry);
  }

  std::size_t answered = 0;
  std::uint64_t ahead_ns = 0;  // of the daemon's clock
  std::size_t entries() const { return answers_.size(); }
  void clear() { answers_.clear(); }

 private:
  std::uint64_t now_ns() const {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return static_cast<std::uint64_t>(std::chrono::nanoseconds(now).count()) + ahead_ns;
  }
  template <typename T>
  static std::vector<std::uint8_t> octets_of(const T& value) {
    const auto* const first = reinterpret_cast<const std::uint8_t*>(&value);
    return {first, first + sizeof value};
  }
  template <typename Key, typename Value>
  static bool find(const std::map<std::vector<std::uint8_t>, Value>& in, const Key& key,
                   Value& value) {
    const auto found = in.find(octets_of(key));
    if (found == in.end()) return false;
    value = found->second;
    return true;
  }
  std::uint64_t stamp(std::span<const std::uint32_t> slots) const {
    std::uint64_t sum = generations_[MESHDNS_SLOT_OF_ALL];
    for (const std::uint32_t slot : slots) sum += generations_[slot];
    return sum;
  }
  static std::vector<std::uint8_t> reply(std::span<const std::uint8_t> query,
                                         const wire::QueryMessage& message, meshdns_answer& entry) {
    const std::size_t head = wire::kHeaderSize + message.question.size();
    std::vector<std::uint8_t> octets(query.begin(),
                                     query.begin() + static_cast<std::ptrdiff_t>(head));
    std::memcpy(&octets[2], &entry.flags, 2);
    octets[2] = static_cast<std::uint8_t>(octets[2] | (query[2] & 0x01));  // RD
    octets[3] = static_cast<std::uint8_t>(octets[3] | (query[3] & 0x10));  // CD
    std::memcpy(&octets[6], &entry.answers, 2);
    std::memcpy(&octets[8], &entry.authorities, 2);
    std::memcpy(&octets[10], &entry.additionals, 2);
    std::vector<std::uint8_t> tail(entry.tail, entry.tail + entry.tail_size);
    if (entry.record_count > 1) {
      const std::size_t first = entry.turn++ % entry.record_count;
      const auto end = tail.begin() + std::ptrdiff_t{entry.record_count} * entry.record_size;
      std::rotate(tail.begin(),
                  tail.begin() + static_cast<std::ptrdiff_t>(first) * entry.record_size, end);
    }
    octets.insert(octets.end(), tail.begin(), tail.end());
    return octets;
  }

  mutable meshdns_control control_{MESHDNS_MAPS_VERSION, 0, 0, 0, 0};
  mutable std::vector<std::uint64_t> generations_ = std::vector<std::uint64_t>(MESHDNS_SLOTS);
  mutable std::vector<std::uint64_t> accounts_ = std::vector<std::uint64_t>(MESHDNS_ACCOUNTS);
  mutable std::map<std::vector<std::uint8_t>, meshdns_client> clients_;
  mutable std::map<std::vector<std::uint8_t>, meshdns_answer> answers_;
};

}  // namespace meshdns::dnsd
