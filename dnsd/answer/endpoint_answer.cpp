// SPDX-License-Identifier: Apache-2.0
#include "dnsd/answer/endpoint_answer.hpp"

#include <algorithm>
#include <array>
#include <bitset>
#include <optional>
#include <string>
#include <vector>

#include "dnsd/answer/answer.hpp"
#include "dnsd/answer/known_names.hpp"
#include "dnsd/answer/service_names.hpp"
#include "dnsd/answer/unreached.hpp"
#include "resolver/wire/name_text.hpp"

namespace meshdns::dnsd {

RotationTable::RotationTable(std::uint64_t seed) : state_(seed | 1), plain_(random()) {}

std::uint32_t RotationTable::random() {
  // xorshift64*: evenness is wanted here, not secrecy.
  state_ ^= state_ >> 12;
  state_ ^= state_ << 25;
  state_ ^= state_ >> 27;
  return static_cast<std::uint32_t>((state_ * 0x2545f4914f6cdd1dULL) >> 32);
}

std::uint64_t weighted_position(std::uint32_t turn, std::uint64_t total) {
  // Multiples of the golden ratio fill the circle more evenly than any other sequence: after n
  // turns every arc has its share to within a few turns.  A circle of 2^32 points, each met once.
  const std::uint32_t point = turn * 0x9e3779b9U;
  __extension__ using u128 = unsigned __int128;
  return static_cast<std::uint64_t>((static_cast<u128>(point) * total) >> 32);
}

std::size_t first_weighted_place(std::uint32_t turn, std::span<const std::uint32_t> weights) {
  std::uint64_t total = 0;
  for (const std::uint32_t weight : weights) total += weight;
  std::uint64_t position = weighted_position(turn, total);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (position < weights[i]) return i;
    position -= weights[i];
  }
  return weights.size() - 1;
}

std::size_t first_near_place(std::uint32_t turn, registry::Nearness nearness,
                             const registry::NearOrder& order, std::size_t size,
                             std::span<const std::uint32_t> weights) {
  const auto weight_of = [&](std::size_t place) -> std::uint64_t {
    if (order.nearness_of(place) != nearness) return 0;
    return weights.empty() ? 1 : weights[place];
  };
  std::uint64_t total = weights.empty() ? order.count(nearness) : 0;
  for (std::size_t i = 0; i < weights.size(); ++i) total += weight_of(i);
  if (total == 0) return 0;
  std::uint64_t position =
      weights.empty() ? first_place(turn, total) : weighted_position(turn, total);
  std::size_t last = 0;
  for (std::size_t i = 0; i < size; ++i) {
    const std::uint64_t weight = weight_of(i);
    if (position < weight) return i;
    position -= weight;
    if (order.nearness_of(i) == nearness) last = i;
  }
  return last;
}

namespace {

using registry::EndpointEntry;
using registry::EndpointList;
using registry::ServiceRecord;
using wire::MessageWriter;
using wire::Section;
using wire::Type;

// Endpoints by label, then by address.  Large lists have theirs ready.
class LabelledEndpoints {
 public:
  using Named = registry::EndpointIndex::Named;

  LabelledEndpoints(const AnswerContext& context, const EndpointList& list)
      : list_(list),
        made_(!list.index.is_made() ? registry::EndpointIndex(
                                          list.entries, context.view.settings().endpoint_pod_names)
                                    : registry::EndpointIndex()) {}

  const registry::EndpointIndex& index() const {
    return list_.index.is_made() ? list_.index : made_;
  }
  const EndpointEntry& entry(const Named& named) const { return list_.entries[named.entry]; }
  std::string_view label(const Named& named) const { return index().label(named); }
  // Returns the endpoints of one label that have addresses of that family; they are neighbours.
  std::span<const Named> of_family(std::span<const Named> named, bool v4) const {
    const auto is_before_v4 = [&](const Named& n) {
      return entry(n).address < IpAddress::v4({0, 0, 0, 0});
    };
    const auto is_v4 = [&](const Named& n) { return entry(n).address.is_v4(); };
    const auto first = std::ranges::partition_point(named, is_before_v4);
    const auto last = std::partition_point(first, named.end(), is_v4);
    if (v4) return {first, last};
    return last != named.end() ? std::span(last, named.end()) : std::span(named.begin(), first);
  }

