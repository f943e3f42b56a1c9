// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// The maps of the kernel program (answer.bpf.c), and its counters.
#ifndef MESHDNS_KERNEL_PROGRAM_MAPS_H
#define MESHDNS_KERNEL_PROGRAM_MAPS_H

// These come first: the others need their types.
#include <linux/bpf.h>
#include <linux/if_ether.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>
#include <linux/udp.h>
#include <stdbool.h>

#include "dnsd/kernel/program/answer_maps.h"

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(map_flags, BPF_F_MMAPABLE);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, struct meshdns_control);
} control SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(map_flags, BPF_F_MMAPABLE);
  __uint(max_entries, MESHDNS_SLOTS);
  __type(key, __u32);
  __type(value, __u64);
} generations SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, 256);
  __type(key, struct meshdns_endpoint);
  __type(value, __u8);
} served SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(map_flags, BPF_F_MMAPABLE);
  __uint(max_entries, MESHDNS_ACCOUNTS);
  __type(key, __u32);
  __type(value, __u64);
} accounts SEC(".maps");

// The loader sets the sizes of these two.
struct {
  __uint(type, BPF_MAP_TYPE_LRU_HASH);
  __uint(max_entries, 4096);
  __type(key, struct meshdns_address);
  __type(value, struct meshdns_client);
} clients SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_LRU_HASH);
  __uint(max_entries, 16384);
  __type(key, struct meshdns_question);
  __type(value, struct meshdns_answer);
} answers SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, MESHDNS_COUNTERS);
  __type(key, __u32);
  __type(value, __u64);
} counters SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_RINGBUF);
  __uint(max_entries, 1 << 20);
} samples SEC(".maps");

// What one run works with.  A CPU runs the program for one packet at a time.
struct work {
  struct meshdns_answer answer;
  __u8 slack[MESHDNS_MAX_TAIL];  // never read; the verifier adds the limits of offset and size
  __u64 fence;
  __u32 since_sample;
};

struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, struct work);
} work SEC(".maps");

static __always_inline void count(__u32 counter) {
  __u64* const value = bpf_map_lookup_elem(&counters, &counter);
  if (value) ++*value;
}

static __always_inline int pass(enum meshdns_counter why) {
  count(why);
  return TC_ACT_UNSPEC;
}

#endif
