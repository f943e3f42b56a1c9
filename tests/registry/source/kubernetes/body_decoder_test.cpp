// SPDX-License-Identifier: Apache-2.0
#include "registry/source/kubernetes/body_decoder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>

namespace meshdns::registry::kubernetes {
namespace {

using ::testing::HasSubstr;

std::string gzip(std::string_view text) {
  z_stream stream{};
  deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string packed(compressBound(text.size()) + 64, '\0');
  std::string copy(text);
  stream.next_in = reinterpret_cast<Bytef*>(copy.data());
  stream.avail_in = static_cast<uInt>(copy.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

struct Decoded {
  std::string text;
  std::string error;
  std::size_t longest_piece = 0;
};

Decoded decode(std::string_view encoding, std::string_view body, std::size_t step) {
  BodyDecoder decoder;
  Decoded decoded;
  if (const auto known = decoder.set_encoding(encoding); !known)
    return {.text = "", .error = known.error().message};
  for (std::size_t at = 0; at < body.size(); at += step) {
    decoder.add(body.substr(at, step));
    for (;;) {
      const auto piece = decoder.next();
      if (!piece) {
        decoded.error = piece.error().message;
        return decoded;
      }
      if (piece->empty()) break;
      decoded.longest_piece = std::max(decoded.longest_piece, piece->size());
      decoded.text += *piece;
    }
    EXPECT_EQ(decoder.waiting(), 0U);
  }
  if (const auto end = decoder.finish(); !end) decoded.error = end.error().message;
  return decoded;
}

std::string long_text() {
  std::string text;
  for (int i = 0; text.size() < 300'000; ++i) text += "object " + std::to_string(i * 7919) + ",";
  return text;
}

TEST(BodyDecoderTest, DecodesGzipWhereverItIsDivided) {
  const std::string text = long_text();
  const std::string packed = gzip(text);
  for (const std::size_t step : {1UL, 13UL, 4'096UL, packed.size()}) {
    const Decoded decoded = decode("gzip", packed, step);
    EXPECT_EQ(decoded.error, "") << step;
    EXPECT_TRUE(decoded.text == text) << step;
  }
}

TEST(BodyDecoderTest, LeavesWhatIsNotEncoded) {
  const std::string text = long_text();
  for (const char* const name : {"", "identity", "Identity"})
    EXPECT_TRUE(decode(name, text, 70'000).text == text) << name;
}

TEST(BodyDecoderTest, GivesTheTextOfABombInSmallPieces) {
  const std::string packed = gzip(std::string(50 << 20, ' '));
  ASSERT_LT(packed.size(), 100'000U);
  const Decoded decoded = decode("x-gzip", packed, packed.size());
  EXPECT_EQ(decoded.text.size(), std::size_t{50} << 20);
  EXPECT_LE(decoded.longest_piece, BodyDecoder::kPiece);
}

TEST(BodyDecoderTest, ReadsSeveralMembers) {
  EXPECT_EQ(decode("gzip", gzip("one ") + gzip("") + gzip("two"), 5).text, "one two");
}

TEST(BodyDecoderTest, RefusesAGzipThatEndsEarlyAtEveryByte) {
  const std::string packed = gzip("the text of a list");
  for (std::size_t size = 1; size < packed.size(); ++size)
    EXPECT_THAT(decode("gzip", packed.substr(0, size), 3).error, HasSubstr("ends early")) << size;
}

TEST(BodyDecoderTest, RefusesWhatIsNoGzip) {
  EXPECT_THAT(decode("gzip", "{\"kind\":\"ServiceList\"}", 5).error, HasSubstr("not valid gzip"));
  std::string damaged = gzip(long_text());
  damaged[damaged.size() - 6] ^= 1;  // of the checksum
  EXPECT_THAT(decode("gzip", damaged, 4'096).error, HasSubstr("not valid gzip"));
}

TEST(BodyDecoderTest, RefusesEncodingsThatItDoesNotKnow) {
  for (const char* const name : {"br", "deflate", "gzip, gzip", "zstd"})
    EXPECT_THAT(decode(name, "x", 1).error, HasSubstr("Content-Encoding")) << name;
  BodyDecoder twice;
  EXPECT_TRUE(twice.set_encoding("gzip"));
  EXPECT_FALSE(twice.set_encoding("gzip"));
}

}  // namespace
}  // namespace meshdns::registry::kubernetes
