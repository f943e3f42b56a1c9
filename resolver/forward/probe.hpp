// SPDX-License-Identifier: Apache-2.0
// A question of our own to an upstream: whether it lives, and whether it leads back to ourselves.
#pragma once

#include <memory>
#include <string_view>

#include "resolver/forward/upstream.hpp"

namespace meshdns::dnsd {

enum class ProbePurpose : std::uint8_t {
  Life,   // ". NS" without recursion: answered at once by whatever answers at all
  Speed,  // the same, to one that is up but was not asked lately
  Loop,   // "<label>.loop-check.meshdns.internal TXT": must not come back to us
};

class UpstreamGroups;

// The reactor's thread.  Notes its result in the upstream's state.
class Probe final : public Retirable, private ExchangeListener {
 public:
  static constexpr Millis kTimeout = 500;
  static constexpr Millis kTlsTimeout = 1'500;  // with the handshake

  // REQUIRES: reactor and groups outlive it.
  Probe(Reactor& reactor, UpstreamGroups& groups, std::shared_ptr<Upstream> upstream,
        ProbePurpose purpose);

  // False: it could not be sent, and is over.  After true, the groups end it later.
  bool start();

 private:
  ~Probe() override;
  void on_retire() override;

  void on_reply(Exchange& exchange, const wire::ResponseMessage& response) override;
  void on_fault(Exchange& exchange, ExchangeFault fault, const std::string& what) override;
  void on_progress(Exchange&) override {}
  void on_recovery() override;
  bool may_send() const override { return true; }
  void on_time();
  void lose(std::string_view reason);
  void put_off();

  Reactor& reactor_;
  UpstreamGroups& groups_;
  std::shared_ptr<Upstream> upstream_;
  ProbePurpose purpose_;
  UpstreamQuestion question_;
  Owned<Exchange> exchange_;
  Timer timer_;
};

// The label of the upstream that a loop check is about; empty for any other name (wire form).
std::string_view loop_label_of(std::string_view wire_name);

}  // namespace meshdns::dnsd
