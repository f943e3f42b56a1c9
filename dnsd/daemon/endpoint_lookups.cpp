// SPDX-License-Identifier: Apache-2.0
#include "dnsd/daemon/endpoint_lookups.hpp"

#include <algorithm>
#include <utility>

#include "dnsd/daemon/upstream_servers.hpp"
#include "resolver/address_answer.hpp"
#include "wire/name_text.hpp"

namespace meshdns::dnsd {
namespace {

using resolver::Answer;
using resolver::Family;
using resolver::LookupCallback;

// A lookup through the forwarder, which knows no cancelling: its callback finds the lookup gone.
class ForwardedLookup final : public resolver::Lookup {
 public:
  explicit ForwardedLookup(LookupCallback callback)
      : callback_(std::make_shared<LookupCallback>(std::move(callback))) {}
  std::weak_ptr<LookupCallback> callback() const { return callback_; }

 private:
  std::shared_ptr<LookupCallback> callback_;
};

Answer answer_of(const Outcome& outcome, const std::string& host, Family family, Millis now) {
  Answer answer = resolver::read_address_answer(outcome.message->to_wire(now), host, family);
  if (answer.status == Answer::Status::Failed && outcome.message->has_ede())
    answer.error.append(" (").append(outcome.message->ede_text()).append(")");
  return answer;
}

}  // namespace

Result<std::unique_ptr<EndpointLookups>> EndpointLookups::open(
    uv_loop_t* loop, std::shared_ptr<ForwardShared> shared, const UpstreamConfig& upstream,
    const CacheConfig& cache) {
  std::unique_ptr<EndpointLookups> lookups(
      new EndpointLookups(loop, std::move(shared), upstream, cache));
  auto cares = resolver::CaresBackend::open(loop, lookups->cares_options());
  if (!cares) {
    lookups->close();
    return std::unexpected(cares.error());
  }
  lookups->cares_ = std::move(*cares);
  return lookups;
}

EndpointLookups::EndpointLookups(uv_loop_t* loop, std::shared_ptr<ForwardShared> shared,
                                 const UpstreamConfig& upstream, const CacheConfig& cache)
    : loop_(loop),
      upstream_(upstream),
      denied_(upstream),
      forwarder_(loop, std::move(shared), upstream, cache) {}

resolver::CaresOptions EndpointLookups::cares_options() const {
  return {[this](std::string_view host) { return plain_servers_for(upstream_, host); },
          upstream_.timeout};
}

void EndpointLookups::reconfigure(const UpstreamConfig& upstream, const CacheConfig& cache) {
  upstream_ = upstream;
  denied_ = DeniedAnswers(upstream);
  cares_->reconfigure(cares_options());
  forwarder_.reconfigure(upstream, cache);
}

std::unique_ptr<resolver::Lookup> EndpointLookups::start(const std::string& host, Family family,
                                                         LookupCallback callback) {
  const bool is_plain = !plain_servers_for(upstream_, host).empty();
  if (!is_plain) return start_forwarded(host, family, std::move(callback));
  return cares_->start(host, family, [this, host, callback = std::move(callback)](Answer&& answer) {
    callback(checked(host, std::move(answer)));
  });
}

Answer EndpointLookups::checked(const std::string& host, Answer&& answer) const {
  if (denied_.empty() || denied_.is_exempt(wire::wire_from_host(host))) return std::move(answer);
  const bool is_denied = std::ranges::any_of(answer.addresses, [&](const IpAddress& address) {
    return denied_.addresses().contains(address);
  });
  if (!is_denied) return std::move(answer);
  return {.status = Answer::Status::Failed,
          .error = "the answer has an address that upstream.deny_answers excludes"};
}

std::unique_ptr<resolver::Lookup> EndpointLookups::start_forwarded(const std::string& host,
                                                                   Family family,
                                                                   LookupCallback callback) {
  auto lookup = std::make_unique<ForwardedLookup>(std::move(callback));
  ForwardRequest request;
  request.question = {wire::wire_from_host(host),
                      family == Family::V4 ? wire::Type::A : wire::Type::Aaaa, wire::Class::In};
  forwarder_.resolve(std::move(request),
                     [this, host, family, waiting = lookup->callback()](const Outcome& outcome) {
                       // Its own copy: the lookup may be destroyed inside it.
                       if (const auto held = waiting.lock())
                         (*held)(answer_of(outcome, host, family, uv_now(loop_)));
                     });
  return lookup;
}

}  // namespace meshdns::dnsd
