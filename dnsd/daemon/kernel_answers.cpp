// SPDX-License-Identifier: Apache-2.0
#include "dnsd/daemon/kernel_answers.hpp"

#include <arpa/inet.h>
#include <sys/random.h>
#include <uv.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "dnsd/mesh/configured_sources.hpp"
#include "registry/base/host_name.hpp"
#include "resolver/wire/octets.hpp"
#include "resolver/wire/types.hpp"

namespace meshdns::dnsd {
namespace {

constexpr std::uint16_t kRecursionDesired = 0x0100;

std::uint16_t in_host_order(__be16 value) {
  return wire::load_u16(reinterpret_cast<const std::uint8_t*>(&value));
}

IpAddress address_of(const meshdns_address& address) {
  IpAddress::Octets octets;
  std::ranges::copy(address.octets, octets.begin());
  return IpAddress::v6(octets);  // IPv4-mapped ones are IPv4
}

// The name in lower-case text without the final dot: the program answers no other names.
std::string text_of(std::string_view wire_name) {
  std::string text;
  for (std::size_t at = 0; at < wire_name.size() && wire_name[at] != 0;) {
    const auto length = static_cast<unsigned char>(wire_name[at]);
    if (!text.empty()) text += '.';
    for (const char c : wire_name.substr(at + 1, length)) text += to_lower(c);
    at += length + std::size_t{1};
  }
  return text;
}

}  // namespace

KernelSamples::KernelSamples() : top_(uv_hrtime(), reinterpret_cast<std::uintptr_t>(this)) {}

void KernelSamples::note(const meshdns_sample& sample, const registry::Snapshot& snapshot) {
  const std::string_view name(reinterpret_cast<const char*>(sample.name),
                              std::min<std::size_t>(sample.name_size, MESHDNS_MAX_NAME));
  const Peer from{address_of(sample.client), in_host_order(sample.client_port),
                  address_of(sample.server), false};
  const registry::Client* const client = snapshot.client_at(from.address);
  const std::string_view ns =
      client != nullptr && client->ns ? client->ns->text() : std::string_view();
  top_.note_sampled_query(text_of(name), from.address, ns, std::max(sample.every, 1U),
                          sample.time_ns);
  if (!log_) return;
  const bool has_edns = (sample.question_flags & MESHDNS_HAS_OPT) != 0;
  log_->on_answer(
      {.client = from,
       .id = in_host_order(sample.id),
       .identity =
           client == nullptr ? std::string_view() : std::string_view(client->identity.description),
       .qname = name,
       .qtype = static_cast<wire::Type>(in_host_order(sample.type)),
       .qclass = wire::Class::In,
       .recursion_desired = (in_host_order(sample.query_flags) & kRecursionDesired) != 0,
       .has_edns = has_edns,
       .dnssec_ok = (sample.question_flags & MESHDNS_DNSSEC_OK) != 0,
       .udp_payload = sample.payload,
       .query_size = sample.query_size,
       .rcode = static_cast<wire::Rcode>(sample.rcode),
       .authoritative = true,  // the registry's
       .truncated = false,
       .empty = sample.answers == 0,
       .reply_size = sample.reply_size,
       .source = AnswerSource::Kernel,
       .upstream = {},
       .duration_ns = 0,
       .reply = {}});
}

namespace {

// A quarter of the time after which the program answers nothing.
constexpr std::chrono::milliseconds kHeartbeat{MESHDNS_HEARTBEAT_LIMIT_NS / 4 / 1'000'000};

// The ring has room for the samples of so long at 50,000 a second.
constexpr std::chrono::milliseconds kReading{100};
// They keep the control thread for about 10 ms.
constexpr std::size_t kSamplesAtATime = 10'000;

// So few octets are there at once, but for an interrupt.
template <typename T>
T random_value() {
  T value{};
  while (getrandom(&value, sizeof value, 0) != static_cast<ssize_t>(sizeof value)) {
  }
  return value;
}

meshdns_endpoint endpoint_in_maps(const SocketAddress& address) {
  meshdns_endpoint endpoint{};
  endpoint.address = address_in_maps(address.ip);
  endpoint.port = htons(address.port);
  return endpoint;
}

}  // namespace

bool KernelAnswers::is_wanted() const {
  return config_.server.kernel_answers != KernelAnswersMode::Off;
}

std::string KernelAnswers::obstacle() const {
  if (!is_wanted()) return {};
  if (config_.log.dnstap) return "log.dnstap is set, and wants each response";
  return {};
}

void KernelAnswers::tick(const std::vector<SocketAddress>& addresses) {
  if (loop_ == nullptr) return;
  const std::string in_the_way = obstacle();
  const bool is_usable = is_wanted() && in_the_way.empty();
  if (feed_ && (!is_usable || !maps_->are_current() || !feed_->is_owner())) close();
  if (!is_usable) return say(in_the_way);
  if (!feed_) open();
  if (!feed_) return;
  serve(addresses);
  count();
}

void KernelAnswers::open() {
  auto maps = KernelMaps::open(config_.server.kernel_maps);
  if (!maps) return say(maps.error().message);
  if (KernelFeed::is_in_use(**maps)) return say("another daemon uses the maps");
  maps_ = *std::move(maps);
  counted_ = maps_->counters();
  served_.clear();
  // Removes the addresses of another daemon.
  meshdns_endpoint endpoint{};
  while (maps_->served().next_key(nullptr, &endpoint)) maps_->served().erase(endpoint);
  if (!samples_) {
    samples_ = std::make_unique<KernelSamples>();
    workers_.count_also(counts_, samples_->top());
  }
  samples_->set_log(query_log_);
  begin_feed();
  heartbeat_.open(loop_, [this] { feed_->beat(); });
  heartbeat_.repeat(kHeartbeat);
  reading_.open(loop_, [this] { read_samples(); });
  reading_.repeat(kReading);
  log_.info("answering in the kernel", {{"maps", std::string_view(config_.server.kernel_maps)}});
}

void KernelAnswers::begin_feed() {
  feed_ = std::make_shared<KernelFeed>(maps_, random_value<AnswerSlots::Key>(),
                                       random_value<std::uint64_t>() | 1);
  feed_->set_price(RateAccounts::price_us(config_.server.rate_limit.responses_per_second));
  registry_.set_before_publish([this](const registry::Changes& changes) {
    feed_->slots().begin_change(changes, registry_.current()->settings->cluster_domain);
  });
  workers_.feed_kernel(feed_);
  maps_->control().sample_every = samples_->every();
  feed_->beat();
}

void KernelAnswers::log_queries(std::shared_ptr<QueryLog> log) {
  query_log_ = std::move(log);
  if (!maps_) return;
  samples_->set_log(query_log_);
  maps_->control().sample_every = samples_->every();
}

void KernelAnswers::read_samples() {
  const registry::Snapshot& snapshot = *registry_.current();
  maps_->samples().take(kSamplesAtATime,
                        [&](const meshdns_sample& sample) { samples_->note(sample, snapshot); });
}

void KernelAnswers::on_published() {
  if (feed_) feed_->slots().end_change();
}

// The next feed reaches each worker behind the settings.
void KernelAnswers::on_settings() {
  if (!feed_) return;
  feed_->retire();
  begin_feed();
}

void KernelAnswers::close() {
  if (!feed_) return;
  heartbeat_.close();
  reading_.close();
  read_samples();
  count();
  registry_.set_before_publish(nullptr);
  feed_->retire();
  feed_.reset();
  maps_.reset();
  workers_.feed_kernel(nullptr);
}

void KernelAnswers::stop() {
  close();
  loop_ = nullptr;
}

// The program answers at single addresses only: behind a wildcard it cannot tell which packets are
// this host's.
void KernelAnswers::serve(const std::vector<SocketAddress>& addresses) {
  if (addresses == served_) return;
  const BpfMap& map = maps_->served();
  std::vector<SocketAddress> left_out;
  for (const SocketAddress& address : served_)
    if (std::ranges::find(addresses, address) == addresses.end())
      map.erase(endpoint_in_maps(address));
  for (const SocketAddress& address : addresses)
    if (address.ip.is_unspecified() || !map.put(endpoint_in_maps(address), std::uint8_t{1}))
      left_out.push_back(address);
  served_ = addresses;
  say(left_out.empty() ? std::string()
                       : "not at " + joined(left_out) + ": name single addresses in server.listen");
}

void KernelAnswers::count() {
  const std::vector<std::uint64_t> now = maps_->counters();
  constexpr std::array kTypes = {wire::Type::A, wire::Type::Aaaa, wire::Type{0}};
  const auto since = [&](std::size_t index) { return now[index] - counted_[index]; };
  for (std::size_t type = 0; type < kTypes.size(); ++type)
    for (const bool is_v6 : {false, true}) {
      const std::uint64_t count =
          since((is_v6 ? MESHDNS_ANSWERED_IPV6 : MESHDNS_ANSWERED_IPV4) + type);
      counters_.requests[0][is_v6][QueryCounters::type_slot(kTypes[type])].add(count);
      counters_.responses[0][static_cast<std::size_t>(AnswerSource::Kernel)].add(count);
    }
  counters_.do_requests.add(since(MESHDNS_ANSWERED_DO));
  counted_ = now;
}

void KernelAnswers::say(std::string trouble) {
  if (trouble == trouble_) return;
  trouble_ = std::move(trouble);
  if (trouble_.empty()) return;
  const bool is_asked_for = config_.server.kernel_answers == KernelAnswersMode::On;
  log_.write(is_asked_for ? LogLevel::Warn : LogLevel::Info, "not answering in the kernel",
             {{"reason", std::string_view(trouble_)}});
}

KernelAnswersStatus KernelAnswers::status() const {
  return {feed_.get(), feed_ ? maps_->counters() : std::vector<std::uint64_t>()};
}

}  // namespace meshdns::dnsd
