// SPDX-License-Identifier: Apache-2.0
// Decodes the body of a response piece by piece (RFC 9110, section 8.4: identity and gzip).
//
// A page of lists is compressed, and 1 KiB of gzip may stand for 1 MiB of text.  The text is
// never there as a whole: the reader takes it in pieces of kPiece at most, as fast as it wants.
//
// Libcurl's own decompression (CURLOPT_ACCEPT_ENCODING) keeps no such bound.  If its callback
// pauses a transfer, libcurl inflates all that it has received and keeps it: version 7.88 took 64
// MiB for 64 KiB of a bomb and then failed, and 24 MiB for 8 KiB.  Without a pause, one turn of the
// loop brought 300 MB of text.  And a gzip that ends early is no error to it.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "registry/base/result.hpp"

struct z_stream_s;  // NOLINT(readability-identifier-naming): zlib's name

namespace meshdns::registry::kubernetes {

// One thread.
class BodyDecoder {
 public:
  static constexpr std::size_t kPiece = std::size_t{64} << 10;

  BodyDecoder();
  ~BodyDecoder();
  BodyDecoder(const BodyDecoder&) = delete;
  BodyDecoder& operator=(const BodyDecoder&) = delete;

  // Takes the value of Content-Encoding, of each such field.  An Error: it is not known here, or
  // there are two.
  Result<void> set_encoding(std::string_view name);

  // Adds what came.  Bounding it is the caller's task.
  void add(std::string_view part);
  std::size_t waiting() const { return input_.size() - taken_; }

  // Returns the next piece of the text, good until the next call; empty: more input is needed.  An
  // Error: the input is not what its encoding says; nothing can be read after it.
  Result<std::string_view> next();
  // Tells whether the body may end here.
  Result<void> finish() const;

 private:
  struct EndInflate {
    void operator()(z_stream_s* stream) const;
  };

  Result<std::string_view> inflate_next();
  void drop_taken();

  std::string input_;
  std::size_t taken_ = 0;
  std::unique_ptr<z_stream_s, EndInflate> inflating_;  // null: identity
  bool is_between_members_ = true;                     // RFC 1952, section 2.2
  std::string piece_;
};

}  // namespace meshdns::registry::kubernetes
