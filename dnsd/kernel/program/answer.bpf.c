// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// Answers DNS queries of Pods where their packets enter the node: a program for tc (clsact,
// ingress) on the node's ends of the Pods' links.  The daemon has put its answers into maps
// (answer_maps.h).
//
// The program answers only what it knows to be the daemon's answer at this moment.  Every other
// packet goes on untouched, as if the program were not there.  The order of the checks:
//
//   1. a plain UDP datagram to an address and port of the daemon; nothing else costs more than this
//   2. the daemon is alive
//   3. one question in the simple form that has a key
//   4. the client's view, and the answer for it; both still valid by the generations
//   5. the size that the client takes
//   6. the route back: by the interface and to the MAC address that the query came from.  A client
//      that forges another's address gets no answer here.
//   7. the client's limit of answers
//
// Entries of LRU maps can be overwritten for another key while they are read.  So the program
// copies an entry, and then looks it up again: the copy is whole if the key still leads to the same
// entry.
//
// The program never writes to the packet directly.  The kernel would make each packet's header
// writable before the program runs, which copies it for most TCP segments.

#include "dnsd/kernel/program/program_maps.h"
#include "dnsd/kernel/program/program_query.h"
#include "dnsd/kernel/program/program_reply.h"

// The kernel lets only programs under the GPL look up routes.
char program_license[] SEC("license") = "GPL";

static __always_inline bool is_served(const struct query* query) {
  return bpf_map_lookup_elem(&served, &query->server) != 0;
}

// The clock of programs may lag a little behind the one that the daemon reads.
static __always_inline bool is_alive(const struct meshdns_control* state) {
  const __u64 heartbeat = *(volatile const __u64*)&state->heartbeat_ns;
  return heartbeat != 0 && bpf_ktime_get_ns() - heartbeat + MESHDNS_HEARTBEAT_LIMIT_NS <
                               2 * MESHDNS_HEARTBEAT_LIMIT_NS;
}

// Adds the generation of a slot to `sum`; false: no such slot.
static __always_inline bool add_generation(__u32 slot, __u64* sum) {
  const volatile __u64* const generation = bpf_map_lookup_elem(&generations, &slot);
  if (!generation) return false;
  *sum += *generation;
  return true;
}

static __always_inline bool is_current_client(const struct meshdns_client* client, __u64 sum) {
  return bpf_ktime_get_ns() < client->until_ns && add_generation(client->slot, &sum) &&
         client->stamp == sum;
}

static __always_inline bool is_current_answer(const struct meshdns_answer* answer, __u64 sum) {
  for (int i = 0; i < MESHDNS_MAX_DEPENDENCIES && i < answer->dependency_count; ++i)
    if (!add_generation(answer->dependencies[i], &sum)) return false;
  return answer->stamp == sum && answer->dependency_count <= MESHDNS_MAX_DEPENDENCIES;
}

// Octets that the client takes: QueryHandler::reply_limit() of the daemon.
static __always_inline __u32 reply_limit(const struct query* query) {
  if (!query->has_opt) return MIN_UDP_PAYLOAD;
  const __u32 payload = query->end.opt[3] << 8 | query->end.opt[4];
  if (payload < MIN_UDP_PAYLOAD) return MIN_UDP_PAYLOAD;
  return payload > MAX_UDP_PAYLOAD ? MAX_UDP_PAYLOAD : payload;
}

// Whether the numbers of the entry agree.  Records of an odd size would change the checksum as they
// take turns.
static __always_inline bool is_sound(const struct meshdns_answer* answer) {
  if (answer->tail_size > MESHDNS_MAX_TAIL) return false;
  return answer->record_count < 2 ||
         (answer->record_size % 2 == 0 &&
          answer->record_count * answer->record_size <= answer->tail_size);
}