 private:
  const EndpointList& list_;
  const registry::EndpointIndex made_;
};

// Addresses of endpoints that share one name, at most; and hosts that are looked at for an answer.
constexpr std::size_t kMaxShared = 1000;
constexpr std::size_t kMaxVisited = 2048;
constexpr std::size_t kMaxTargets = 1000;  // of SRV records
// Glue: a client that is given more targets looks up those that it uses.
constexpr std::size_t kMaxGluedTargets = 512;
constexpr std::size_t kMaxGlue = 512;  // addresses of one target

// The name that SRV targets are, or lie below.
std::string_view target_host(const Decision& decision) {
  const std::string_view host = decision.match.entry->host();
  return host.starts_with('*') ? decision.base : host;
}

// Numbers of ports, each once.
class PortSet {
 public:
  // False: it is there already.
  bool add(std::uint16_t port) {
    if (has_[port]) return false;
    has_[port] = true;
    added_.push_back(port);
    return true;
  }
  void clear() {
    for (const std::uint16_t port : added_) has_[port] = false;
    added_.clear();
  }
  std::span<const std::uint16_t> ports() const { return added_; }

 private:
  std::bitset<65536> has_;
  std::vector<std::uint16_t> added_;
};

// SRV records of one answer.  The weight of each is its share of 100.
class SrvWriter {
 public:
  SrvWriter(AnswerContext& context, const ServiceRecord& service, std::string_view host)
      : writer_(context.writer),
        owner_(context.owner),
        ttl_(context.view.ttl(service)),
        host_(host),
        wire_host_(wire::wire_from_host(host)) {}

  // More than fit, at least.
  std::size_t most() const { return writer_.room() / (kLeastSize + wire_host_.size()) + 1; }
  void share_among(std::size_t targets) {
    weight_ = static_cast<std::uint16_t>(std::max<std::size_t>(1, 100 / targets));
  }
  // False: it does not fit, and the answer says so.
  // `is_label`: `label` is one label, or none.  `priority`: clients try the lowest first (RFC
  // 2782).
  bool add(std::string_view label, bool is_label, std::uint16_t priority, std::uint16_t port,
           MessageWriter::NameRef* at) {
    const bool added = is_label
                           ? writer_.add_srv_below(Section::Answer, owner_, ttl_,
                                                   {priority, weight_, port}, label, wire_host_, at)
                           : writer_.add_srv(Section::Answer, owner_, ttl_, priority, weight_, port,
                                             name_.join(label, host_), at);
    if (!added) writer_.set_truncated();
    return added;
  }

 private:
  static constexpr std::size_t kLeastSize = 18;  // a pointer, the fixed fields and those of SRV

  MessageWriter& writer_;
  const MessageWriter::NameRef owner_;
  const std::uint32_t ttl_;
  const std::string_view host_;
  const std::string wire_host_;
  NameBuffer name_;
  std::uint16_t weight_ = 1;
};

// Glue: what does not fit is left out without TC, since nobody asked for it.
void add_service_glue(AnswerContext& context, const ServiceRecord& service,
                      MessageWriter::NameRef owner) {
  const registry::AddressView addresses = context.view.addresses(service);
  const std::uint32_t ttl = context.view.ttl(service);
  const registry::ClientIdentity& client = context.view.client().identity;
  for (const auto& address : addresses.v4)
    if (client.ipv4 && !context.writer.add_a(Section::Additional, owner, ttl, address)) return;
  for (const auto& address : addresses.v6)
    if (client.ipv6 && !context.writer.add_aaaa(Section::Additional, owner, ttl, address)) return;
}

void answer_service_ports(const ServicePorts& ports, const ServiceLabels& labels,
                          const Decision& decision, AnswerContext& context) {
  const ServiceRecord& service = *decision.match.service;
  PortSet set;
  ports.for_each_port(labels, [&](std::uint16_t port) { set.add(port); });
  const auto numbers = set.ports();
  if (numbers.empty()) return;
  SrvWriter writer(context, service, target_host(decision));
  writer.share_among(numbers.size());
  const std::size_t start =
      first_place(context.rotation.next(rotation_key(service, Type::Srv)), numbers.size());
  MessageWriter::NameRef at = 0;
  for (std::size_t i = 0; i < numbers.size(); ++i)
    if (!writer.add({}, true, 0, numbers[(start + i) % numbers.size()], &at)) break;
  if (at != 0) add_service_glue(context, service, at);
}

// The SRV records that lead to endpoints: no more of them are looked at than fit.
class EndpointPorts {
 public:
  EndpointPorts(const ServicePorts& ports, const ServiceLabels& labels, const Decision& decision,
                AnswerContext& context)
      : ports_(ports),
        labels_(labels),
        decision_(decision),
        context_(context),
        service_(*decision.match.service),
        endpoints_(context, *service_.endpoints()) {}

