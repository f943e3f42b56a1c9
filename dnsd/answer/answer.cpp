// SPDX-License-Identifier: Apache-2.0
#include "dnsd/answer/answer.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <string>
#include <vector>

#include "dnsd/answer/endpoint_answer.hpp"
#include "dnsd/answer/known_names.hpp"
#include "dnsd/answer/local_names.hpp"
#include "dnsd/answer/unreached.hpp"
#include "registry/base/host_name.hpp"
#include "resolver/wire/octets.hpp"

namespace meshdns::dnsd {
namespace {

using registry::ServiceRecord;
using wire::MessageWriter;
using wire::Section;
using wire::Type;

// docs/semantics-kubernetes.md, "Every answer".
constexpr std::uint32_t kRefresh = 7200;
constexpr std::uint32_t kRetry = 1800;
constexpr std::uint32_t kExpire = 86400;
constexpr std::uint32_t kMaxSoaTtl = 300;
constexpr std::uint32_t kVersionTtl = 28800;
constexpr std::uint32_t kMinimalTtl = 8482;
constexpr std::string_view kSchemaVersion = "1.1.0";
constexpr std::string_view kClusterSetSchemaVersion = "1.0.0";

// --- SOA -----------------------------------------------------------------------------------------

// Record data in the making.  REQUIRES: what is put fits.
class Rdata {
 public:
  void put_label(std::string_view label) {
    octets_[size_++] = static_cast<std::uint8_t>(label.size());
    std::memcpy(octets_.data() + size_, label.data(), label.size());
    size_ += label.size();
  }
  void put_name(std::string_view name) {
    for (std::size_t dot = 0; dot != std::string_view::npos;) {
      dot = name.find('.');
      put_label(name.substr(0, dot));
      if (dot != std::string_view::npos) name.remove_prefix(dot + 1);
    }
    octets_[size_++] = 0;
  }
  void put_pointer(std::size_t offset) {
    wire::store_u16(octets_.data() + size_, static_cast<std::uint16_t>(0xc000u | offset));
    size_ += 2;
  }
  void put_u32(std::uint32_t value) {
    wire::store_u32(octets_.data() + size_, value);
    size_ += 4;
  }
  std::size_t size() const { return size_; }
  std::span<const std::uint8_t> octets() const { return {octets_.data(), size_}; }

