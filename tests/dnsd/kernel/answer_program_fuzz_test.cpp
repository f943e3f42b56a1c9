// SPDX-License-Identifier: Apache-2.0
// Random frames through the kernel program (BPF_PROG_TEST_RUN), compared with the daemon's parser.
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <gtest/gtest.h>
#include <linux/pkt_cls.h>
#include <net/if.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "dnsd/kernel/program/answer_maps.h"
#include "resolver/wire/octets.hpp"
#include "resolver/wire/query_message.hpp"

namespace meshdns::kernel {
namespace {

using Octets = std::vector<std::uint8_t>;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kFrames = 5'000;  // no sanitizer sees the program in the kernel
#else
constexpr int kFrames = 100'000;
#endif
constexpr std::uint16_t kPort = 53;
constexpr std::size_t kRecordSize = 16;
constexpr std::uint32_t kSlot = 5;

// --- frames --------------------------------------------------------------------------------------

// The packet's family; the addresses are those of the node below.
struct Family {
  std::uint16_t ether_type;
  std::size_t ip_size;
  std::size_t length_at;                 // of the length in the IP header
  std::array<const char*, 2> addresses;  // client, server
  std::size_t dns_at() const { return 14 + ip_size + 8; }
};
constexpr Family kIpv4{0x0800, 20, 2, {"10.61.0.11", "10.61.0.1"}};
constexpr Family kIpv6{0x86dd, 40, 4, {"fd61::11", "fd61::1"}};
constexpr std::array<std::uint8_t, 6> kClientMac = {2, 0, 0, 0, 0, 2};
constexpr std::array<std::uint8_t, 6> kServerMac = {2, 0, 0, 0, 0, 1};

Octets packed(const char* text) {
  const bool is_ipv6 = std::strchr(text, ':') != nullptr;
  Octets octets(is_ipv6 ? 16 : 4);
  inet_pton(is_ipv6 ? AF_INET6 : AF_INET, text, octets.data());
  return octets;
}

void append(Octets& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); }
void append_u16(Octets& to, std::size_t value) {
  to.push_back(static_cast<std::uint8_t>(value >> 8));
  to.push_back(static_cast<std::uint8_t>(value));
}

// RFC 1071, not inverted.
std::uint32_t sum_of(const std::uint8_t* octets, std::size_t size, std::uint32_t sum = 0) {
  for (std::size_t i = 0; i < size; ++i) sum += i % 2 == 0 ? octets[i] << 8 : octets[i];
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return sum;
}

std::uint32_t sum_of_datagram(const Octets& frame, const Family& family) {
  const std::size_t udp = family.dns_at() - 8;
  const std::size_t size = frame.size() - udp;
  const std::size_t addresses = family.ip_size == 20 ? 8 : 32;
  const std::uint32_t pseudo =
      sum_of(frame.data() + udp - addresses, addresses, static_cast<std::uint32_t>(17 + size));
  return sum_of(frame.data() + udp, size, pseudo);
}

Octets make_frame(const Family& family, const Octets& message, std::uint16_t client_port) {
  Octets frame;
  append(frame, kServerMac);
  append(frame, kClientMac);
  append_u16(frame, family.ether_type);
  const std::size_t udp_size = 8 + message.size();
  if (family.ip_size == 20) {
    append(frame, Octets{0x45, 0});
    append_u16(frame, 20 + udp_size);
    append(frame, Octets{0, 1, 0, 0, 64, 17, 0, 0});
  } else {
    append(frame, Octets{0x60, 0, 0, 0});
    append_u16(frame, udp_size);
    append(frame, Octets{17, 64});
  }
  for (const char* const address : family.addresses) append(frame, packed(address));
  append_u16(frame, client_port);
  append_u16(frame, kPort);
  append_u16(frame, udp_size);
  append_u16(frame, 0);
  append(frame, message);
  const auto check = static_cast<std::uint16_t>(~sum_of_datagram(frame, family));
  wire::store_u16(frame.data() + family.dns_at() - 2, check == 0 ? 0xffff : check);
  return frame;
}

// --- the program and its maps --------------------------------------------------------------------

struct Closer {
  void operator()(bpf_object* object) const { bpf_object__close(object); }
};

// A namespace with a link, on one end of which the program runs.
bool make_node() {
  if (unshare(CLONE_NEWNET) != 0) return false;
  std::FILE* const ip = popen("ip -batch - 2>/dev/null", "w");
  if (ip == nullptr) return false;
  std::fputs(
      "link set lo up\n"
      "addr add 10.61.0.1/32 dev lo\naddr add fd61::1/128 dev lo\n"
      "link add veth0 address 02:00:00:00:00:01 type veth peer name eth0\n"
      "link set veth0 up\nlink set eth0 up\n"
      "route add 10.61.0.11/32 dev veth0\nroute add fd61::11/128 dev veth0\n"
      "neigh add 10.61.0.11 lladdr 02:00:00:00:00:02 dev veth0 nud permanent\n"
      "neigh add fd61::11 lladdr 02:00:00:00:00:02 dev veth0 nud permanent\n",
      ip);
  if (pclose(ip) != 0) return false;
  for (const char* const path :
       {"/proc/sys/net/ipv4/conf/all/forwarding", "/proc/sys/net/ipv6/conf/all/forwarding"})
    if (!(std::ofstream(path) << '1')) return false;
  return true;
}

// Names, types and records that the maps have answers for.
struct KnownAnswer {
  Octets name;
  std::uint16_t type;
  std::uint8_t flags;
  std::size_t records;  // of kRecordSize octets; they rotate
  Octets tail;
};

class AnswerProgramFuzzTest : public testing::Test {
 protected:
  void SetUp() override {
    libbpf_set_print([](enum libbpf_print_level, const char*, va_list) { return 0; });
    if (!make_node()) GTEST_SKIP() << "needs network namespaces";
    object_.reset(bpf_object__open_file(MESHDNS_ANSWER_OBJECT, nullptr));
    ASSERT_NE(object_, nullptr) << MESHDNS_ANSWER_OBJECT;
    const int loaded = bpf_object__load(object_.get());
    if (loaded == -EPERM) GTEST_SKIP() << "bpf() is not permitted";
    ASSERT_EQ(loaded, 0);
    program_ = bpf_program__fd(bpf_object__find_program_by_name(object_.get(), "meshdns_answer"));
    interface_ = if_nametoindex("veth0");
    fill();
  }

