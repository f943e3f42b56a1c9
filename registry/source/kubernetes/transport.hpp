// SPDX-License-Identifier: Apache-2.0
// Requests to an API server, as seen by those who make them.  An interface, so that tests play the
// server.  Control thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "registry/base/result.hpp"

namespace meshdns::registry::kubernetes {

struct ResponseHead {
  unsigned status = 0;
  std::optional<std::chrono::seconds> retry_after;
  // HTTP/2: requests share one connection, so that one of them shows whether it still works.
  bool is_multiplexed = true;
  // The same for answers over one connection.
  std::uint64_t connection = 0;
};

class ResponseListener {
 public:
  virtual ~ResponseListener() = default;
  // Once, before anything of the body.
  virtual void on_head(const ResponseHead& head) = 0;
  virtual void on_body(std::string_view part) = 0;
  // The response is over; or, with an Error, there was none or it was cut short.  Nothing follows.
  virtual void on_end(const Result<void>& end) = 0;
};

// A request under way.  Destruction ends it: the listener hears nothing afterwards.  It may be
// destroyed in its listener's calls.
class Exchange {
 public:
  virtual ~Exchange() = default;
};

enum class Content : std::uint8_t {
  Objects,
  // PartialObjectMetadata instead of the objects: of a watch, and of a list.  A server that is
  // asked for the wrong one of the two says nothing at all.
  Metadata,
  MetadataList,
};

class Transport {
 public:
  virtual ~Transport() = default;
  // `path` with its query ("/api/v1/services?limit=500").  The listener is never called from within
  // this call.  REQUIRES: the listener outlives the exchange.
  [[nodiscard]] virtual std::unique_ptr<Exchange> get(std::string path, Content content,
                                                      ResponseListener& listener) = 0;
  // The server did not take the credentials: fetches them anew before the next request.
  virtual void renew_credentials() = 0;
  // False: the latest request was not even sent, for want of a configuration, of credentials, or of
  // a file that they name.
  virtual bool has_asked() const { return true; }
  // A connection has fallen silent: the next requests go over new ones.  Exchanges under way keep
  // theirs.
  virtual void distrust_connections() = 0;
};

}  // namespace meshdns::registry::kubernetes