 private:
  std::array<std::uint8_t, wire::kMaxNameLength + 64> octets_;
  std::size_t size_ = 0;
};

void put_soa_numbers(Rdata& rdata, std::uint32_t serial, std::uint32_t minimum) {
  for (const std::uint32_t number : {serial, kRefresh, kRetry, kExpire, minimum})
    rdata.put_u32(number);
}

// The usual case, without a search for names to compress against: the zone is the end of the
// question, or the name stands for itself and the server's names are written out once.
void write_soa_at_question(AnswerContext& context, std::string_view zone, Section section) {
  MessageWriter& writer = context.writer;
  const registry::View& view = context.view;
  MessageWriter::NameRef owner = context.owner;
  Rdata rdata;
  rdata.put_label("ns");
  rdata.put_label("dns");
  std::size_t zone_at = 0;
  if (zone.empty()) {
    // Two octets of owner, ten of type, class, TTL and length, then the record's data.
    zone_at = writer.size() + 12 + rdata.size();
    rdata.put_name(view.settings().cluster_domain);
  } else {
    zone_at = wire::kHeaderSize + context.question_size - (zone.size() + 2);
    owner = static_cast<MessageWriter::NameRef>(zone_at);
    rdata.put_pointer(zone_at);
  }
  rdata.put_label("hostmaster");
  rdata.put_pointer(zone_at);
  const std::uint32_t ttl = negative_ttl(view);
  put_soa_numbers(rdata, view.snapshot().serial, ttl);
  writer.add_record(section, owner, Type::Soa, wire::Class::In, std::min(ttl, kMaxSoaTtl),
                    rdata.octets());
}

// Behind an alias, where names lie anywhere.
void write_soa_by_name(AnswerContext& context, std::string_view zone, Section section) {
  NameBuffer mname;
  NameBuffer rname;
  const registry::View& view = context.view;
  const std::string_view server = zone.empty() ? view.settings().cluster_domain : zone;
  const std::uint32_t ttl = negative_ttl(view);
  context.writer.add_soa(section, zone.empty() ? context.name : zone, std::min(ttl, kMaxSoaTtl),
                         mname.join("ns.dns", server), rname.join("hostmaster", server),
                         view.snapshot().serial, kRefresh, kRetry, kExpire, ttl);
}

// RFC 6303, section 3.  The TTL is ours: an address that becomes known has a name at once.
void write_soa_of_empty_zone(AnswerContext& context, std::string_view zone, Section section) {
  const std::uint32_t ttl = negative_ttl(context.view);
  context.writer.add_soa(section, zone, std::min(ttl, kMaxSoaTtl), zone, "nobody.invalid", 1, 3600,
                         1200, 604800, ttl);
}

// --- addresses -----------------------------------------------------------------------------------

template <std::size_t N>
bool add_address(MessageWriter& writer, MessageWriter::NameRef owner, std::uint32_t ttl,
                 const std::array<std::uint8_t, N>& address) {
  if constexpr (N == 4)
    return writer.add_a(Section::Answer, owner, ttl, address);
  else
    return writer.add_aaaa(Section::Answer, owner, ttl, address);
}

template <std::size_t N>
void add_rotated(AnswerContext& context, std::uint32_t ttl, std::uint64_t key,
                 std::span<const std::array<std::uint8_t, N>> addresses,
                 std::span<const std::uint32_t> weights) {
  std::size_t first = 0;
  if (addresses.size() > 1) {
    const std::uint32_t turn = context.rotation.next(key);
    first =
        weights.empty() ? first_place(turn, addresses.size()) : first_weighted_place(turn, weights);
  }
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    const std::size_t place =
        first + i < addresses.size() ? first + i : first + i - addresses.size();
    if (!add_address(context.writer, context.owner, ttl, addresses[place]))
      return context.writer.set_truncated();
  }
}

template <std::size_t N>
void add_by_nearness(AnswerContext& context, std::uint32_t ttl, std::uint64_t key,
                     std::span<const std::array<std::uint8_t, N>> addresses,
                     std::span<const std::uint32_t> weights,
                     const registry::AddressPlaces& places) {
  const registry::NearOrder order(places, N == 4 ? places.v4 : places.v6,
                                  context.view.client().place);
  const bool nearest_only = context.view.settings().locality == registry::LocalityChoice::Only;
  const auto next_turn = [&](registry::Nearness nearness) {
    return context.rotation.next(key ^ (static_cast<std::uint64_t>(nearness) + 1) << 48);
  };
  for_each_by_nearness(order, addresses.size(), weights, nearest_only, next_turn,
                       [&](std::size_t place) {
                         if (add_address(context.writer, context.owner, ttl, addresses[place]))
                           return true;
                         context.writer.set_truncated();
                         return false;
                       });
}

void answer_addresses(const Decision& decision, AnswerContext& context) {
  const ServiceRecord& service = *decision.match.service;
  const registry::AddressView addresses = context.view.addresses(service);
  const std::uint32_t ttl = context.view.ttl(service);
  const std::uint64_t key = rotation_key(service, context.type);
  if (const registry::AddressPlaces* const places = addresses.places; places != nullptr)
      [[unlikely]] {
    if (context.type == Type::A)
      add_by_nearness<4>(context, ttl, key, addresses.v4, addresses.v4_weights, *places);
    else
      add_by_nearness<16>(context, ttl, key, addresses.v6, addresses.v6_weights, *places);
    return;
  }
  if (context.type == Type::A)
    add_rotated<4>(context, ttl, key, addresses.v4, addresses.v4_weights);
  else
    add_rotated<16>(context, ttl, key, addresses.v6, addresses.v6_weights);
}

void answer_address(const Decision& decision, AnswerContext& context) {
  if (!context.writer.add_address(Section::Answer, context.owner,
                                  context.view.settings().ttl.kubernetes, decision.address))
    context.writer.set_truncated();
}

// --- everything else -----------------------------------------------------------------------------

void answer_pointers(const Decision& decision, AnswerContext& context) {
  const auto names = context.view.reverse(decision.address);
  // All names that were looked at are hidden from this client.
  if (names.empty()) return write_soa(context, decision.zone, Section::Authority);
  for (const auto& reverse : names)
    if (!context.writer.add_name_record(Section::Answer, context.owner, Type::Ptr,
                                        context.view.ttl(*reverse.service), reverse.name))
      return context.writer.set_truncated();
}

void answer_local_addresses(const Decision& decision, AnswerContext& context) {
  std::vector<IpAddress> addresses;
  for (const IpAddress& address : decision.local->addresses)
    if (address.is_v4() == (context.type == Type::A)) addresses.push_back(address);
  const std::uint64_t key = reinterpret_cast<std::uintptr_t>(decision.local);
  const std::size_t first = first_place(context.rotation.next(key), addresses.size());
  std::ranges::rotate(addresses, addresses.begin() + static_cast<std::ptrdiff_t>(first));
  for (const IpAddress& address : addresses)
    if (!context.writer.add_address(Section::Answer, context.owner,
                                    context.view.settings().ttl.endpoint, address))
      return context.writer.set_truncated();
}

void answer_local_pointers(const Decision& decision, AnswerContext& context) {
  for (const std::string& name : decision.local->names)
    if (!context.writer.add_name_record(Section::Answer, context.owner, Type::Ptr,
                                        context.view.settings().ttl.endpoint, name))
      return context.writer.set_truncated();
}

void answer_denied(const Decision& decision, AnswerContext& context) {
  context.writer.set_rcode(wire::Rcode::NxDomain);
  write_soa(context, decision.zone, Section::Authority);
  context.writer.set_extended_error(wire::Ede::Blocked, decision.why);
}

void answer_refused(const Decision& decision, AnswerContext& context) {
  context.writer.set_rcode(wire::Rcode::Refused);
  context.writer.set_extended_error(wire::Ede::Blocked, decision.why);
}

void answer_version(const Decision& decision, AnswerContext& context) {
  const std::string_view& version =
      decision.zone == registry::kClusterSetDomain ? kClusterSetSchemaVersion : kSchemaVersion;
  if (!context.writer.add_txt(Section::Answer, context.owner, kVersionTtl, {&version, 1}))
    context.writer.set_truncated();
}

void answer_server_addresses(AnswerContext& context, MessageWriter::NameRef owner,
                             Section section) {
  for (const IpAddress& address : context.server_addresses) {
    const bool asked = address.is_v4() ? context.type == Type::A : context.type == Type::Aaaa;
    if (asked || section == Section::Additional)
      context.writer.add_address(section, owner, context.view.settings().ttl.kubernetes, address);
  }
}

void answer_ns(const Decision& decision, AnswerContext& context) {
  NameBuffer name;
  MessageWriter::NameRef at = 0;
  const std::string_view server =
      decision.is_empty_zone ? decision.zone : name.join("ns.dns", decision.zone);
  if (!context.writer.add_name_record(Section::Answer, context.owner, Type::Ns,
                                      context.view.settings().ttl.kubernetes, server, &at))
    return context.writer.set_truncated();
  if (!decision.is_empty_zone) answer_server_addresses(context, at, Section::Additional);
}

void answer_minimal(AnswerContext& context) {
  static constexpr std::string_view rdata =
      "\x0d"
      "ANY obsoleted"
      "\x0c"
      "See RFC 8482";
  const std::span octets(reinterpret_cast<const std::uint8_t*>(rdata.data()), rdata.size());
  context.writer.add_record(Section::Answer, context.owner, Type::Hinfo, wire::Class::In,
                            kMinimalTtl, octets);
}

void answer_nodata(const Decision& decision, AnswerContext& context) {
  write_soa(context, decision.zone, Section::Authority);
  if (decision.is_empty_zone) context.writer.set_extended_error(wire::Ede::Other, decision.why);
  if (decision.registry_only == RegistryOnlyEffect::Refused)
    context.writer.set_extended_error(wire::Ede::Blocked, decision.why);
  if (decision.is_unreached)
    context.writer.set_extended_error(wire::Ede::Other, why_of(context.view, decision));
  else if (decision.match.service != nullptr && has_unresolved_names(*decision.match.service))
    context.writer.set_extended_error(wire::Ede::Other, decision.why);
}

void answer_failure(wire::Ede code, std::string_view why, AnswerContext& context) {
  context.writer.set_rcode(wire::Rcode::ServFail);
  context.writer.set_extended_error(code, why);
}

}  // namespace

