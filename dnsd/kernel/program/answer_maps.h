/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The maps that meshdnsd and the kernel program share (server.kernel_answers).  C and C++; the
 * program for the kernel, its loader and the daemon are built from this one file.
 *
 * The daemon writes what it has answered; the program answers with it as long as nothing that the
 * answer depends on has changed.  Numbers are in the machine's byte order unless they are called
 * network order.
 *
 * An answer depends on names.  The names hash to slots of `generations`, each a counter that only
 * grows.  An entry has the sum of its slots when it was written: as all counters only grow, the sum
 * is the same only if none has moved.  The daemon moves counters before it publishes a change.
 */
#ifndef MESHDNS_KERNEL_ANSWER_MAPS_H
#define MESHDNS_KERNEL_ANSWER_MAPS_H

#include <linux/types.h>

/* Raised when a map's layout or meaning changes: a daemon does not use the maps of another. */
#define MESHDNS_MAPS_VERSION 3

/* Names of the pinned maps, in the folder server.kernel_maps (/run/meshdns.bpf/maps). */
#define MESHDNS_MAP_CONTROL "control"         /* array, mmapable, 1 x meshdns_control */
#define MESHDNS_MAP_GENERATIONS "generations" /* array, mmapable, MESHDNS_SLOTS x __u64 */
#define MESHDNS_MAP_SERVED "served"           /* hash, meshdns_endpoint -> __u8 */
#define MESHDNS_MAP_CLIENTS "clients"         /* LRU hash, meshdns_address -> meshdns_client */
#define MESHDNS_MAP_ANSWERS "answers"         /* LRU hash, meshdns_question -> meshdns_answer */
#define MESHDNS_MAP_ACCOUNTS "accounts"       /* array, mmapable, MESHDNS_ACCOUNTS x __u64 */
#define MESHDNS_MAP_COUNTERS "counters"       /* per-CPU array, MESHDNS_COUNTERS x __u64 */
#define MESHDNS_MAP_SAMPLES "samples"         /* ring buffer of meshdns_sample */

/* Slot 0 stands for everything; the others for names and for client addresses, by hash. */
#define MESHDNS_SLOTS 65536
#define MESHDNS_SLOT_OF_ALL 0

/* What clients may still have under server.rate_limit.  Program and daemon count on one account, so
 * that both together keep the limit: the generic cell rate algorithm, by compare and exchange.  An
 * account has the time in microseconds (CLOCK_MONOTONIC) when the client has paid for all that it
 * got, and above it the tag of the client that has the account until then. */
#define MESHDNS_ACCOUNTS 65536
#define MESHDNS_ACCOUNT_TIME_BITS 48
/* A client may be this much ahead of its rate. */
#define MESHDNS_ACCOUNT_BURST_US 1000000ULL

/* Octets of a name in wire form, with the root's, that is answered in the kernel. */
#define MESHDNS_MAX_NAME 128
/* Octets behind the question that an answer has at most. */
#define MESHDNS_MAX_TAIL 288
/* Slots that an answer depends on at most, beside that of all. */
#define MESHDNS_MAX_DEPENDENCIES 8

/* A client is known for so long after its last question to the daemon.  Packet filters come after
 * the program, so a filter that is set later holds from then on. */
#define MESHDNS_CLIENT_LIFE_NS 10000000000ULL

/* Without a new heartbeat for so long the program answers nothing. */
#define MESHDNS_HEARTBEAT_LIMIT_NS 2000000000ULL

/* Written by the daemon.  Aligned fields: each is read and written as a whole. */
struct meshdns_control {
  __u32 version;      /* MESHDNS_MAPS_VERSION, by the loader */
  __u32 sample_every; /* each n-th answer of a CPU is written to `samples`; 0 = none */
  __u64 owner;        /* random number of the daemon that fills the maps; 0 = none */
  __u64 heartbeat_ns; /* CLOCK_MONOTONIC, when the owner was last alive; 0 = answer nothing */
  __u64 price_us;     /* that an answer costs its client (MESHDNS_ACCOUNTS); 0 = no limit */
};