  int map(const char* name) const { return bpf_object__find_map_fd_by_name(object_.get(), name); }

  static meshdns_address address_of(const char* text) {
    meshdns_address address{};
    const Octets octets = packed(text);
    if (octets.size() == 4) address.octets[10] = address.octets[11] = 0xff;
    std::memcpy(address.octets + 16 - octets.size(), octets.data(), octets.size());
    return address;
  }

  void fill() {
    for (const Family& family : {kIpv4, kIpv6}) {
      const meshdns_endpoint server{address_of(family.addresses[1]), htons(kPort), 0};
      const std::uint8_t one = 1;
      ASSERT_EQ(bpf_map_update_elem(map(MESHDNS_MAP_SERVED), &server, &one, BPF_ANY), 0);
      const meshdns_address address = address_of(family.addresses[0]);
      const meshdns_client client{{'v'}, 0, ~__u64{0}, kSlot, 0, 0};
      ASSERT_EQ(bpf_map_update_elem(map(MESHDNS_MAP_CLIENTS), &address, &client, BPF_ANY), 0);
    }
    const std::vector<std::string> names = {
        std::string("\0", 1),
        std::string("\1a\0", 3),
        std::string("\2ab\3org\0", 8),
        std::string("\4`{az\0", 6),  // neighbours of the letters
        std::string("\3api\7example\3org\0", 17),
        std::string("\4apis\7example\3org\0", 18),
        "\x3f" + std::string(63, 'l') + "\x3e" + std::string(62, 'm') + std::string("\0", 1)};
    for (const std::string& name : names)
      for (const std::uint16_t type : std::to_array<std::uint16_t>({1, 28, 65}))
        for (const std::uint8_t flags : std::to_array<std::uint8_t>({0, 1, 3}))
          add_answer({name.begin(), name.end()}, type, flags);
    beat();
  }

  void add_answer(const Octets& name, std::uint16_t type, std::uint8_t flags) {
    KnownAnswer known{name, type, flags, random_() % 4, {}};
    known.tail.resize(known.records * kRecordSize + random_() % 40);
    for (auto& octet : known.tail) octet = static_cast<std::uint8_t>(random_());
    meshdns_question question{};
    question.view[0] = 'v';
    std::memcpy(question.name, name.data(), name.size());
    question.type = htons(type);
    question.flags = flags;
    meshdns_answer answer{};
    answer.record_count = static_cast<std::uint8_t>(known.records);
    answer.record_size = kRecordSize;
    answer.flags = htons(0x8400);
    answer.answers = htons(static_cast<std::uint16_t>(known.records));
    answer.tail_size = static_cast<std::uint16_t>(known.tail.size());
    std::memcpy(answer.tail, known.tail.data(), known.tail.size());
    ASSERT_EQ(bpf_map_update_elem(map(MESHDNS_MAP_ANSWERS), &question, &answer, BPF_ANY), 0);
    known_.push_back(std::move(known));
  }

