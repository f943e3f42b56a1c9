// SPDX-License-Identifier: Apache-2.0
#include "dnsd/daemon/endpoint_lookups.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "dnsd/daemon/upstream_servers.hpp"
#include "resolver/address_answer.hpp"
#include "wire/name_text.hpp"
#include "wire/octets.hpp"

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

wire::Type type_of(Family family) {
  return family == Family::V4 ? wire::Type::A : wire::Type::Aaaa;
}

Answer answer_of(const Outcome& outcome, const std::string& host, Family family, Millis now) {
  std::vector<std::uint8_t> message = outcome.message->to_wire(now);
  // The cache keeps one name error for all types, with the type that was asked first.
  wire::store_u16(message.data() + wire::kHeaderSize + outcome.message->name().size(),
                  static_cast<std::uint16_t>(type_of(family)));
  Answer answer = resolver::read_address_answer(message, host, family);
  if (answer.status == Answer::Status::Failed && outcome.message->has_ede())
    answer.error.append(" (").append(outcome.message->ede_text()).append(")");
  return answer;
}

Millis millis_of(resolver::TimePoint now) {
  return static_cast<Millis>(
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count());
}

}  // namespace

UpstreamCookies& EndpointCookies::of(const std::string& server) {
  return by_server_.try_emplace(server, random_).first->second;
}

EndpointCookies::Verdict EndpointCookies::judge(const std::string& server, std::string_view option,
                                                resolver::TimePoint now) {
  UpstreamCookies& cookies = of(server);
  switch (cookies.judge(option, millis_of(now))) {
    case UpstreamCookies::Verdict::Ours:
      cookies.learn(option);
      return Verdict::Believed;
    case UpstreamCookies::Verdict::Foreign:
      return Verdict::Foreign;
    case UpstreamCookies::Verdict::Missing:
      return Verdict::Missing;
    case UpstreamCookies::Verdict::Absent:
      return Verdict::Believed;
  }
  return Verdict::Believed;
}

void EndpointCookies::note_stream_reply(const std::string& server, std::string_view option,
                                        resolver::TimePoint now) {
  of(server).note_stream_reply(option, millis_of(now));
}

void EndpointCookies::note_stream_failure(const std::string& server, resolver::TimePoint now) {
  of(server).note_stream_failure(millis_of(now));
}

Result<std::unique_ptr<EndpointLookups>> EndpointLookups::open(
    uv_loop_t* loop, std::shared_ptr<ForwardShared> shared, const UpstreamConfig& upstream,
    const CacheConfig& cache) {
  std::unique_ptr<EndpointLookups> lookups(
      new EndpointLookups(loop, std::move(shared), upstream, cache));
  auto cares = resolver::CaresLookups::open(loop, lookups->cares_options());
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

resolver::CaresOptions EndpointLookups::cares_options() {
  return {[this](std::string_view host) { return plain_servers_for(upstream_, host); },
          upstream_.timeout, &cookies_};
}

void EndpointLookups::reconfigure(const UpstreamConfig& upstream, const CacheConfig& cache) {
  upstream_ = upstream;
  denied_ = DeniedAnswers(upstream);
  cookies_.clear();
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
  request.question = {wire::wire_from_host(host), type_of(family), wire::Class::In};
  forwarder_.resolve(std::move(request),
                     [this, host, family, waiting = lookup->callback()](const Outcome& outcome) {
                       // Its own copy: the lookup may be destroyed inside it.
                       if (const auto held = waiting.lock())
                         (*held)(answer_of(outcome, host, family, uv_now(loop_)));
                     });
  return lookup;
}

}  // namespace meshdns::dnsd
