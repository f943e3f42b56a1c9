// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// Reads a query, and decides whether it has the simple form (answer.bpf.c).
#ifndef MESHDNS_KERNEL_PROGRAM_QUERY_H
#define MESHDNS_KERNEL_PROGRAM_QUERY_H

#include "dnsd/kernel/program/program_maps.h"

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
  __u16 account;  // the client's
  __u16 tag;
  bool is_ipv6;
  bool has_opt;
  struct dns_header header;
  struct question_end end;
};

// Keeps the compiler from deriving a value that the verifier cannot follow.
#define OPAQUE(variable) asm volatile("" : "+r"(variable))

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

#endif
