#include "registry/vip/vip_allocator.hpp"

#include <gtest/gtest.h>

namespace meshdns::registry {
namespace {

std::string assigned(const std::vector<VipAssignment>& all, std::string_view ns, std::string_view host) {
  for (const auto& a : all)
    if (a.ns == ns && a.host == host) return a.v4.to_string() + " " + a.v6.to_string();
  return "none";
}

TEST(HashVipsTest, AgreesWithIstiosPublishedVectors) {
  HashVips vips;
  EXPECT_EQ(assigned(vips.assign({{"", "foo.com"}}, {}), "", "foo.com"), "240.240.227.81 2001:2::f0f0:e351");
  EXPECT_EQ(assigned(vips.assign({{"a", "a.example.com"}}, {}), "a", "a.example.com"),
            "240.240.134.206 2001:2::f0f0:86ce");
  EXPECT_EQ(assigned(vips.assign({{"b", "a.example.com"}}, {}), "b", "a.example.com"),
            "240.240.41.100 2001:2::f0f0:2964");
  EXPECT_EQ(assigned(vips.assign({{"ns2", "random-1.host.example"}}, {}), "ns2", "random-1.host.example").substr(0, 14),
            "240.240.116.21");
}

}  // namespace
}  // namespace meshdns::registry
