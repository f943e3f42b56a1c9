// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// The way back to the client, and the reply in place of the query (answer.bpf.c).
#ifndef MESHDNS_KERNEL_PROGRAM_REPLY_H
#define MESHDNS_KERNEL_PROGRAM_REPLY_H

#include "dnsd/kernel/program/program_query.h"

// Whether a reply of `size` octets to the client leaves by the query's interface and goes to the
// query's sender.  Returns the counter of the obstacle, or MESHDNS_COUNTERS.
static __always_inline enum meshdns_counter find_obstacle(struct __sk_buff* skb,
                                                          const struct query* query, __u32 size) {
  struct bpf_fib_lookup route = {
      .family = query->is_ipv6 ? FAMILY_IPV6 : FAMILY_IPV4,
      .l4_protocol = IPPROTO_UDP,
      .sport = query->server.port,
      .dport = query->client_port,
      .tot_len = query->dns - sizeof(struct ethhdr) + size,
      .ifindex = skb->ifindex,
  };
  if (query->is_ipv6) {
    __builtin_memcpy(route.ipv6_src, &query->server.address, sizeof route.ipv6_src);
    __builtin_memcpy(route.ipv6_dst, &query->client, sizeof route.ipv6_dst);
  } else {
    route.ipv4_src = unmap_ipv4(&query->server.address);
    route.ipv4_dst = unmap_ipv4(&query->client);
  }
  const long result = bpf_fib_lookup(skb, &route, sizeof route, 0);
  if (result == BPF_FIB_LKUP_RET_FRAG_NEEDED) return MESHDNS_PASSED_SIZE;
  if (result != BPF_FIB_LKUP_RET_SUCCESS || route.ifindex != skb->ifindex)
    return MESHDNS_PASSED_ROUTE;
  const struct ethhdr* const ethernet = (void*)(long)skb->data;
  if ((void*)(ethernet + 1) > (void*)(long)skb->data_end) return MESHDNS_PASSED_ROUTE;
  for (int i = 0; i < ETH_ALEN; ++i)
    if (route.dmac[i] != ethernet->h_source[i]) return MESHDNS_PASSED_ROUTE;
  return MESHDNS_COUNTERS;
}

static __always_inline void swap_ethernet(struct ethhdr* ethernet) {
  __u8 sender[ETH_ALEN];
  __builtin_memcpy(sender, ethernet->h_source, ETH_ALEN);
  __builtin_memcpy(ethernet->h_source, ethernet->h_dest, ETH_ALEN);
  __builtin_memcpy(ethernet->h_dest, sender, ETH_ALEN);
}

static __always_inline void swap_udp(struct udphdr* udp, __u32 size) {
  const __be16 port = udp->source;
  udp->source = udp->dest;
  udp->dest = port;
  udp->len = bpf_htons(size);
}

static __always_inline __be16 fold(__u64 sum) {
  sum = (sum & 0xffff) + (sum >> 16 & 0xffff);
  sum = (sum & 0xffff) + (sum >> 16);
  return ~sum;
}

// As a socket sends it, with RFC 6864's ID of what is not fragmented.
static __always_inline long write_ipv4(struct __sk_buff* skb, __u32 udp_size) {
  struct ipv4_frame frame;
  if (bpf_skb_load_bytes(skb, 0, &frame, sizeof frame) != 0) return -1;
  swap_ethernet(&frame.ethernet);
  swap_udp(&frame.udp, udp_size);
  struct iphdr ip = {
      .version = 4,
      .ihl = 5,
      .tot_len = bpf_htons(sizeof ip + udp_size),
      .frag_off = bpf_htons(IP_DO_NOT_FRAGMENT),
      .ttl = HOP_LIMIT,
      .protocol = IPPROTO_UDP,
      .saddr = frame.ip.daddr,
      .daddr = frame.ip.saddr,
  };
  ip.check = fold(bpf_csum_diff(0, 0, (__be32*)&ip, sizeof ip, 0));
  frame.ip = ip;
  return bpf_skb_store_bytes(skb, 0, &frame, sizeof frame, 0);
}

static __always_inline long write_ipv6(struct __sk_buff* skb, __u32 udp_size) {
  struct ipv6_frame frame;
  if (bpf_skb_load_bytes(skb, 0, &frame, sizeof frame) != 0) return -1;
  swap_ethernet(&frame.ethernet);
  swap_udp(&frame.udp, udp_size);
  const struct in6_addr client = frame.ip.saddr;
  frame.ip.saddr = frame.ip.daddr;
  frame.ip.daddr = client;
  frame.ip.priority = 0;
  __builtin_memset(frame.ip.flow_lbl, 0, sizeof frame.ip.flow_lbl);
  frame.ip.payload_len = bpf_htons(udp_size);
  frame.ip.hop_limit = HOP_LIMIT;
  return bpf_skb_store_bytes(skb, 0, &frame, sizeof frame, 0);
}

static __always_inline long put(struct __sk_buff* skb, __u32 at, const __u8* tail, __u32 from,
                                __u32 size) {
  OPAQUE(from);
  OPAQUE(size);
  if (size == 0) return 0;
  if (from > MESHDNS_MAX_TAIL || size > MESHDNS_MAX_TAIL) return -1;
  return bpf_skb_store_bytes(skb, at, tail + from, size, 0);
}

// The records, another one first at each answer, and what is behind them.
static __always_inline long write_tail(struct __sk_buff* skb, __u32 at,
                                       const struct meshdns_answer* answer, __u32 turn) {
  if (answer->record_count < 2) return put(skb, at, answer->tail, 0, answer->tail_size);
  const __u32 records = answer->record_count * answer->record_size;
  const __u32 skipped = turn % answer->record_count * answer->record_size;
  return put(skb, at, answer->tail, skipped, records - skipped) ||
         put(skb, at + records - skipped, answer->tail, 0, skipped) ||
         put(skb, at + records, answer->tail, records, answer->tail_size - records);
}

