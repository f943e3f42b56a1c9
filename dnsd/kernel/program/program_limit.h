// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// The limit of answers to a client (answer.bpf.c): RateAccounts of the daemon in the kernel.
#ifndef MESHDNS_KERNEL_PROGRAM_LIMIT_H
#define MESHDNS_KERNEL_PROGRAM_LIMIT_H

#include "dnsd/kernel/program/program_query.h"

enum { LIMIT_TRIES = 4 };

// Lets the client pay for one answer.  False: it is over its limit, or the account has another
// client; the daemon decides.
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

#endif
