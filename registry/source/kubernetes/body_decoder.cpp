// SPDX-License-Identifier: Apache-2.0
// The only file of the Kubernetes source that knows zlib.
#include "registry/source/kubernetes/body_decoder.hpp"

#include <zlib.h>

#include <algorithm>
#include <cctype>
#include <utility>

namespace meshdns::registry::kubernetes {
namespace {

constexpr int kGzipOnly = 16 + MAX_WBITS;

std::string lower_case(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return lower;
}

}  // namespace

void BodyDecoder::EndInflate::operator()(z_stream* stream) const {
  inflateEnd(stream);
  delete stream;
}

BodyDecoder::BodyDecoder() = default;
BodyDecoder::~BodyDecoder() = default;

Result<void> BodyDecoder::set_encoding(std::string_view name) {
  const std::string encoding = lower_case(name);
  if (encoding.empty() || encoding == "identity") return {};
  if (inflating_ || (encoding != "gzip" && encoding != "x-gzip"))
    return fail("the server's Content-Encoding is not gzip");
  auto stream = std::make_unique<z_stream>();
  if (inflateInit2(stream.get(), kGzipOnly) != Z_OK) return fail("no memory to decompress");
  inflating_.reset(stream.release());
  piece_.resize(kPiece);
  return {};
}

void BodyDecoder::add(std::string_view part) {
  input_.erase(0, std::exchange(taken_, 0));
  input_ += part;
}

void BodyDecoder::drop_taken() {
  if (taken_ < input_.size()) return;
  input_.clear();
  taken_ = 0;
}

Result<std::string_view> BodyDecoder::next() {
  if (inflating_) return inflate_next();
  drop_taken();
  const auto rest = std::string_view(input_).substr(taken_, kPiece);
  taken_ += rest.size();
  return rest;
}

Result<std::string_view> BodyDecoder::inflate_next() {
  z_stream& stream = *inflating_;
  std::size_t filled = 0;
  while (filled == 0) {
    stream.next_in = reinterpret_cast<Bytef*>(input_.data() + taken_);
    stream.avail_in = static_cast<uInt>(waiting());
    stream.next_out = reinterpret_cast<Bytef*>(piece_.data());
    stream.avail_out = static_cast<uInt>(piece_.size());
    const int status = inflate(&stream, Z_NO_FLUSH);
    filled = piece_.size() - stream.avail_out;
    if (waiting() != stream.avail_in) is_between_members_ = false;
    taken_ = input_.size() - stream.avail_in;
    if (status == Z_STREAM_END) {
      is_between_members_ = true;
      if (inflateReset(&stream) != Z_OK) return fail("the gzip stream cannot be continued");
    } else if (status != Z_OK && status != Z_BUF_ERROR) {
      return fail("the body is not valid gzip" +
                  (stream.msg == nullptr ? std::string() : ": " + std::string(stream.msg)));
    }
    if (waiting() == 0) break;
  }
  // Zlib may hold text that did not fit: only an empty piece says that there is none.
  drop_taken();
  return std::string_view(piece_).substr(0, filled);
}

Result<void> BodyDecoder::finish() const {
  if (inflating_ && !is_between_members_) return fail("the gzip stream ends early");
  return {};
}

}  // namespace meshdns::registry::kubernetes
