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
//
// Entries of LRU maps can be overwritten for another key while they are read.  So the program
// copies an entry, and then looks it up again: the copy is whole if the key still leads to the same
// entry.
//
// The program never writes to the packet directly.  The kernel would make each packet's header
// writable before the program runs, which copies it for most TCP segments.

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

#include "kernel/answer_maps.h"

// The kernel lets only programs under the GPL look up routes.
char program_license[] SEC("license") = "GPL";

// Constants of uapi headers that do not compile for this target.
enum { FAMILY_IPV4 = 2, FAMILY_IPV6 = 10 };

enum {
  IP_MORE_FRAGMENTS = 0x2000,
  IP_DO_NOT_FRAGMENT = 0x4000,
  IP_FRAGMENT_OFFSET = 0x1fff,

  DNS_RD = 0x0100,
  DNS_AD = 0x0020,
  DNS_CD = 0x0010,
  DNS_CLASS_IN = 1,
  MAX_LABEL = 63,

  TYPE_A = 1,
  TYPE_AAAA = 28,
  OPT_SIZE = 11,
  OPT_TYPE = 41,
  OPT_DNSSEC_OK = 0x80,  // in the first octet of the flags

  MIN_UDP_PAYLOAD = 512,
  MAX_UDP_PAYLOAD = 1232,  // as the daemon (RFC 9715)
  HOP_LIMIT = 64,
};

// --- maps ----------------------------------------------------------------------------------------

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

// --- packets -------------------------------------------------------------------------------------

struct dns_header {
  __be16 id;
  __be16 flags;
  __be16 questions;
  __be16 answers;
  __be16 authorities;
  __be16 additionals;
};

struct ipv4_frame {
  struct ethhdr ethernet;
  struct iphdr ip;
  struct udphdr udp;
} __attribute__((packed, aligned(2)));

struct ipv6_frame {
  struct ethhdr ethernet;
  struct ipv6hdr ip;
  struct udphdr udp;
} __attribute__((packed, aligned(2)));

// What follows the name.
struct question_end {
  __be16 type;
  __be16 class;
  __u8 opt[12];  // OPT_SIZE octets, and one that is 0
};

struct query {
  struct meshdns_address client;
  struct meshdns_endpoint server;
  __be16 client_port;
  __u16 dns;   // offset of the DNS message
  __u16 size;  // octets of the DNS message; 0 = lengths that do not agree, or part of a datagram
  __u16 name_size;
  bool is_ipv6;
  bool has_opt;
  struct dns_header header;
  struct question_end end;
};

// Keeps the compiler from deriving a value that the verifier cannot follow.
#define OPAQUE(variable) asm volatile("" : "+r"(variable))

static __always_inline void count(__u32 counter) {
  __u64* const value = bpf_map_lookup_elem(&counters, &counter);
  if (value) ++*value;
}

static __always_inline int pass(enum meshdns_counter why) {
  count(why);
  return TC_ACT_UNSPEC;
}

static __always_inline void map_ipv4(struct meshdns_address* address, __be32 ipv4) {
  __builtin_memset(address, 0, 10);
  address->octets[10] = address->octets[11] = 0xff;
  __builtin_memcpy(address->octets + 12, &ipv4, sizeof ipv4);
}

static __always_inline __be32 unmap_ipv4(const struct meshdns_address* address) {
  __be32 ipv4;
  __builtin_memcpy(&ipv4, address->octets + 12, sizeof ipv4);
  return ipv4;
}