/* An address, IPv4 as IPv4-mapped (::ffff:a.b.c.d), network order. */
struct meshdns_address {
  __u8 octets[16];
};

/* An address and port of the daemon's UDP sockets.  No wildcards. */
struct meshdns_endpoint {
  struct meshdns_address address;
  __be16 port;
  __u16 zero;
};

/* What the client of an address may see. */
struct meshdns_client {
  __u8 view[16];  /* clients with the same view get the same answers */
  __u64 stamp;    /* generations[SLOT_OF_ALL] + generations[slot] when it was written */
  __u64 until_ns; /* CLOCK_MONOTONIC, when the entry ends */
  __u32 slot;
  __u16 account; /* index of `accounts` */
  __u16 tag;
};

enum meshdns_question_flags {
  MESHDNS_HAS_OPT = 1,   /* a plain OPT record: version 0, no options */
  MESHDNS_DNSSEC_OK = 2, /* DO; only with HAS_OPT */
};

/* All octets count, the unused ones are 0. */
struct meshdns_question {
  __u8 view[16];
  __u8 name[MESHDNS_MAX_NAME]; /* wire form, lower case */
  __be16 type;                 /* class IN */
  __u8 flags;                  /* meshdns_question_flags */
  __u8 zero;
};

/* A reply without its ID and question.  With record_count > 1 the answer section begins with so
 * many records of record_size octets each, of which another one is first at each answer. */
struct meshdns_answer {
  __u64 stamp;      /* generations[SLOT_OF_ALL] + those of all dependencies, when it was written */
  __u64 generation; /* of the registry's snapshot, for explanations */
  __u32 dependencies[MESHDNS_MAX_DEPENDENCIES];
  __u32 turn; /* counts answers */
  __u8 dependency_count;
  __u8 record_count;
  __u8 record_size;
  __u8 rcode;     /* for counters */
  __be16 flags;   /* of the header; the program adds RD and CD of the query */
  __be16 answers; /* ANCOUNT, NSCOUNT, ARCOUNT */
  __be16 authorities;
  __be16 additionals;
  __u16 tail_size;
  __u16 zero;
  __u8 tail[MESHDNS_MAX_TAIL]; /* answer, authority and additional section */
};

enum meshdns_counter {
  /* Answers, by the client's family and the type: A, AAAA, any other. */
  MESHDNS_ANSWERED_IPV4,
  MESHDNS_ANSWERED_IPV6 = MESHDNS_ANSWERED_IPV4 + 3,
  MESHDNS_ANSWERED_DO = MESHDNS_ANSWERED_IPV6 + 3, /* of these, with DO */
  /* Queries to a served address that the daemon gets, and why. */
  MESHDNS_PASSED_OTHER,  /* not of the simple form */
  MESHDNS_PASSED_CLIENT, /* client unknown, or its entry is old or has ended */
  MESHDNS_PASSED_ROUTE,  /* the reply would not leave where the query came in */
  MESHDNS_PASSED_ABSENT, /* no entry */
  MESHDNS_PASSED_OLD,    /* the entry is old */
  MESHDNS_PASSED_SIZE,   /* longer than the client takes */
  MESHDNS_PASSED_ASLEEP, /* no heartbeat */
  MESHDNS_PASSED_LIMIT,  /* over server.rate_limit, or the account is another client's */
  MESHDNS_COUNTERS
};

/* One answered query, for the query log, the most frequent names and the most active clients. */
struct meshdns_sample {
  __u64 time_ns; /* CLOCK_MONOTONIC */
  struct meshdns_address client;
  struct meshdns_address server;
  __be16 client_port;
  __be16 server_port;
  __be16 type;
  __be16 id;
  __be16 query_flags;
  __u8 question_flags;
  __u8 rcode;
  __u16 query_size;
  __u16 reply_size;
  __u32 every; /* sample_every when it was taken: it stands for so many */
  __u8 name_size;
  __u8 answers;                /* ANCOUNT */
  __u16 payload;               /* that the OPT record has; 0: none */
  __u8 name[MESHDNS_MAX_NAME]; /* as it was asked */
};

#endif
