// SPDX-License-Identifier: Apache-2.0
#include "dnsd/kernel/answer_slots.hpp"

#include <sodium/crypto_shorthash_siphash24.h>

#include <algorithm>
#include <cstring>

#include "registry/base/host_name.hpp"
#include "registry/model/mesh_settings.hpp"

namespace meshdns::dnsd {
namespace {

constexpr std::string_view kServices = "svc";

// Returns whether all names of the cluster domain or of the cluster set end in `name`:
// "svc.cluster.local" and the names above it.  Such a slot would be part of every answer; that of
// everything stands for it.
bool is_above_services(std::string_view name, std::string_view cluster_domain) {
  for (const std::string_view domain : {cluster_domain, registry::kClusterSetDomain}) {
    if (is_at_or_below(domain, name)) return true;
    if (name.size() == kServices.size() + 1 + domain.size() && name.starts_with("svc.") &&
        name.ends_with(domain))
      return true;
  }
  return false;
}

}  // namespace

std::uint32_t AnswerSlots::slot_of(std::string_view name) const {
  std::uint64_t hash = 0;
  crypto_shorthash_siphash24(reinterpret_cast<unsigned char*>(&hash),
                             reinterpret_cast<const unsigned char*>(name.data()), name.size(),
                             key_.data());
  return static_cast<std::uint32_t>(hash % (MESHDNS_SLOTS - 1)) + 1;
}

std::uint32_t AnswerSlots::slot_of(const IpAddress& client) const {
  const auto& octets = client.octets();
  return slot_of({reinterpret_cast<const char*>(octets.data()), octets.size()});
}

bool AnswerSlots::add_names(const registry::ReadNames& names, std::string_view cluster_domain,
                            AnswerDependencies& dependencies) const {
  bool has_room = names.are_complete();
  names.for_each([&](std::string_view name) {
    if (!is_above_services(name, cluster_domain))
      has_room = has_room && dependencies.add(slot_of(name));
  });
  return has_room;
}

std::uint64_t AnswerSlots::stamp(std::span<const std::uint32_t> slots) const {
  const auto value = [&](std::uint32_t slot) {
    return std::atomic_ref(counters_[slot]).load(std::memory_order_acquire);
  };
  std::uint64_t sum = value(MESHDNS_SLOT_OF_ALL);
  for (const std::uint32_t slot : slots) sum += value(slot);
  return sum;
}

void AnswerSlots::move(std::uint32_t slot) {
  std::atomic_ref(counters_[slot]).fetch_add(1, std::memory_order_acq_rel);
}

void AnswerSlots::move_host(std::string_view host, std::string_view cluster_domain) {
  if (host == "*") return move(MESHDNS_SLOT_OF_ALL);
  if (host.starts_with("*.")) host.remove_prefix(2);
  move(is_above_services(host, cluster_domain) ? MESHDNS_SLOT_OF_ALL : slot_of(host));
}

void AnswerSlots::begin_change(const registry::Changes& changes, std::string_view cluster_domain) {
  sequence_.fetch_or(1, std::memory_order_acq_rel);
  // So many move about every slot of some answer.
  constexpr std::size_t kMany = MESHDNS_SLOTS / 4;
  const auto is_other = [](const registry::RecordChange& change) {
    return !change.before || change.before != change.after;
  };
  const auto others = static_cast<std::size_t>(std::ranges::count_if(changes.records, is_other));
  if (changes.everything || others + changes.clients.size() > kMany)
    return move(MESHDNS_SLOT_OF_ALL);
  for (const auto& change : changes.records)
    if (is_other(change)) move_host(change.host, cluster_domain);
  for (const auto& client : changes.clients) move(slot_of(client));
}

void AnswerSlots::end_change() {
  if (!is_retired_ && sequence_.load(std::memory_order_relaxed) % 2 == 1)
    sequence_.fetch_add(1, std::memory_order_release);
}

void AnswerSlots::retire() {
  is_retired_ = true;
  sequence_.fetch_or(1, std::memory_order_acq_rel);
  move(MESHDNS_SLOT_OF_ALL);
}

}  // namespace meshdns::dnsd