std::uint32_t negative_ttl(const registry::View& view) { return view.settings().ttl.negative; }

void write_soa(AnswerContext& context, std::string_view zone, Section section) {
  if (context.is_empty_zone) return write_soa_of_empty_zone(context, zone, section);
  if (context.owner == MessageWriter::kQuestionName)
    write_soa_at_question(context, zone, section);
  else
    write_soa_by_name(context, zone, section);
}

void answer_nxdomain(const Decision& decision, AnswerContext& context) {
  context.writer.set_rcode(wire::Rcode::NxDomain);
  write_soa(context, decision.zone, Section::Authority);
  // The name is known and denied all the same: say why.
  if (decision.is_unreached)
    context.writer.set_extended_error(wire::Ede::Other, why_of(context.view, decision));
  else if (decision.match || decision.is_empty_zone)
    context.writer.set_extended_error(wire::Ede::Other, decision.why);
}

void write_answer(const Decision& decision, AnswerContext& context) {
  context.is_empty_zone = decision.is_empty_zone;
  switch (decision.verdict) {
    case Verdict::Addresses:
      return answer_addresses(decision, context);
    case Verdict::Address:
      return answer_address(decision, context);
    case Verdict::EndpointAddresses:
      return answer_endpoint(decision, context);
    case Verdict::Ports:
      return answer_ports(decision, context);
    case Verdict::Pointers:
      return answer_pointers(decision, context);
    case Verdict::Version:
      return answer_version(decision, context);
    case Verdict::ZoneSoa:
      return write_soa(context, decision.zone, Section::Answer);
    case Verdict::ZoneNs:
      return answer_ns(decision, context);
    case Verdict::ServerAddresses:
      return answer_server_addresses(context, context.owner, Section::Answer);
    case Verdict::Minimal:
      return answer_minimal(context);
    case Verdict::NoData:
      return answer_nodata(decision, context);
    case Verdict::NxDomain:
      return answer_nxdomain(decision, context);
    case Verdict::AliasItself:
      return;
    case Verdict::LocalAddresses:
      return answer_local_addresses(decision, context);
    case Verdict::LocalPointers:
      return answer_local_pointers(decision, context);
    case Verdict::Denied:
      return answer_denied(decision, context);
    case Verdict::Refused:
      return answer_refused(decision, context);
    case Verdict::AliasLoop:
    case Verdict::Overworked:
      return answer_failure(wire::Ede::Other, decision.why, context);
    case Verdict::Unresolvable:
      return answer_failure(wire::Ede::NoReachableAuthority, decision.why, context);
    case Verdict::NotReady:
      return answer_failure(wire::Ede::NotReady, decision.why, context);
    case Verdict::Alias:
    case Verdict::SearchAlias:
    case Verdict::Forward:
    case Verdict::Wait:
      break;
  }
  assert(false && "no answer of its own");
}

}  // namespace meshdns::dnsd
