// SPDX-License-Identifier: Apache-2.0
#include "dnsd/kernel/kernel_feed.hpp"

#include <sodium/crypto_shorthash_siphash24.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <string>

#include "registry/base/host_name.hpp"
#include "resolver/wire/octets.hpp"
#include "resolver/wire/types.hpp"

namespace meshdns::dnsd {
namespace {

// The places of the flags and of the counts in the header, and the bits that come from the query.
constexpr std::size_t kFlagsAt = 2;
constexpr std::size_t kAnswersAt = 6;
constexpr std::size_t kAuthoritiesAt = 8;
constexpr std::size_t kAdditionalsAt = 10;
constexpr std::uint16_t kTruncated = 0x0200;
constexpr std::uint16_t kOfQuery = 0x0110;  // RD and CD
constexpr std::uint16_t kRcode = 0x000f;

// A record whose owner is a pointer: owner, type, class, TTL, length, and the address.
constexpr std::size_t kRecordHead = 12;

std::uint16_t octets_at(std::span<const std::uint8_t> message, std::size_t at) {
  return wire::load_u16(message.data() + at);
}

__be16 network_order(std::uint16_t value) {
  __be16 result = 0;
  wire::store_u16(reinterpret_cast<std::uint8_t*>(&result), value);
  return result;
}

// The clock of programs in the kernel.
std::uint64_t monotonic_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

// Octets in which clients differ that may get different answers.
class ViewText {
 public:
  void add(const registry::SymbolRef& symbol) {
    if (symbol) return add(symbol->text());
    text_ += '-';
  }
  // With its length, so that no part looks like the end of one and the beginning of the next.
  void add(std::string_view part) {
    text_ += std::to_string(part.size());
    text_ += ':';
    text_ += part;
  }
  std::string_view text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace

meshdns_address address_in_maps(const IpAddress& address) {
  meshdns_address result;
  std::ranges::copy(address.octets(), result.octets);
  return result;
}

KernelFeed::KernelFeed(std::shared_ptr<const KernelStore> store, const AnswerSlots::Key& key,
                       std::uint64_t owner)
    : store_(std::move(store)), key_(key), owner_(owner), slots_(store_->generations(), key) {
  std::atomic_ref(store_->control().owner).store(owner_, std::memory_order_seq_cst);
  slots_.begin_change({.everything = true}, {});
  slots_.end_change();
}

bool KernelFeed::is_in_use(const KernelStore& store) {
  const std::uint64_t last =
      std::atomic_ref(store.control().heartbeat_ns).load(std::memory_order_acquire);
  return last != 0 && monotonic_ns() - last < MESHDNS_HEARTBEAT_LIMIT_NS;
}

bool KernelFeed::is_owner() const {
  return std::atomic_ref(store_->control().owner).load(std::memory_order_seq_cst) == owner_;
}

void KernelFeed::set_price(std::uint64_t price_us) {
  std::atomic_ref(store_->control().price_us).store(price_us, std::memory_order_release);
}

void KernelFeed::beat() {
  if (is_owner())
    std::atomic_ref(store_->control().heartbeat_ns)
        .store(monotonic_ns(), std::memory_order_release);
}

void KernelFeed::retire() {
  slots_.retire();
  if (is_owner())
    std::atomic_ref(store_->control().heartbeat_ns).store(0, std::memory_order_release);
}

// Contains what views and answers read of a client.  Its own name and labels are left out: what
// they select is in the scope.  A scope ends only together with all answers
// (Changes::everything), so that its address names it.
KernelFeed::View KernelFeed::view_of(const registry::Client& client) const {
  ViewText text;
  text.add(client.ns);
  text.add(client.network);
  text.add(client.cluster);
  text.add(client.place.node);
  text.add(client.place.region);
  text.add(client.place.zone);
  text.add(client.place.subzone);
  text.add(std::to_string(reinterpret_cast<std::uintptr_t>(client.scope.get())));
  text.add(client.identity.ipv4 ? "4" : "");
  text.add(client.identity.ipv6 ? "6" : "");
  for (const auto& domain : client.search) text.add(domain);
  View view{};
  // Two halves of 64 bits, by two keys.
  AnswerSlots::Key key = key_;
  for (std::size_t half = 0; half < 2; ++half) {
    key[0] = static_cast<std::uint8_t>(key[0] + 1);
    crypto_shorthash_siphash24(view.data() + 8 * half,
                               reinterpret_cast<const unsigned char*>(text.text().data()),
                               text.text().size(), key.data());
  }
  return view;
}

meshdns_question KernelFeed::question_of(std::string_view name, wire::Type type, std::uint8_t flags,
                                         const registry::Client& client) const {
  meshdns_question question{};
  std::ranges::copy(view_of(client), question.view);
  std::ranges::copy(name, question.name);
  question.type = network_order(static_cast<std::uint16_t>(type));
  question.flags = flags;
  return question;
}

meshdns_question KernelFeed::question_of(const KernelAnswer& answer) const {
  const wire::QueryMessage& query = answer.query;
  // Length octets are at most 63, and so no letters.
  std::string name(reinterpret_cast<const char*>(query.question.data()), query.qname_size);
  std::ranges::transform(name, name.begin(), [](char c) { return to_lower(c); });
  std::uint8_t flags = 0;
  if (query.has_edns) flags |= MESHDNS_HAS_OPT;
  if (query.has_edns && query.edns.dnssec_ok) flags |= MESHDNS_DNSSEC_OK;
  return question_of(name, query.qtype, flags, answer.client);
}

bool KernelFeed::fill(const KernelAnswer& answer, meshdns_answer& entry) const {
  const auto reply = answer.reply;
  const std::size_t head = wire::kHeaderSize + answer.query.question.size();
  if (reply.size() < head || reply.size() - head > MESHDNS_MAX_TAIL) return false;
  const std::uint16_t flags = octets_at(reply, kFlagsAt);
  if ((flags & kTruncated) != 0) return false;
  const auto tail = reply.subspan(head);
  std::ranges::copy(tail, entry.tail);
  entry.tail_size = static_cast<std::uint16_t>(tail.size());
  entry.flags = network_order(static_cast<std::uint16_t>(flags & ~kOfQuery));
  entry.rcode = static_cast<std::uint8_t>(flags & kRcode);
  entry.generation = answer.generation;
  const std::uint16_t records = octets_at(reply, kAnswersAt);
  entry.answers = network_order(records);
  entry.authorities = network_order(octets_at(reply, kAuthoritiesAt));
  entry.additionals = network_order(octets_at(reply, kAdditionalsAt));
  if (!answer.is_rotated || records < 2) return true;
  const std::size_t size = kRecordHead + (answer.query.qtype == wire::Type::A ? 4 : 16);
  if (size * records > tail.size()) return false;
  entry.record_size = static_cast<std::uint8_t>(size);
  entry.record_count = static_cast<std::uint8_t>(records);
  return true;
}

bool KernelFeed::offer(const AnswerSlots::Moment& moment, const KernelAnswer& answer) const {
  if (answer.query.qname_size > MESHDNS_MAX_NAME) return false;
  meshdns_answer entry{};
  AnswerDependencies dependencies;
  if (!slots_.add_names(answer.reads, answer.cluster_domain, dependencies)) return false;
  if (!fill(answer, entry)) return false;
  const std::span<const std::uint32_t> slots = dependencies.slots();
  std::ranges::copy(slots, entry.dependencies);
  entry.dependency_count = static_cast<std::uint8_t>(slots.size());
  entry.stamp = slots_.stamp(slots);

  const meshdns_question question = question_of(answer);
  meshdns_client client{};
  std::ranges::copy(question.view, client.view);
  client.slot = slots_.slot_of(answer.client_address);
  client.stamp = slots_.stamp({&client.slot, 1});
  client.until_ns = monotonic_ns() + MESHDNS_CLIENT_LIFE_NS;
  const RateAccounts::Place place = RateAccounts::place_of(answer.limited_as);
  client.account = place.account;
  client.tag = place.tag;
  // From here on the stamps are older than any change that begins.
  if (!slots_.holds(moment) || !is_owner()) return false;
  return store_->put(address_in_maps(answer.client_address), client) &&
         store_->put(question, entry);
}

std::optional<KernelEntry> KernelFeed::find(std::string_view name, wire::Type type,
                                            const registry::Client& client) const {
  if (name.size() > MESHDNS_MAX_NAME) return {};
  for (const int flags : {0, +MESHDNS_HAS_OPT, MESHDNS_HAS_OPT | MESHDNS_DNSSEC_OK}) {
    meshdns_answer entry{};
    if (store_->get(question_of(name, type, static_cast<std::uint8_t>(flags), client), entry) &&
        entry.stamp == slots_.stamp(std::span(entry.dependencies).first(entry.dependency_count)))
      return KernelEntry{entry.generation};
  }
  return {};
}

std::uint64_t KernelFeed::hash_of(const KernelAnswer& answer) const {
  std::uint64_t hash = 0;
  const std::string_view name = answer.query.qname();
  crypto_shorthash_siphash24(reinterpret_cast<unsigned char*>(&hash),
                             reinterpret_cast<const unsigned char*>(name.data()), name.size(),
                             key_.data());
  const std::uint64_t kind = static_cast<std::uint64_t>(answer.query.qtype) << 2 |
                             (answer.query.has_edns ? 1U : 0U) |
                             (answer.query.has_edns && answer.query.edns.dnssec_ok ? 2U : 0U);
  return hash ^ kind * 0x9e3779b97f4a7c15ULL ^
         static_cast<std::uint64_t>(slots_.slot_of(answer.client_address)) << 40;
}

}  // namespace meshdns::dnsd