  void beat() const {
    const __u32 first = 0;
    const meshdns_control state{
        MESHDNS_MAPS_VERSION, 16, 1,
        static_cast<__u64>(std::chrono::steady_clock::now().time_since_epoch().count()), 0};
    ASSERT_EQ(bpf_map_update_elem(map(MESHDNS_MAP_CONTROL), &first, &state, BPF_ANY), 0);
  }

  // The frame behind the program; nullopt: it passed untouched.
  std::optional<Octets> run(const Octets& frame) {
    Octets out(2048);
    __sk_buff context{};
    context.ifindex = interface_;
    LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = frame.data(), .data_out = out.data(),
                .data_size_in = static_cast<__u32>(frame.size()),
                .data_size_out = static_cast<__u32>(out.size()), .ctx_in = &context,
                .ctx_size_in = sizeof context);
    const int result = bpf_prog_test_run_opts(program_, &options);
    if (result == -EINVAL) return std::nullopt;  // too short for a frame: the kernel refuses it
    EXPECT_EQ(result, 0);
    out.resize(options.data_size_out);
    const int action = static_cast<int>(options.retval);
    if (action == TC_ACT_REDIRECT) return out;
    EXPECT_EQ(action, TC_ACT_UNSPEC);
    EXPECT_EQ(out, frame);
    return std::nullopt;
  }

  // --- random frames

  Octets random_message() {
    const KnownAnswer& known = known_[random_() % known_.size()];
    Octets message;
    append_u16(message, random_() & 0xffff);
    append_u16(message, random_() & 0x0130);  // RD, AD, CD
    append(message, Octets{0, 1, 0, 0, 0, 0, 0, static_cast<std::uint8_t>(known.flags != 0)});
    for (const std::uint8_t octet : known.name)
      message.push_back(octet >= 'a' && octet <= 'z' && random_() % 2 ? octet - 0x20 : octet);
    append_u16(message, known.type);
    append_u16(message, 1);
    if (known.flags == 0) return message;
    append(message, Octets{0, 0, 41});
    append_u16(message, random_() & 0xfff);
    append(message, Octets{0, 0, static_cast<std::uint8_t>(known.flags == 3 ? 0x80 : 0), 0, 0, 0});
    return message;
  }

  // Octets changed, added or taken away.
  void mutate(Octets& octets, std::size_t from) {
    for (std::size_t changes = random_() % 3 + 1; changes > 0 && octets.size() > from; --changes) {
      const std::size_t at = from + random_() % (octets.size() - from);
      switch (random_() % 5) {
        case 0:
          octets[at] = static_cast<std::uint8_t>(random_());
          break;
        case 1:
          octets[at] ^= static_cast<std::uint8_t>(1U << random_() % 8);
          break;
        case 2:
          octets[at] = static_cast<std::uint8_t>(octets[at] + 1);
          break;
        case 3:
          octets.resize(at);
          break;
        default:
          octets.insert(octets.begin() + static_cast<std::ptrdiff_t>(at), random_() % 2 ? 0 : 1);
      }
    }
  }

  // --- expectations

  const KnownAnswer* find(const wire::QueryMessage& query) const {
    Octets name(query.question.begin(), query.question.end() - 4);
    for (auto& octet : name)
      if (octet >= 'A' && octet <= 'Z') octet |= 0x20;
    const std::uint8_t flags =
        !query.has_edns
            ? 0
            : (query.edns.dnssec_ok ? MESHDNS_HAS_OPT | MESHDNS_DNSSEC_OK : MESHDNS_HAS_OPT);
    for (const KnownAnswer& known : known_)
      if (known.name == name && known.type == static_cast<std::uint16_t>(query.qtype) &&
          known.flags == flags)
        return &known;
    return nullptr;
  }

