// SPDX-License-Identifier: Apache-2.0
// Looks up endpoint names outside the mesh: with c-ares at servers of plain DNS, and with a
// forwarder, as clients' names are, where all servers of a name speak DNS over TLS, which c-ares
// does not.
#pragma once

#include <uv.h>

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "dnsd/cache/denied_answers.hpp"
#include "dnsd/config/config.hpp"
#include "dnsd/forward/forwarder.hpp"
#include "dnsd/forward/random_pool.hpp"
#include "dnsd/forward/upstream_cookies.hpp"
#include "registry/base/result.hpp"
#include "resolver/cares_lookup.hpp"
#include "resolver/lookup.hpp"

namespace meshdns::dnsd {

// The cookies between the lookups and the servers.  Control thread.
class EndpointCookies final : public resolver::ServerCookies {
 public:
  std::string option(const std::string& server) override { return of(server).option(); }
  Verdict judge(const std::string& server, std::string_view option,
                resolver::TimePoint now) override;
  void note_stream_reply(const std::string& server, std::string_view option,
                         resolver::TimePoint now) override;
  void note_stream_failure(const std::string& server, resolver::TimePoint now) override;
  void clear() { by_server_.clear(); }

 private:
  UpstreamCookies& of(const std::string& server);

  RandomPool random_;
  std::map<std::string, UpstreamCookies> by_server_;
};

// Control thread.
class EndpointLookups final : public resolver::Lookups {
 public:
  // REQUIRES: the loop runs on for the handles to close after close().  An Error when c-ares cannot
  // be initialised.
  static Result<std::unique_ptr<EndpointLookups>> open(uv_loop_t* loop,
                                                       std::shared_ptr<ForwardShared> shared,
                                                       const UpstreamConfig& upstream,
                                                       const CacheConfig& cache);

  // For lookups that start from now on.
  void reconfigure(const UpstreamConfig& upstream, const CacheConfig& cache);
  // Ends all lookups with a failure; nothing may be called afterwards.
  void close() { forwarder_.close(); }

  std::unique_ptr<resolver::Lookup> start(const std::string& host, resolver::Family family,
                                          resolver::LookupCallback callback) override;

 private:
  EndpointLookups(uv_loop_t* loop, std::shared_ptr<ForwardShared> shared,
                  const UpstreamConfig& upstream, const CacheConfig& cache);
  resolver::CaresOptions cares_options();
  // Refuses addresses that no answer from outside may have, as the forwarder does.
  resolver::Answer checked(const std::string& host, resolver::Answer&& answer) const;
  std::unique_ptr<resolver::Lookup> start_forwarded(const std::string& host,
                                                    resolver::Family family,
                                                    resolver::LookupCallback callback);

  uv_loop_t* loop_;
  UpstreamConfig upstream_;
  DeniedAnswers denied_;
  EndpointCookies cookies_;
  std::unique_ptr<resolver::CaresLookups> cares_;
  Forwarder forwarder_;
};

}  // namespace meshdns::dnsd
