// SPDX-License-Identifier: Apache-2.0
// Hands answers that the daemon has given to the program in the kernel, and takes them back before
// a change is published.
//
//     worker:   now() -> the snapshot is taken -> the query is answered -> offer()
//     control:  slots().begin_change() -> the snapshot is published -> slots().end_change()
//
// An offer whose moment has passed is dropped: its snapshot may be old.  So no entry holds that was
// made before a change which it depends on.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "dnsd/kernel/answer_slots.hpp"
#include "dnsd/kernel/program/answer_maps.h"
#include "dnsd/kernel/rate_accounts.hpp"
#include "registry/base/ip_address.hpp"
#include "registry/snapshot/client.hpp"
#include "registry/view/view.hpp"
#include "resolver/wire/query_message.hpp"

namespace meshdns::dnsd {

// The entries that the program in the kernel answers from: maps of the kernel, or a test's.
// As dnsd/kernel/program/answer_maps.h has it.
meshdns_address address_in_maps(const IpAddress& address);

// Any thread.
class KernelStore {
 public:
  virtual ~KernelStore() = default;

  // Memory that the program reads; fields and counters are to be read and written as a whole.
  virtual meshdns_control& control() const = 0;
  virtual std::span<std::uint64_t> generations() const = 0;
  virtual std::span<std::uint64_t> accounts() const = 0;

  // Adds or replaces an entry.  False: there is no room.
  virtual bool put(const meshdns_address& address, const meshdns_client& client) const = 0;
  virtual bool put(const meshdns_question& question, const meshdns_answer& answer) const = 0;
  // False: there is none.
  virtual bool get(const meshdns_address& address, meshdns_client& client) const = 0;
  virtual bool get(const meshdns_question& question, meshdns_answer& answer) const = 0;
};

// An answer, as it was sent, and what it depends on.
struct KernelAnswer {
  const wire::QueryMessage& query;
  IpAddress client_address;
  const registry::Client& client;
  std::span<const std::uint8_t> reply;
  std::string_view cluster_domain;
  const registry::ReadNames& reads;  // all that the registry was asked for
  std::uint64_t generation = 0;      // of the snapshot
  std::uint64_t limited_as = 0;      // hash of the client, as server.rate_limit counts it
  bool is_rotated = false;           // the records of its answer section take turns at being first
};

// The entry that the program answers a question with, for explanations.
struct KernelEntry {
  std::uint64_t generation = 0;  // of the snapshot that answered
};

class KernelFeed {
 public:
  // Returns whether a daemon lives that fills the maps.
  static bool is_in_use(const KernelStore& store);
  // Takes the store over: what another daemon has written does not hold any more.
  // REQUIRES: `key` and `owner` are random; owner is not 0.
  KernelFeed(std::shared_ptr<const KernelStore> store, const AnswerSlots::Key& key,
             std::uint64_t owner);
  KernelFeed(const KernelFeed&) = delete;
  KernelFeed& operator=(const KernelFeed&) = delete;

  // --- any thread ---
  AnswerSlots::Moment now() const { return slots_.now(); }
  // False: the answer is none for the program, or too late.
  bool offer(const AnswerSlots::Moment& moment, const KernelAnswer& answer) const;
  // The entry that the program would answer such a client with, asked with or without EDNS;
  // nullopt: none, or an old one.  `name`: wire form, lower case.
  std::optional<KernelEntry> find(std::string_view name, wire::Type type,
                                  const registry::Client& client) const;
  // The accounts of server.rate_limit in the maps.  REQUIRES: the feed outlives them.
  RateAccounts accounts() const { return RateAccounts(store_->accounts()); }
  // Identifies equal offers.
  std::uint64_t hash_of(const KernelAnswer& answer) const;

  // --- control thread ---
  AnswerSlots& slots() { return slots_; }
  // Returns whether no other daemon has taken the store over.
  bool is_owner() const;
  // Sets the cost of an answer of the kernel for its client; 0 = no limit.
  void set_price(std::uint64_t price_us);
  // The program answers for MESHDNS_HEARTBEAT_LIMIT_NS from now on.
  void beat();
  // The program answers nothing any more.  Offers are dropped.
  void retire();

 private:
  using View = std::array<std::uint8_t, 16>;
  View view_of(const registry::Client& client) const;
  // `name`: wire form, lower case, at most MESHDNS_MAX_NAME octets.
  meshdns_question question_of(std::string_view name, wire::Type type, std::uint8_t flags,
                               const registry::Client& client) const;
  meshdns_question question_of(const KernelAnswer& answer) const;
  bool fill(const KernelAnswer& answer, meshdns_answer& entry) const;

  const std::shared_ptr<const KernelStore> store_;
  const AnswerSlots::Key key_;
  const std::uint64_t owner_;
  AnswerSlots slots_;
};

}  // namespace meshdns::dnsd
