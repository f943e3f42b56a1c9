// SPDX-License-Identifier: Apache-2.0
#include "resolver/wire/upstream_query.hpp"

#include <gtest/gtest.h>

#include <array>

#include "octets.hpp"
#include "resolver/wire/ldns.hpp"

namespace meshdns::wire {
namespace {

TEST(UpstreamQueryTest, IsReadByLdnsAndByUs) {
  const std::string name = *name_from_text("wWw.exAmple.org");
  UpstreamQuery query{.id = 0xcafe,
                      .name = name,
                      .type = Type::Aaaa,
                      .checking_disabled = true,
                      .dnssec_ok = true,
                      .cookie = "12345678"};
  std::array<std::uint8_t, kMaxQuerySize> buffer;
  const std::size_t size = build_query(buffer, query);
  ASSERT_GT(size, 0u);

  QueryMessage ours;
  ASSERT_EQ(parse_query(std::span(buffer).first(size), ours), ParseOutcome::Ok);
  EXPECT_EQ(ours.id, 0xcafe);
  EXPECT_TRUE(ours.recursion_desired && ours.checking_disabled && !ours.authentic_data);
  EXPECT_TRUE(ours.has_edns && ours.edns.dnssec_ok);
  EXPECT_EQ(ours.edns.udp_payload, 1232);
  EXPECT_EQ(ours.edns.cookie_length, 8);
  EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(ours.question.data()), name.size()),
            name);

  ldns_pkt* packet = nullptr;
  ASSERT_EQ(ldns_wire2pkt(&packet, buffer.data(), size), LDNS_STATUS_OK);
  EXPECT_EQ(ldns_pkt_id(packet), 0xcafe);
  EXPECT_EQ(ldns_pkt_qdcount(packet), 1);
  EXPECT_TRUE(ldns_pkt_edns(packet));
  EXPECT_EQ(ldns_pkt_edns_udp_size(packet), 1232);
  ldns_pkt_free(packet);
}

TEST(UpstreamQueryTest, IsOctetForOctetWhatIsExpected) {
  const std::string name = *name_from_text("example.org");
  std::array<std::uint8_t, kMaxQuerySize> buffer;
  const std::size_t size = build_query(buffer, {.id = 0x1234,
                                                .name = name,
                                                .recursion_desired = false,
                                                .authentic_data = true,
                                                .edns = false});
  const Octets expected = Message().header(0x0020, 1).question("example.org");
  EXPECT_EQ(Octets(buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(size)), expected);

  const std::size_t longer = build_query(buffer, {.id = 0x1234, .name = name, .keepalive = true});
  const Octets with_opt = Message()
                              .header(0x0100, 1, 0, 0, 1)
                              .question("example.org")
                              .opt(1232, Message().option(11, "").string());
  EXPECT_EQ(Octets(buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(longer)), with_opt);
}

TEST(UpstreamQueryTest, RefusesBuffersTooSmallAndCookiesThatAreNone) {
  const std::string name = *name_from_text("example.org");
  std::array<std::uint8_t, kMaxQuerySize> buffer;
  const std::size_t size = build_query(buffer, {.name = name});
  EXPECT_EQ(build_query(std::span(buffer).first(size - 1), {.name = name}), 0u);
  EXPECT_EQ(build_query(std::span(buffer).first(size), {.name = name}), size);
  EXPECT_EQ(build_query(buffer, {.name = name, .cookie = "1234567"}), 0u);
}

TEST(UpstreamQueryTest, AlwaysFitsItsLargestSize) {
  std::string name;
  for (int i = 0; i < 127; ++i) name += "\1a";
  name += '\0';
  const std::string cookie(40, 'c');
  std::array<std::uint8_t, kMaxQuerySize> buffer;
  EXPECT_GT(build_query(buffer, {.name = name, .cookie = cookie, .keepalive = true}), 0u);
}

}  // namespace
}  // namespace meshdns::wire
