#include "dnsd/query/forwarded_answer.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "dnsd/query/dns64.hpp"
#include "dnsd/wire/name_text.hpp"
#include "registry/base/host_name.hpp"

namespace meshdns::dnsd {
namespace {

using wire::MessageWriter;
using wire::ResponseRecord;
using wire::Section;

std::span<const std::uint8_t> octets_of(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

// How many links of the message's chain lead to a name that we answer; 0 = none does.
std::size_t links_to_registry(const registry::View& view, Asked asked,
                              const std::vector<std::string>& targets) {
  asked.is_target = true;
  asked.has_odd_labels = false;
  std::string host;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    if (!wire::host_from_wire(targets[i], host)) continue;
    asked.name = host;
    if (decide(view, asked).verdict != Verdict::Forward) return i + 1;
  }
  return 0;
}

// Gives owners as offsets: the chain's last name, then the targets of the message's own aliases.
class OwnerFinder {
 public:
  explicit OwnerFinder(MessageWriter::NameRef first) : current_(first) {}
  // Adds the record under the name that it belongs to.
  bool add(const ResponseRecord& record, MessageWriter& writer) {
    if (first_owner_.empty()) current_name_ = first_owner_ = record.owner;
    const bool known = equals_ignoring_case(record.owner, current_name_);
    if (!known) return add_by_text(record, writer);
    if (!writer.add_record(Section::Answer, current_, record.type, record.rclass, record.ttl,
                           octets_of(record.rdata)))
      return false;
    if (record.type == wire::Type::Cname) {
      current_ = static_cast<MessageWriter::NameRef>(writer.size() - record.rdata.size());
      current_name_ = record.rdata;
    }
    return true;
  }

 private:
  // The owner of a DNAME, say.  A name that text cannot say is left out.
  static bool add_by_text(const ResponseRecord& record, MessageWriter& writer) {
    std::string host;
    if (!wire::host_from_wire(record.owner, host)) return true;
    return writer.add_record(Section::Answer, host, record.type, record.rclass, record.ttl,
                             octets_of(record.rdata));
  }
  std::string first_owner_;
  std::string current_name_;
  MessageWriter::NameRef current_;
};

// The addresses at the end, begun at another one each time.
void rotate_addresses(std::vector<ResponseRecord>& records, std::uint32_t rotation) {
  const auto is_address = [](const ResponseRecord& r) {
    return r.type == wire::Type::A || r.type == wire::Type::Aaaa;
  };
  const auto begin = std::ranges::find_if(records, is_address);
  const auto end = std::find_if_not(begin, records.end(), is_address);
  const auto count = static_cast<std::uint32_t>(end - begin);
  if (count > 1) std::rotate(begin, begin + rotation % count, end);
}

void write_authority(const wire::ResponseMessage& message, MessageWriter& writer) {
  std::string host;
  for (const ResponseRecord& record : message.authority) {
    if (!wire::host_from_wire(record.owner, host)) continue;
    writer.add_record(Section::Authority, host, record.type, record.rclass, record.ttl,
                      octets_of(record.rdata));
  }
}

}  // namespace

Reentry reenter_registry(const registry::View& view, const Asked& asked,
                         const CachedMessage& message, Freshness freshness, Millis now,
                         AliasChain& chain) {
  const std::size_t links = links_to_registry(view, asked, message.alias_targets());
  if (links == 0) return Reentry::None;
  std::size_t added = 0;
  std::string host;
  for (const ResponseRecord& record : message.expand(now, freshness).answer) {
    if (record.type != wire::Type::Cname || added == links) continue;
    if (!wire::host_from_wire(record.rdata, host) || !chain.add({}, host, record.ttl))
      return Reentry::Loop;
    ++added;
  }
  return added == links ? Reentry::Into : Reentry::Loop;
}

void write_forwarded(const ForwardedPart& part, MessageWriter& writer,
                     MessageWriter::NameRef owner) {
  wire::ResponseMessage message = part.message.expand(part.now, part.freshness);
  if (part.dns64 != nullptr) translate_answer(*part.dns64, part.max_translated_ttl, message);
  writer.set_rcode(part.message.rcode());
  rotate_addresses(message.answer, part.rotation);
  OwnerFinder owners(owner);
  for (const ResponseRecord& record : message.answer)
    if (!owners.add(record, writer)) {
      writer.set_truncated();
      break;
    }
  write_authority(message, writer);
  write_extended_error(part.message, part.freshness, writer);
}

void write_extended_error(const CachedMessage& message, Freshness freshness,
                          MessageWriter& writer) {
  if (message.has_ede()) writer.set_extended_error(message.ede(), message.ede_text());
  if (freshness == Freshness::Stale)
    writer.set_extended_error(message.rcode() == wire::Rcode::NxDomain ? wire::Ede::StaleNxdomain
                                                                       : wire::Ede::StaleAnswer,
                              "upstreams cannot be reached");
}

}  // namespace meshdns::dnsd
