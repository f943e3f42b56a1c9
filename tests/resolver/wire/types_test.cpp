// SPDX-License-Identifier: Apache-2.0
#include "resolver/wire/types.hpp"

#include <gtest/gtest.h>

#include "resolver/wire/record_text.hpp"

namespace meshdns::wire {
namespace {

TEST(TypesTest, NamesTypesBothWays) {
  for (unsigned number = 0; number < 65536; ++number) {
    Type read{};
    ASSERT_TRUE(type_from_string(to_string(Type{static_cast<std::uint16_t>(number)}), read));
    EXPECT_EQ(static_cast<unsigned>(read), number);
  }
  EXPECT_EQ(to_string(Type::Aaaa), "AAAA");
  EXPECT_EQ(to_string(Type{65280}), "TYPE65280");
  Type type{};
  EXPECT_TRUE(type_from_string("aaaa", type) && type == Type::Aaaa);
  EXPECT_TRUE(type_from_string("type28", type) && type == Type::Aaaa);
  for (const char* wrong : {"", "AAAAA", "TYPE", "TYPE65536", "TYPE-1", "TYPE1x", "28"})
    EXPECT_FALSE(type_from_string(wrong, type)) << wrong;
}

TEST(TypesTest, NamesRcodes) {
  EXPECT_EQ(to_string(Rcode::NxDomain), "NXDOMAIN");
  EXPECT_EQ(to_string(Rcode::BadVers), "BADVERS");
  EXPECT_EQ(to_string(Rcode{9}), "NOTAUTH");
}

TEST(RecordTextTest, GivesUncheckedTypesAsOctets) {
  ResponseRecord record{std::string("\1a\0", 3), Type::Rrsig, Class::In, 5, "\1\xff"};
  EXPECT_EQ(record_to_text(record), "a. 5 IN RRSIG \\# 2 01ff");
  record.rdata.clear();
  record.rclass = Class{7};
  EXPECT_EQ(record_to_text(record), "a. 5 CLASS7 RRSIG \\# 0");
}

TEST(RecordTextTest, GivesRdataOfTheWrongShapeAsOctets) {
  const ResponseRecord record{std::string("\1a\0", 3), Type::A, Class::In, 5, "\1\2\3"};
  EXPECT_EQ(record_to_text(record), "a. 5 IN A \\# 3 010203");
}

}  // namespace
}  // namespace meshdns::wire