// The 16-bit words of the datagram that differ between query and reply, but for the tail.
struct changed_words {
  __be16 udp_size;
  __be16 flags;
  __be16 answers;
  __be16 authorities;
  __be16 additionals;
  __be16 zero;
};

// The checksum of UDP is either complete or, until a device completes it, the sum of the
// pseudo-header.  Only the kernel knows, and it skips the first change in the second case.
static __always_inline long update_udp_checksum(struct __sk_buff* skb, const struct query* query,
                                                struct meshdns_answer* answer,
                                                const struct dns_header* header, __u32 udp_size) {
  const __be16 new_size = bpf_htons(udp_size);
  const __be16 old_size = bpf_htons(sizeof(struct udphdr) + query->size);
  // Sums are made of four octets at a time; the missing ones are 0.
  __u32 tail_size = answer->tail_size;
  OPAQUE(tail_size);
  if (tail_size > MESHDNS_MAX_TAIL) return -1;
  __builtin_memset(answer->tail + tail_size, 0, 3);
  __u32 sum = bpf_csum_diff((__be32*)query->end.opt, query->has_opt ? sizeof query->end.opt : 0,
                            (__be32*)answer->tail, (tail_size + 3) & ~3, 0);
  // Both begin behind the question: if that is odd, at the second octet of a word (RFC 1071).
  if (query->name_size & 1) sum = sum >> 8 | sum << 24;
  struct changed_words from = {old_size, query->header.flags, 0, 0, query->header.additionals, 0};
  struct changed_words to = {
      new_size, header->flags, header->answers, header->authorities, header->additionals, 0};
  sum = bpf_csum_diff((__be32*)&from, sizeof from, (__be32*)&to, sizeof to, sum);

  const __u32 at = query->dns - sizeof(struct udphdr) + __builtin_offsetof(struct udphdr, check);
  // No checksum stays none; and a sum of 0 is written as 0xffff.
  return bpf_l4_csum_replace(skb, at, 0, sum, BPF_F_MARK_MANGLED_0) ||
         bpf_l4_csum_replace(skb, at, 0, (__u32)new_size + (__u16)~old_size,
                             BPF_F_PSEUDO_HDR | BPF_F_MARK_MANGLED_0);
}

static __always_inline void take_sample(struct __sk_buff* skb, const struct query* query,
                                        const struct meshdns_question* question,
                                        const struct meshdns_answer* answer, __u32 every,
                                        __u32 size) {
  struct meshdns_sample* const sample = bpf_ringbuf_reserve(&samples, sizeof *sample, 0);
  if (!sample) return;
  sample->time_ns = bpf_ktime_get_ns();
  sample->client = query->client;
  sample->server = query->server.address;
  sample->client_port = query->client_port;
  sample->server_port = query->server.port;
  sample->type = question->type;
  sample->id = query->header.id;
  sample->query_flags = query->header.flags;
  sample->question_flags = question->flags;
  sample->rcode = answer->rcode;
  sample->query_size = query->size;
  sample->reply_size = size;
  sample->every = every;
  sample->name_size = query->name_size;
  sample->answers = bpf_ntohs(answer->answers);
  sample->payload = query->has_opt ? query->end.opt[3] << 8 | query->end.opt[4] : 0;
  __builtin_memset(sample->name, 0, sizeof sample->name);
  __u32 name_size = query->name_size;
  OPAQUE(name_size);
  if (name_size == 0 || name_size > MESHDNS_MAX_NAME ||
      bpf_skb_load_bytes(skb, query->dns + sizeof query->header, sample->name, name_size) != 0) {
    bpf_ringbuf_discard(sample, BPF_RB_NO_WAKEUP);
    return;
  }
  bpf_ringbuf_submit(sample, BPF_RB_NO_WAKEUP);
}

static __always_inline void count_answer(const struct query* query,
                                         const struct meshdns_question* question) {
  const __u32 family = query->is_ipv6 ? MESHDNS_ANSWERED_IPV6 : MESHDNS_ANSWERED_IPV4;
  const __u32 type = question->type == bpf_htons(TYPE_A)      ? 0
                     : question->type == bpf_htons(TYPE_AAAA) ? 1
                                                              : 2;
  count(family + type);
  if (question->flags & MESHDNS_DNSSEC_OK) count(MESHDNS_ANSWERED_DO);
}

// Makes the reply out of the query's packet.  From the first change on, there is no way back.
static __always_inline bool write_reply(struct __sk_buff* skb, const struct query* query,
                                        struct meshdns_answer* answer, __u32 turn, __u32 size) {
  const __u32 udp_size = sizeof(struct udphdr) + size;
  const struct dns_header header = {
      .id = query->header.id,
      .flags = answer->flags | (query->header.flags & bpf_htons(DNS_RD | DNS_CD)),
      .questions = query->header.questions,
      .answers = answer->answers,
      .authorities = answer->authorities,
      .additionals = answer->additionals,
  };
  const long failed =
      (query->is_ipv6 ? write_ipv6(skb, udp_size) : write_ipv4(skb, udp_size)) ||
      bpf_skb_store_bytes(skb, query->dns, &header, sizeof header, 0) ||
      write_tail(skb, query->dns + sizeof header + query->name_size + 4, answer, turn) ||
      update_udp_checksum(skb, query, answer, &header, udp_size);
  return !failed;
}

#endif
