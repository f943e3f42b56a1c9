// SPDX-License-Identifier: Apache-2.0
// Looks up endpoint names outside the mesh: with c-ares at servers of plain DNS, and with a
// forwarder, as clients' names are, where all servers of a name speak DNS over TLS, which c-ares
// does not.
#pragma once

#include <uv.h>

#include <memory>
#include <string>

#include "dnsd/config/config.hpp"
#include "dnsd/forward/forwarder.hpp"
#include "registry/base/result.hpp"
#include "resolver/cares_lookup.hpp"
#include "resolver/lookup.hpp"

namespace meshdns::dnsd {

// Control thread.
class EndpointLookups final : public resolver::LookupBackend {
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
  resolver::CaresOptions cares_options() const;
  // Refuses addresses that no answer from outside may have, as the forwarder does.
  resolver::Answer checked(const std::string& host, resolver::Answer&& answer) const;
  std::unique_ptr<resolver::Lookup> start_forwarded(const std::string& host,
                                                    resolver::Family family,
                                                    resolver::LookupCallback callback);

  uv_loop_t* loop_;
  UpstreamConfig upstream_;
  DeniedAnswers denied_;
  std::unique_ptr<resolver::CaresBackend> cares_;
  Forwarder forwarder_;
};

}  // namespace meshdns::dnsd