  void answer() {
    SrvWriter writer(context_, service_, target_host(decision_));
    choose(std::min(writer.most(), kMaxTargets));
    if (chosen_ == 0) return;
    writer.share_among(chosen_);
    for (Target& target : std::span(targets_).first(chosen_)) {
      const Named& named = *target.named;
      if (!writer.add(endpoints_.label(named), !named.has_dot, target.priority, target.port,
                      &target.at))
        break;
      ++written_;
    }
    if (written_ <= kMaxGluedTargets) add_glue();
  }

 private:
  using Named = LabelledEndpoints::Named;
  struct Target {
    const Named* named;
    std::uint16_t priority;
    std::uint16_t port;
    MessageWriter::NameRef at;  // once it is written
  };

  std::span<const Named> named() const {
    const bool one = labels_.kind == ServiceLabels::Kind::Endpoint;
    return one ? endpoints_.index().named(labels_.endpoint) : endpoints_.index().all();
  }

  // Labels in turn, begun at another one each time, each with its ports once.
  void choose(std::size_t most) {
    const std::span<const Named> all = named();
    if (all.empty()) return;
    const std::size_t turn =
        first_place(context_.rotation.next(rotation_key(service_, Type::Srv)), all.size());
    const auto group = endpoints_.index().named(endpoints_.label(all[turn]));
    const auto start = static_cast<std::size_t>(group.data() - all.data());
    const bool all_reached = are_all_reached(context_.view, endpoints_.index());
    const auto each_from_start = [&](const auto& is_wanted) {
      choose_among(all, start, most, [&](const Named& named) {
        return (all_reached || context_.view.reaches(endpoints_.entry(named))) && is_wanted(named);
      });
    };
    const registry::NearRule& rule = service_.endpoints()->near;
    if (!rule.is_active()) [[likely]]
      return each_from_start([](const Named&) { return true; });
    choose_by_nearness(rule, each_from_start);
  }
  // Near ones have a lower priority than far ones, which clients so try last.
  template <typename Choose>
  void choose_by_nearness(const registry::NearRule& rule, const Choose& choose_wanted) {
    const registry::Place& client = context_.view.client().place;
    const bool nearest_only = context_.view.settings().locality == registry::LocalityChoice::Only;
    for (std::size_t i = 0; i < registry::kNearnesses; ++i) {
      const std::size_t before = chosen_;
      choose_wanted([&](const Named& named) {
        const registry::EndpointPlace* const place = endpoints_.entry(named).place.get();
        return rule.nearness(place, client) == static_cast<registry::Nearness>(i);
      });
      if (chosen_ == before) continue;
      if (nearest_only) return;
      ++priority_;
    }
  }
  template <typename IsWanted>
  void choose_among(std::span<const Named> all, std::size_t start, std::size_t most,
                    const IsWanted& is_wanted) {
    if (chosen_ == most) return;
    const Named* last = nullptr;
    PortSet of_label;
    for (std::size_t i = 0; i < std::min(all.size(), kMaxVisited); ++i) {
      const std::size_t place = start + i < all.size() ? start + i : start + i - all.size();
      const Named& each = all[place];
      if (last == nullptr || !have_one_label(each, *last)) of_label.clear();
      last = &each;
      if (!is_wanted(each)) continue;
      for (const std::uint16_t port : wanted_ports(each.subset))
        if (chosen_ < most && of_label.add(port)) targets_[chosen_++] = {&each, priority_, port, 0};
      if (chosen_ == most) return;
    }
  }
  bool have_one_label(const Named& a, const Named& b) const {
    return a.hash == b.hash && endpoints_.label(a) == endpoints_.label(b);
  }
  // Most neighbours have the same subset.
  std::span<const std::uint16_t> wanted_ports(std::uint16_t subset) {
    if (wanted_subset_ != subset) {
      wanted_.clear();
      ports_.for_each_port(subset, labels_, [&](std::uint16_t port) { wanted_.push_back(port); });
      wanted_subset_ = subset;
    }
    return wanted_;
  }