// Copies the answer for the client to `mine`, and gives the entry.  Fills in the question's view
// and the client's account.  Returns the counter of the obstacle, or MESHDNS_COUNTERS.
static __always_inline enum meshdns_counter find_answer(struct query* query,
                                                        struct meshdns_question* question,
                                                        struct work* mine,
                                                        struct meshdns_answer** found) {
  // Read once, before the entries: what changes in between can only make an entry look old.
  __u64 everything = 0;
  if (!add_generation(MESHDNS_SLOT_OF_ALL, &everything)) return MESHDNS_PASSED_OLD;

  const struct meshdns_client* const client = bpf_map_lookup_elem(&clients, &query->client);
  if (!client || !is_current_client(client, everything)) return MESHDNS_PASSED_CLIENT;
  __builtin_memcpy(question->view, client->view, sizeof question->view);
  query->account = client->account;
  query->tag = client->tag;

  struct meshdns_answer* const entry = bpf_map_lookup_elem(&answers, question);
  if (!entry) return MESHDNS_PASSED_ABSENT;
  __builtin_memcpy(&mine->answer, entry, sizeof mine->answer);
  // The copies are made before the entries are looked up again.  An addition is a barrier on every
  // machine, but only if its result is used.
  __u64 fence = __sync_fetch_and_add(&mine->fence, 1);
  OPAQUE(fence);
  if (bpf_map_lookup_elem(&clients, &query->client) != client ||
      bpf_map_lookup_elem(&answers, question) != entry)
    return MESHDNS_PASSED_OLD;
  if (!is_current_answer(&mine->answer, everything)) return MESHDNS_PASSED_OLD;
  *found = entry;
  return is_sound(&mine->answer) ? MESHDNS_COUNTERS : MESHDNS_PASSED_ABSENT;
}

enum { LIMIT_TRIES = 4 };

// Lets the client pay for one answer, as RateAccounts of the daemon does.  False: it is over its
// limit, or the account has another client; the daemon decides.
static __always_inline bool pay(const struct meshdns_control* state, const struct query* query) {
  const __u64 price = *(volatile const __u64*)&state->price_us;
  if (price == 0) return true;
  const __u32 index = query->account;
  __u64* const account = bpf_map_lookup_elem(&accounts, &index);
  if (!account) return false;
  const __u64 time_bits = (1ULL << MESHDNS_ACCOUNT_TIME_BITS) - 1;
  const __u64 now = bpf_ktime_get_ns() / 1000;
  for (int i = 0; i < LIMIT_TRIES; ++i) {
    const __u64 before = *(volatile __u64*)account;
    __u64 due = before & time_bits;
    if (due <= now)
      due = now;
    else if (before >> MESHDNS_ACCOUNT_TIME_BITS != query->tag)
      return false;
    due += price;
    if (due > now + MESHDNS_ACCOUNT_BURST_US) return false;
    const __u64 after = (__u64)query->tag << MESHDNS_ACCOUNT_TIME_BITS | due;
    if (__sync_val_compare_and_swap(account, before, after) == before) return true;
  }
  return false;
}

static __always_inline int answer_query(struct __sk_buff* skb, struct query* query) {
  const __u32 first = 0;
  const struct meshdns_control* const state = bpf_map_lookup_elem(&control, &first);
  struct work* const mine = bpf_map_lookup_elem(&work, &first);
  if (!state || !mine || !is_alive(state)) return pass(MESHDNS_PASSED_ASLEEP);

  struct meshdns_question question __attribute__((aligned(8))) = {};
  if (!read_question(skb, query, &question)) return pass(MESHDNS_PASSED_OTHER);

  struct meshdns_answer* entry = 0;
  enum meshdns_counter obstacle = find_answer(query, &question, mine, &entry);
  if (obstacle != MESHDNS_COUNTERS || !entry) return pass(obstacle);
  struct meshdns_answer* const answer = &mine->answer;
  const __u32 size = sizeof query->header + query->name_size + 4 + answer->tail_size;
  if (size > reply_limit(query)) return pass(MESHDNS_PASSED_SIZE);
  obstacle = find_obstacle(skb, query, size);
  if (obstacle != MESHDNS_COUNTERS) return pass(obstacle);
  if (!pay(state, query)) return pass(MESHDNS_PASSED_LIMIT);

  if (bpf_skb_change_tail(skb, query->dns + size, 0) != 0) return pass(MESHDNS_PASSED_OTHER);
  const __u32 turn = answer->record_count > 1 ? __sync_fetch_and_add(&entry->turn, 1) : 0;
  if (!write_reply(skb, query, answer, turn, size)) return TC_ACT_SHOT;

  count_answer(query, &question);
  const __u32 every = *(volatile const __u32*)&state->sample_every;
  if (every != 0 && ++mine->since_sample >= every) {
    mine->since_sample = 0;
    take_sample(skb, query, &question, answer, every, size);
  }
  return bpf_redirect(skb->ifindex, 0);
}

SEC("tc")
int meshdns_answer(struct __sk_buff* skb) {
  struct query query = {};
  if (!read_packet(skb, &query) || !is_served(&query)) return TC_ACT_UNSPEC;
  return answer_query(skb, &query);
}