// Frames with a VLAN tag, IP options or extension headers, and fragments but the first, are not
// looked at, hence not counted.
static __always_inline bool read_ipv4(struct __sk_buff* skb, struct query* query) {
  const struct ipv4_frame* const frame = (void*)(long)skb->data;
  if ((void*)(frame + 1) > (void*)(long)skb->data_end) return false;
  if (frame->ip.protocol != IPPROTO_UDP || frame->ip.version != 4 || frame->ip.ihl != 5)
    return false;
  const __u16 fragment = bpf_ntohs(frame->ip.frag_off);
  if (fragment & IP_FRAGMENT_OFFSET) return false;
  map_ipv4(&query->client, frame->ip.saddr);
  map_ipv4(&query->server.address, frame->ip.daddr);
  query->server.port = frame->udp.dest;
  query->client_port = frame->udp.source;
  query->dns = sizeof *frame;
  const __u16 udp_size = bpf_ntohs(frame->udp.len);
  if (!(fragment & IP_MORE_FRAGMENTS) &&
      skb->len == sizeof frame->ethernet + sizeof frame->ip + udp_size &&
      bpf_ntohs(frame->ip.tot_len) == sizeof frame->ip + udp_size)
    query->size = udp_size - sizeof frame->udp;
  return true;
}

static __always_inline bool read_ipv6(struct __sk_buff* skb, struct query* query) {
  const struct ipv6_frame* const frame = (void*)(long)skb->data;
  if ((void*)(frame + 1) > (void*)(long)skb->data_end) return false;
  if (frame->ip.nexthdr != IPPROTO_UDP || frame->ip.version != 6) return false;
  __builtin_memcpy(&query->client, &frame->ip.saddr, sizeof query->client);
  __builtin_memcpy(&query->server.address, &frame->ip.daddr, sizeof query->server.address);
  query->server.port = frame->udp.dest;
  query->client_port = frame->udp.source;
  query->dns = sizeof *frame;
  query->is_ipv6 = true;
  const __u16 udp_size = bpf_ntohs(frame->udp.len);
  // RFC 8200, section 8.1: UDP over IPv6 has a checksum.
  if (frame->udp.check != 0 && skb->len == sizeof frame->ethernet + sizeof frame->ip + udp_size &&
      bpf_ntohs(frame->ip.payload_len) == udp_size)
    query->size = udp_size - sizeof frame->udp;
  return true;
}

static __always_inline bool read_packet(struct __sk_buff* skb, struct query* query) {
  if (skb->vlan_present || skb->pkt_type != 0 /* PACKET_HOST */) return false;
  if (skb->protocol == bpf_htons(ETH_P_IP)) return read_ipv4(skb, query);
  if (skb->protocol == bpf_htons(ETH_P_IPV6)) return read_ipv6(skb, query);
  return false;
}

// --- the question --------------------------------------------------------------------------------

// Labels up to the root at the last octet.  Compression is no label.
static __always_inline bool is_name(const __u8* name, __u32 size) {
  __u32 at = 0;
  for (int labels = 0; labels < MESHDNS_MAX_NAME / 2 + 1; ++labels) {
    if (at >= MESHDNS_MAX_NAME) return false;
    const __u8 length = name[at];
    if (length == 0) return at + 1 == size;
    if (length > MAX_LABEL) return false;
    at += length + 1;
  }
  return false;
}

typedef __u64 __attribute__((may_alias)) name_word;

// Eight octets at a time: adding moves an octet's place among the letters into its highest bit.
// Octets of lengths are below 'A'.
static __always_inline void lower_case(__u8* name, __u32 size) {
  const __u64 ones = 0x0101010101010101ULL;
  name_word* const words = (name_word*)name;
  for (__u32 i = 0; i < MESHDNS_MAX_NAME / 8 && i * 8 < size; ++i) {
    const __u64 word = words[i];
    const __u64 low = word & (0x7f * ones);
    const __u64 from_a = low + (0x80 - 'A') * ones;
    const __u64 behind_z = low + (0x80 - 'Z' - 1) * ones;
    const __u64 is_upper = from_a & ~behind_z & ~word & (0x80 * ones);
    words[i] = word | is_upper >> 2;
  }
}