  void add_glue() {
    std::string_view label;
    for (std::size_t i = 0; i < written_; ++i) {
      const Target& target = targets_[i];
      if (i > 0 && endpoints_.label(*target.named) == label) continue;
      label = endpoints_.label(*target.named);
      if (!add_glue(target)) return;
    }
  }
  // False: there is no room for more.
  bool add_glue(const Target& target) {
    const std::uint32_t ttl = context_.view.ttl(service_);
    const registry::ClientIdentity& client = context_.view.client().identity;
    const auto shared = endpoints_.index().has_shared_labels()
                            ? endpoints_.index().named(endpoints_.label(*target.named))
                            : std::span(target.named, 1);
    const IpAddress* last = nullptr;
    for (const Named& each : shared.first(std::min(shared.size(), kMaxGlue))) {
      const EndpointEntry& entry = endpoints_.entry(each);
      if (!context_.view.reaches(entry) || (last != nullptr && *last == entry.address)) continue;
      if (!(entry.address.is_v4() ? client.ipv4 : client.ipv6)) continue;
      if (!context_.writer.add_address(Section::Additional, target.at, ttl, entry.address))
        return false;
      last = &entry.address;
    }
    return true;
  }

  const ServicePorts& ports_;
  const ServiceLabels& labels_;
  const Decision& decision_;
  AnswerContext& context_;
  const ServiceRecord& service_;
  const LabelledEndpoints endpoints_;
  std::vector<std::uint16_t> wanted_;
  std::optional<std::uint16_t> wanted_subset_;
  std::uint16_t priority_ = 0;  // of the targets that are chosen
  std::size_t chosen_ = 0;
  std::size_t written_ = 0;
  // Not in the heap: so much memory would go back to the system after each answer.
  std::array<Target, kMaxTargets> targets_;
};

}  // namespace

// Each address once: two slices may list one.  Neighbours are equal; the first is met again at the
// end when the walk began amid those that are like it.
void answer_endpoint(const Decision& decision, AnswerContext& context) {
  const ServiceRecord& service = *decision.match.service;
  const ServiceLabels labels = read_service_labels(decision.below, service);
  const std::uint32_t ttl = context.view.ttl(service);
  const LabelledEndpoints endpoints(context, *service.endpoints());
  const auto named =
      endpoints.of_family(endpoints.index().named(labels.endpoint), context.type == Type::A);
  const bool is_reached = std::ranges::any_of(named, [&](const LabelledEndpoints::Named& each) {
    return context.view.reaches(endpoints.entry(each));
  });
  if (!is_reached) return answer_gateways(service, labels, context);
  const std::size_t start =
      first_place(context.rotation.next(hash_bytes(context.name)), named.size());
  const IpAddress* first = nullptr;
  const IpAddress* last = nullptr;
  for (std::size_t i = 0; i < std::min(named.size(), kMaxShared); ++i) {
    const EndpointEntry& endpoint = endpoints.entry(named[(start + i) % named.size()]);
    if (!context.view.reaches(endpoint)) continue;
    if (last != nullptr && (endpoint.address == *last || endpoint.address == *first)) continue;
    if (!context.writer.add_address(Section::Answer, context.owner, ttl, endpoint.address))
      return context.writer.set_truncated();
    last = &endpoint.address;
    if (first == nullptr) first = last;
  }
}

void answer_ports(const Decision& decision, AnswerContext& context) {
  const ServiceRecord& service = *decision.match.service;
  const ServicePorts ports(context.view, service);
  const ServiceLabels labels = read_service_labels(decision.below, service);
  if (labels.kind != ServiceLabels::Kind::Endpoint && !ports.are_per_endpoint())
    return answer_service_ports(ports, labels, decision, context);
  if (service.endpoints() != nullptr) EndpointPorts(ports, labels, decision, context).answer();
}

}  // namespace meshdns::dnsd