  // All replies that the daemon could give to the message; empty if it would refuse it.
  std::set<Octets> right_replies(const Octets& message) const {
    wire::QueryMessage query;
    if (wire::parse_query(message, query) != wire::ParseOutcome::Ok) return {};
    const KnownAnswer* const known = query.qclass == wire::Class::In ? find(query) : nullptr;
    if (known == nullptr) return {};
    std::set<Octets> replies;
    for (std::size_t first = 0; first < std::max<std::size_t>(known->records, 1); ++first) {
      Octets reply;
      append_u16(reply, query.id);
      append_u16(reply, 0x8400 | (query.recursion_desired ? 0x0100 : 0) |
                            (query.checking_disabled ? 0x0010 : 0));
      append(reply, Octets{0, 1, 0, static_cast<std::uint8_t>(known->records), 0, 0, 0, 0});
      append(reply, query.question);
      Octets tail = known->tail;
      std::rotate(tail.begin(), tail.begin() + static_cast<std::ptrdiff_t>(first * kRecordSize),
                  tail.begin() + static_cast<std::ptrdiff_t>(known->records * kRecordSize));
      append(reply, tail);
      replies.insert(reply);
    }
    return replies;
  }

  void check_reply(const Octets& frame, const Octets& reply) const {
    const Family& family = frame[12] == 0x08 ? kIpv4 : kIpv6;
    ASSERT_EQ(wire::load_u16(frame.data() + 12), family.ether_type);
    ASSERT_GT(frame.size(), family.dns_at());
    ASSERT_EQ(frame[14] >> 4, family.ip_size == 20 ? 4 : 6);
    if (family.ip_size == 20) {
      ASSERT_EQ(frame[14], 0x45);
      ASSERT_EQ(wire::load_u16(frame.data() + 20) & 0x3fff, 0) << "a fragment";
    }
    const std::size_t claimed = wire::load_u16(frame.data() + 14 + family.length_at);
    ASSERT_EQ(claimed, frame.size() - 14 - (family.ip_size == 20 ? 0 : 40));
    ASSERT_EQ(wire::load_u16(frame.data() + family.dns_at() - 4),
              frame.size() - 14 - family.ip_size);

    const Octets message(frame.begin() + static_cast<std::ptrdiff_t>(family.dns_at()), frame.end());
    const Octets answer(reply.begin() + static_cast<std::ptrdiff_t>(family.dns_at()), reply.end());
    ASSERT_TRUE(right_replies(message).contains(answer));
    ASSERT_EQ(wire::load_u16(reply.data() + 14 + family.length_at),
              reply.size() - 14 - (family.ip_size == 20 ? 0 : 40));
    if (family.ip_size == 20) {
      ASSERT_EQ(sum_of(reply.data() + 14, 20), 0xffffU);
      if (wire::load_u16(frame.data() + 40) == 0) {
        ASSERT_EQ(wire::load_u16(reply.data() + 40), 0);
        return;
      }
    }
    // A wrong checksum stays wrong: the client drops the reply.
    ASSERT_EQ(sum_of_datagram(frame, family) == 0xffff, sum_of_datagram(reply, family) == 0xffff);
  }

  std::mt19937 random_{20240601};
  std::unique_ptr<bpf_object, Closer> object_;
  int program_ = -1;
  unsigned interface_ = 0;
  std::vector<KnownAnswer> known_;
};

TEST_F(AnswerProgramFuzzTest, AnswersOnlyWhatTheDaemonsParserAccepts) {
  int plain = 0;
  int answered_plain = 0;
  int answered_mutated = 0;
  for (int i = 0; i < kFrames && !HasFatalFailure(); ++i) {
    if (i % 1000 == 0) beat();
    const Family& family = random_() % 2 ? kIpv4 : kIpv6;
    Octets message = random_message();
    const unsigned kind = random_() % 4;
    // Half of the mutated messages are in frames that are right, with lengths and checksum.
    if (kind == 1 || kind == 2) mutate(message, random_() % 2 ? 0 : 12);
    Octets frame = make_frame(family, message, static_cast<std::uint16_t>(random_() | 1));
    if (kind == 3) mutate(frame, random_() % 2 ? 0 : 12);
    const auto reply = run(frame);
    plain += kind == 0;
    if (!reply) continue;
    ++(kind == 0 ? answered_plain : answered_mutated);
    SCOPED_TRACE(testing::Message() << "frame " << i << ' ' << testing::PrintToString(frame));
    check_reply(frame, *reply);
  }
  EXPECT_EQ(answered_plain, plain);
  EXPECT_GT(answered_mutated, kFrames / 100);
}

}  // namespace
}  // namespace meshdns::kernel
