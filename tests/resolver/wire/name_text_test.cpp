// SPDX-License-Identifier: Apache-2.0
#include "resolver/wire/name_text.hpp"

#include <gtest/gtest.h>

#include <random>

#include "octets.hpp"
#include "resolver/wire/ldns.hpp"

namespace meshdns::wire {
namespace {

TEST(NameTextTest, WritesAndReadsNames) {
  const struct {
    std::string wire;
    const char* text;
  } cases[] = {
      {std::string("\0", 1), "."},
      {std::string("\3www\7example\3org\0", 17), "www.example.org."},
      {std::string("\3a.b\0", 5), "a\\.b."},
      {std::string("\3a\\b\0", 5), "a\\\\b."},
      {std::string("\3a\0b\0", 5), "a\\000b."},
      {std::string("\2a \0", 4), "a\\032."},
      {std::string("\2\xff\x7f\0", 4), "\\255\\127."},
      {std::string("\1\"\1@\0", 5), "\\\".\\@."},
      {std::string("\2\r\n\0", 4), "\\013\\010."},
      {std::string("\2%s\0", 4), "%s."},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(name_to_text(c.wire), c.text);
    const auto wire = name_from_text(c.text);
    ASSERT_TRUE(wire.has_value()) << c.text;
    EXPECT_EQ(*wire, c.wire);
  }
  EXPECT_EQ(*name_from_text("www.example.org"), *name_from_text("www.example.org."));
  EXPECT_EQ(*name_from_text("\\w"), std::string("\1w\0", 3));
}

TEST(NameTextTest, RefusesWhatIsNoName) {
  const std::string label(64, 'a');
  std::string name;
  for (int i = 0; i < 127; ++i) name += "a.";
  ASSERT_TRUE(name_from_text(name).has_value());
  for (const std::string& text :
       {std::string(), std::string(".."), std::string(".a"), std::string("a..b"), label, name + "a",
        std::string("a\\"), std::string("\\1"), std::string("\\12x"), std::string("\\256"),
        std::string("a..")}) {
    const auto wire = name_from_text(text);
    ASSERT_FALSE(wire.has_value()) << text;
    EXPECT_NE(wire.error().message.find("not a domain name"), std::string::npos);
  }
}

TEST(NameTextTest, GivesAnythingAsText) {
  EXPECT_EQ(name_to_text(""), "<malformed>");
  EXPECT_EQ(name_to_text("\3ab"), "<malformed>");
  EXPECT_EQ(name_to_text(std::string("\1a\0x", 4)), "a.<malformed>");
  EXPECT_EQ(name_to_text("\xc0\x0c"), "<malformed>");
}

TEST(NameTextTest, AgreesWithItselfOnRandomNames) {
  Random random(3);
  for (int i = 0; i < 20'000; ++i) {
    std::string wire;
    for (unsigned labels = random() % 6; labels > 0; --labels) {
      const unsigned size = 1 + random() % 40;
      wire += static_cast<char>(size);
      for (unsigned k = 0; k < size; ++k) wire += static_cast<char>(random());
    }
    wire += '\0';
    ASSERT_TRUE(is_wire_name(wire));
    const std::string text = name_to_text(wire);
    ASSERT_EQ(name_from_text(text).value_or("unreadable"), wire) << text;
    ldns_rdf* const read = ldns_dname_new_frm_str(text.c_str());
    ASSERT_NE(read, nullptr) << text;
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(ldns_rdf_data(read)), ldns_rdf_size(read)),
              wire);
    ldns_rdf_deep_free(read);
  }
}

TEST(NameTextTest, ConvertsHosts) {
  EXPECT_EQ(wire_from_host("www.example.org"), std::string("\3www\7example\3org\0", 17));
  EXPECT_EQ(wire_from_host(""), std::string("\0", 1));
  EXPECT_EQ(wire_from_host("a..b"), "");
  EXPECT_EQ(wire_from_host(std::string(64, 'a')), "");
  EXPECT_EQ(wire_from_host(std::string(254, 'a')), "");
  std::string host;
  EXPECT_TRUE(host_from_wire(std::string("\3WWW\7example\3org\0", 17), host));
  EXPECT_EQ(host, "www.example.org");
  EXPECT_TRUE(host_from_wire(std::string("\0", 1), host));
  EXPECT_EQ(host, "");
  EXPECT_FALSE(host_from_wire(std::string("\3a.b\0", 5), host));
  EXPECT_FALSE(host_from_wire(std::string("\3a\0b\0", 5), host));
}

TEST(NameTextTest, KnowsWireNames) {
  EXPECT_TRUE(is_wire_name(std::string("\0", 1)));
  EXPECT_FALSE(is_wire_name(""));
  EXPECT_FALSE(is_wire_name("\1a"));
  EXPECT_FALSE(is_wire_name(std::string("\1a\0\0", 4)));
  EXPECT_FALSE(is_wire_name(std::string("\xc0\x0c\0", 3)));
  std::string name;
  for (int i = 0; i < 127; ++i) name += "\1a";
  EXPECT_TRUE(is_wire_name(name + '\0'));
  EXPECT_FALSE(is_wire_name("\1a" + name + '\0'));
}

}  // namespace
}  // namespace meshdns::wire