static __always_inline bool is_plain_opt(const __u8* opt) {
  return opt[0] == 0 && opt[1] == 0 && opt[2] == OPT_TYPE &&  // the root's name, type
         opt[5] == 0 && opt[6] == 0 &&                        // extended rcode, version
         (opt[7] & ~OPT_DNSSEC_OK) == 0 && opt[8] == 0 &&     // flags
         opt[9] == 0 && opt[10] == 0;                         // no options
}

// Reads header, question and OPT.  The sizes follow from the size of the message: the name is what
// is left between header and end.  Fills `question` but for the view.
static __always_inline bool read_question(struct __sk_buff* skb, struct query* query,
                                          struct meshdns_question* question) {
  struct dns_header* const header = &query->header;
  if (skb->gso_size != 0) return false;  // several datagrams in one
  if (query->size < sizeof *header || query->client_port == 0) return false;
  if (bpf_skb_load_bytes(skb, query->dns, header, sizeof *header) != 0) return false;
  if (header->flags & ~bpf_htons(DNS_RD | DNS_AD | DNS_CD)) return false;
  if (header->questions != bpf_htons(1) || header->answers != 0 || header->authorities != 0 ||
      (header->additionals & ~bpf_htons(1)))
    return false;
  query->has_opt = header->additionals != 0;

  const __u32 end_size = query->has_opt ? 4 + OPT_SIZE : 4;
  __u32 name_size = query->size - sizeof *header - end_size;
  OPAQUE(name_size);
  if (name_size == 0 || name_size > MESHDNS_MAX_NAME) return false;
  const __u32 name_at = query->dns + sizeof *header;
  if (bpf_skb_load_bytes(skb, name_at, question->name, name_size) != 0) return false;
  if (bpf_skb_load_bytes(skb, name_at + name_size, &query->end, 4) != 0) return false;
  if (query->has_opt &&
      bpf_skb_load_bytes(skb, name_at + name_size + 4, query->end.opt, OPT_SIZE) != 0)
    return false;
  if (query->end.class != bpf_htons(DNS_CLASS_IN) || !is_name(question->name, name_size))
    return false;
  if (query->has_opt && !is_plain_opt(query->end.opt)) return false;

  query->name_size = name_size;
  lower_case(question->name, name_size);
  question->type = query->end.type;
  if (query->has_opt)
    question->flags = MESHDNS_HAS_OPT | (query->end.opt[7] != 0 ? MESHDNS_DNSSEC_OK : 0);
  return true;
}

// --- the entries ---------------------------------------------------------------------------------

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
  return add_generation(client->slot, &sum) && client->stamp == sum;
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

// --- the way back --------------------------------------------------------------------------------

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

// --- the reply -----------------------------------------------------------------------------------

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

// Whether the numbers of the entry agree.  Records of an odd size would change the checksum as they
// take turns.
static __always_inline bool is_sound(const struct meshdns_answer* answer) {
  if (answer->tail_size > MESHDNS_MAX_TAIL) return false;
  return answer->record_count < 2 ||
         (answer->record_size % 2 == 0 &&
          answer->record_count * answer->record_size <= answer->tail_size);
}

// Copies the answer for the client to `mine`, and gives the entry.  Fills in the question's view.
// Returns the counter of the obstacle, or MESHDNS_COUNTERS.
static __always_inline enum meshdns_counter find_answer(const struct query* query,
                                                        struct meshdns_question* question,
                                                        struct work* mine,
                                                        struct meshdns_answer** found) {
  // Read once, before the entries: what changes in between can only make an entry look old.
  __u64 everything = 0;
  if (!add_generation(MESHDNS_SLOT_OF_ALL, &everything)) return MESHDNS_PASSED_OLD;

  const struct meshdns_client* const client = bpf_map_lookup_elem(&clients, &query->client);
  if (!client || !is_current_client(client, everything)) return MESHDNS_PASSED_CLIENT;
  __builtin_memcpy(question->view, client->view, sizeof question->view);

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
