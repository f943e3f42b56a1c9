// SPDX-License-Identifier: Apache-2.0
#include "resolver/cache/answer_builder.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "registry/base/host_name.hpp"
#include "registry/base/ip_address.hpp"
#include "registry/base/printable.hpp"
#include "resolver/cache/record_writer.hpp"
#include "resolver/wire/octets.hpp"

namespace meshdns::dnsd {
namespace {

constexpr std::size_t kMaxText = 255;
constexpr std::string_view kAddress = "[address]";
// The longest text of an address: IPv6 with IPv4 at its end.
constexpr std::size_t kMaxAddressText = 45;

std::uint8_t octet(char c) { return static_cast<std::uint8_t>(c); }

bool is_letter_or_digit(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
// Returns whether an address can contain the character.
bool is_of_address(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F') || c == '.' ||
         c == ':';
}
bool is_control(char c) { return octet(c) < 0x20 || c == 0x7f; }

// Returns whether an address may end where `rest` begins.
bool is_border(std::string_view rest) { return rest.empty() || !is_letter_or_digit(rest[0]); }

// The octets of the zone at the front of `text`, "%eth0"; 0 = none is there.
std::size_t zone_size(std::string_view text) {
  if (!text.starts_with('%')) return 0;
  const auto end = std::ranges::find_if_not(
      text.substr(1), [](char c) { return is_letter_or_digit(c) || c == '-' || c == '_'; });
  return static_cast<std::size_t>(end - text.begin());
}

// The octets of the address at the front of `text`, with its zone.  A port or a full stop may
// follow.  0 = none is there.
std::size_t bare_address_size(std::string_view text) {
  const auto run =
      static_cast<std::size_t>(std::ranges::find_if_not(text, is_of_address) - text.begin());
  // The longest first: "10.0.0.1:53." is an address, then what belongs to the sentence.
  for (std::size_t size = std::min(run, kMaxAddressText); size >= 2; --size)
    if (is_border(text.substr(size)) && IpAddress::parse(text.substr(0, size)))
      return size + zone_size(text.substr(size));
  return 0;
}

// The same, and the brackets around an address before a port: "[2001:db8::53]:853".
std::size_t address_size(std::string_view text) {
  if (!text.starts_with('[')) return bare_address_size(text);
  const std::size_t bare = bare_address_size(text.substr(1));
  return bare != 0 && text.substr(1 + bare).starts_with(']') ? bare + 2 : 0;
}

// Stops when the result has kMaxText octets or more.
std::string without_addresses(std::string_view text) {
  std::string out;
  bool inside_word = false;
  while (!text.empty() && out.size() <= kMaxText) {
    const std::size_t address = inside_word ? 0 : address_size(text);
    if (address != 0) {
      out += kAddress;
      text.remove_prefix(address);
      inside_word = false;
      continue;
    }
    const char c = text[0];
    inside_word = is_letter_or_digit(c) || c == '.';
    out += is_control(c) ? ' ' : c;
    text.remove_prefix(1);
  }
  return out;
}

// Returns the part of an upstream's text that clients may read.
// Returns the text of an extended error (RFC 8914) as clients get it: at most 255 octets of whole
// characters, control characters replaced by spaces, and "[address]" in place of every IP address,
// since clients need not know where the upstreams are.  Empty when `text` is not valid UTF-8
// (RFC 8914, section 2): whoever sends that sends no text.
std::string relayed_text(std::string_view text) {
  if (!registry::is_utf8(text)) return {};
  std::string out = without_addresses(text);
  std::size_t size = std::min(out.size(), kMaxText);
  while (size > 0 && size < out.size() && (octet(out[size]) & 0xc0) == 0x80) --size;
  out.resize(size);
  return out;
}

using wire::ResponseRecord;
using wire::Type;

// Proofs of absence that a DO asker's authority section may have.
constexpr std::size_t kMaxProofs = 32;
// Looks at records while a chain is followed, each step of which goes through those that may belong
// to it.  A chain in its usual order needs one look for each alias; nobody's server needs a tenth
// of this.
constexpr std::size_t kMaxLooks = 400'000;

// Returns whether `name` is `ancestor` or lies below it; both in wire form.
bool is_within(std::string_view name, std::string_view ancestor) {
  while (name.size() > ancestor.size()) {
    if (name.empty()) return false;
    name.remove_prefix(
        std::min(name.size(), 1u + static_cast<std::size_t>(static_cast<unsigned char>(name[0]))));
  }
  return equals_ignoring_case(name, ancestor);
}

std::uint16_t first_u16(std::string_view octets) {
  if (octets.size() < 2) return 0;
  return wire::load_u16(reinterpret_cast<const std::uint8_t*>(octets.data()));
}

bool is_signature_of(const ResponseRecord& record, Type covered) {
  return record.type == Type::Rrsig && first_u16(record.rdata) == static_cast<unsigned>(covered);
}

// The last label of a name in wire form, with the root.
std::string_view last_label_of(std::string_view name) {
  std::string_view rest = name;
  while (rest.size() > 1) {
    const std::size_t label = 1u + static_cast<unsigned char>(rest[0]);
    if (label + 1 >= rest.size()) return rest;
    rest.remove_prefix(label);
  }
  return {};
}

// Lower-cases the names in `rdata` as far as they repeat the odd spelling that we sent: a server
// writes them as pointers to the question.  This holds for every type, also those that nobody
// knows: names end with their last label and the root, whatever else the data has.
void take_out_odd_case(std::string& rdata, std::string_view sent_name) {
  const std::string_view last = last_label_of(sent_name);
  if (last.empty()) return;
  std::size_t end = 0;
  for (std::size_t at = rdata.find(last); at != std::string::npos; at = rdata.find(last, end)) {
    end = at + last.size();
    std::string_view sent = sent_name;
    while (sent.size() > end || !std::string_view(rdata).substr(0, end).ends_with(sent))
      sent.remove_prefix(1u + static_cast<unsigned char>(sent[0]));
    for (std::size_t i = end - sent.size(); i < end; ++i) rdata[i] = to_lower(rdata[i]);
  }
}

bool has_odd_case(std::string_view name) {
  return std::ranges::any_of(name, [](char c) { return c >= 'A' && c <= 'Z'; });
}

std::unexpected<UnusableAnswer> unusable(std::string why, bool denied = false) {
  return std::unexpected(UnusableAnswer{std::move(why), denied});
}

class Builder {
 public:
  Builder(const UpstreamAnswer& answer, const AnswerRules& rules, Millis now)
      : answer_(answer),
        rules_(rules),
        parts_(CacheKey(answer.question, answer.dnssec_ok, answer.checking_disabled)) {
    parts_.received_at = now;
    parts_.server = answer.server;
    parts_.carrier = answer.carrier;
  }

  std::expected<MessageRef, UnusableAnswer> build();

 private:
  struct Chosen {
    const ResponseRecord* record;
    std::uint32_t ttl;
  };

  // Adds the records of one set with one TTL, the least of them (RFC 2181, section 5.2), and with
  // DO their signatures.  Returns how many records the set has.
  std::size_t choose_set(std::string_view owner, Type type);
  void choose_signatures(std::string_view owner, Type type, std::uint32_t& least);
  void sort_by_purpose();
  const std::vector<const ResponseRecord*>& candidates(Type type) const;
  Result<bool> follow_chain();
  bool choose_requested();
  void drop_requested();
  const ResponseRecord* find_alias();
  void choose_alias(const ResponseRecord& alias);
  void choose_dname();
  void choose_negative();
  void choose_proofs(std::uint32_t ttl);
  bool is_referral() const;
  bool is_denied(const ResponseRecord& record);
  std::uint32_t clamp(std::uint32_t ttl) const;
  bool matches(const ResponseRecord& record, std::string_view owner) const {
    return record.rclass == answer_.question.qclass && equals_ignoring_case(record.owner, owner);
  }
  void write();
  void find_run(std::size_t begin, std::size_t count);

  const UpstreamAnswer& answer_;
  const AnswerRules& rules_;
  MessageParts parts_;
  std::string current_;         // where the chain has got to
  std::size_t next_alias_ = 0;  // in aliases_: where the search for the next link begins
  std::size_t looks_ = 0;
  // Records of the answer by what they may be for; of the response.
  std::vector<const ResponseRecord*> aliases_;
  std::vector<const ResponseRecord*> dnames_;
  std::vector<const ResponseRecord*> signatures_;
  std::vector<const ResponseRecord*> requested_;
  std::vector<Chosen> chosen_answer_;
  std::vector<Chosen> chosen_authority_;
  std::size_t requested_begin_ = 0;
  std::size_t requested_count_ = 0;
  bool denied_ = false;
  bool uncacheable_ = false;
  bool is_cut_ = false;  // a set had more records than are kept
};

std::expected<MessageRef, UnusableAnswer> Builder::build() {
  const wire::ResponseMessage& response = answer_.response;
  if (response.rcode != wire::Rcode::NoError && response.rcode != wire::Rcode::NxDomain)
    return unusable("rcode " + std::string(wire::to_string(response.rcode)));
  const auto found = follow_chain();
  if (!found) return std::unexpected(UnusableAnswer{found.error().message, false});
  // A message that denies the name and has data of it contradicts itself: the denial is passed on,
  // the data and the cache are left out.
  const bool contradicts = *found && response.rcode == wire::Rcode::NxDomain;
  if (contradicts) drop_requested();
  if (*found && !contradicts) {
    parts_.kind = MessageKind::Positive;
    parts_.rcode = wire::Rcode::NoError;
    if (answer_.dnssec_ok) choose_proofs(clamp(wire::kMaxTtl));
  } else {
    const bool has_aliases = !parts_.aliases.empty();
    if (denied_ && !has_aliases)
      return unusable("address denied by configuration (upstream.deny_answers)", true);
    if (is_referral()) return unusable("got a referral; the upstream server does no recursion");
    parts_.kind = MessageKind::Negative;
    // RFC 2308, section 5: a name error holds for every type.
    if (response.rcode == wire::Rcode::NxDomain && !has_aliases)
      parts_.key = parts_.key.to_name_error();
    parts_.rcode = response.rcode;
    choose_negative();
    // A server without recursion sends the alias alone: what it leads to is to be asked for.  The
    // same holds for denied addresses, since the name may be in a zone that is exempt.
    if (denied_) chosen_authority_.clear();
    parts_.leads_on = response.rcode == wire::Rcode::NoError && has_aliases &&
                      chosen_authority_.empty() && !contradicts;
    if (parts_.leads_on) parts_.kind = MessageKind::Positive;
    uncacheable_ = (uncacheable_ && !parts_.leads_on) || contradicts;
  }
  if (is_cut_ && answer_.dnssec_ok)
    return unusable("a signed set of more than " + std::to_string(kMaxRecordsPerSet) + " records");
  // AD is to be believed on a secure link alone (RFC 4035, section 4.9.3).
  parts_.authentic_data = answer_.carrier == Carrier::Tls && response.authentic_data;
  if (!response.extended_errors.empty()) {
    parts_.has_ede = true;
    parts_.ede = static_cast<wire::Ede>(response.extended_errors.front().first);
    parts_.ede_text = relayed_text(response.extended_errors.front().second);
  }
  write();
  return CachedMessage::create(parts_);
}

Result<bool> Builder::follow_chain() {
  current_ = answer_.question.name;
  sort_by_purpose();
  while (true) {
    if (choose_requested()) return true;
    const ResponseRecord* const alias = find_alias();
    if (alias == nullptr) return false;
    // Each link of a chain without a loop is another alias.
    if (parts_.aliases.size() == aliases_.size()) return fail("aliases in a loop");
    if (looks_ > kMaxLooks) return fail("too many records beside a long chain of aliases");
    choose_dname();
    choose_alias(*alias);
    current_ = to_lower(alias->rdata);
  }
}

bool Builder::choose_requested() {
  const auto is_here = [this](const ResponseRecord* record) { return matches(*record, current_); };
  // RFC 6672, section 5.3.1: the alias that was made from a DNAME has no signature of its own.
  if (answer_.question.type == Type::Cname && std::ranges::any_of(requested_, is_here))
    choose_dname();
  requested_begin_ = chosen_answer_.size();
  if (answer_.question.type != Type::Any) {
    requested_count_ = choose_set(current_, answer_.question.type);
    return requested_count_ > 0;
  }
  std::vector<Type> seen;
  for (const ResponseRecord& record : answer_.response.answer) {
    if (record.type == Type::Rrsig || !matches(record, current_)) continue;
    if (std::ranges::find(seen, record.type) != seen.end()) continue;
    seen.push_back(record.type);
    choose_set(current_, record.type);
    if (seen.size() == kMaxSetsOfAny) break;
  }
  return chosen_answer_.size() > requested_begin_;
}

void Builder::drop_requested() {
  chosen_answer_.resize(requested_begin_);
  requested_count_ = 0;
}

// One pass over the answer, so that the steps of a chain look only at what may concern them.
void Builder::sort_by_purpose() {
  for (const ResponseRecord& record : answer_.response.answer) {
    if (record.type == Type::Cname) aliases_.push_back(&record);
    if (record.type == Type::Dname) dnames_.push_back(&record);
    if (record.type == Type::Rrsig) signatures_.push_back(&record);
    if (record.type == answer_.question.type) requested_.push_back(&record);
  }
}

const std::vector<const ResponseRecord*>& Builder::candidates(Type type) const {
  return type == answer_.question.type ? requested_ : type == Type::Cname ? aliases_ : dnames_;
}

std::size_t Builder::choose_set(std::string_view owner, Type type) {
  const std::size_t begin = chosen_answer_.size();
  std::uint32_t least = wire::kMaxTtl;
  const auto choose = [&](const ResponseRecord& record) {
    if (record.type != type || !matches(record, owner) || is_denied(record)) return true;
    if (chosen_answer_.size() - begin == kMaxRecordsPerSet) {
      is_cut_ = true;
      return false;
    }
    chosen_answer_.push_back({&record, 0});
    least = std::min(least, record.ttl);
    return type != Type::Cname;  // as choose_alias()
  };
  if (answer_.question.type == Type::Any) {
    for (const ResponseRecord& record : answer_.response.answer)
      if (!choose(record)) break;
  } else {
    looks_ += candidates(type).size();
    for (const ResponseRecord* record : candidates(type))
      if (!choose(*record)) break;
  }
  const std::size_t count = chosen_answer_.size() - begin;
  if (count > 0 && answer_.dnssec_ok) choose_signatures(owner, type, least);
  for (std::size_t i = begin; i < chosen_answer_.size(); ++i) chosen_answer_[i].ttl = clamp(least);
  return count;
}

void Builder::choose_signatures(std::string_view owner, Type type, std::uint32_t& least) {
  looks_ += signatures_.size();
  for (const ResponseRecord* record : signatures_) {
    if (!is_signature_of(*record, type) || !matches(*record, owner)) continue;
    chosen_answer_.push_back({record, 0});
    least = std::min(least, record->ttl);
  }
}

const ResponseRecord* Builder::find_alias() {
  if (answer_.question.type == Type::Cname || answer_.question.type == Type::Any) return nullptr;
  for (std::size_t i = 0; i < aliases_.size(); ++i) {
    ++looks_;
    const std::size_t at = (next_alias_ + i) % aliases_.size();
    if (!matches(*aliases_[at], current_)) continue;
    next_alias_ = at + 1;
    return aliases_[at];
  }
  return nullptr;
}

// RFC 2181, section 10.1: a name has one alias.
void Builder::choose_alias(const ResponseRecord& alias) {
  const std::size_t begin = chosen_answer_.size();
  parts_.aliases.push_back({static_cast<std::uint16_t>(begin), to_lower(alias.rdata)});
  std::uint32_t least = std::min(alias.ttl, wire::kMaxTtl);
  chosen_answer_.push_back({&alias, 0});
  if (answer_.dnssec_ok) choose_signatures(current_, Type::Cname, least);
  for (std::size_t i = begin; i < chosen_answer_.size(); ++i) chosen_answer_[i].ttl = clamp(least);
}

// RFC 6672, section 3.1: the DNAME that the CNAME was made from comes before it.
void Builder::choose_dname() {
  looks_ += dnames_.size();
  for (const ResponseRecord* record : dnames_) {
    if (record->rclass != answer_.question.qclass) continue;
    if (equals_ignoring_case(record->owner, current_) || !is_within(current_, record->owner))
      continue;
    const auto is_this = [&](const Chosen& chosen) { return chosen.record == record; };
    if (std::ranges::any_of(chosen_answer_, is_this)) return;
    choose_set(record->owner, Type::Dname);
    return;
  }
}

bool Builder::is_referral() const {
  const wire::ResponseMessage& response = answer_.response;
  if (response.rcode != wire::Rcode::NoError || !parts_.aliases.empty() ||
      response.recursion_available || response.authoritative)
    return false;
  const auto is_type = [](Type type) {
    return [type](const ResponseRecord& record) { return record.type == type; };
  };
  return std::ranges::any_of(response.authority, is_type(Type::Ns)) &&
         std::ranges::none_of(response.authority, is_type(Type::Soa));
}

// RFC 2308, section 5: an answer without SOA is passed on and not kept.
void Builder::choose_negative() {
  uncacheable_ = true;
  const ResponseRecord* soa = nullptr;
  for (const ResponseRecord& record : answer_.response.authority)
    if (record.type == Type::Soa && record.rclass == answer_.question.qclass &&
        record.rdata.size() >= 4 && is_within(current_, record.owner))
      soa = &record;
  if (soa == nullptr) return;
  const auto* const minimum_at =
      reinterpret_cast<const std::uint8_t*>(soa->rdata.data()) + soa->rdata.size() - 4;
  const auto cap = static_cast<std::uint32_t>(rules_.negative_max_ttl.count());
  const std::uint32_t ttl = std::min({soa->ttl, wire::load_u32(minimum_at), cap});
  chosen_authority_.push_back({soa, ttl});
  uncacheable_ = false;
  if (answer_.dnssec_ok) choose_proofs(ttl);
}

void Builder::choose_proofs(std::uint32_t ttl) {
  std::size_t proofs = 0;
  for (const ResponseRecord& record : answer_.response.authority) {
    const bool is_proof =
        record.type == Type::Nsec || record.type == Type::Nsec3 ||
        is_signature_of(record, Type::Nsec) || is_signature_of(record, Type::Nsec3) ||
        (parts_.kind == MessageKind::Negative && is_signature_of(record, Type::Soa));
    if (!is_proof || record.rclass != answer_.question.qclass) continue;
    if (++proofs > kMaxProofs) return;
    chosen_authority_.push_back({&record, std::min(ttl, record.ttl)});
  }
}

bool Builder::is_denied(const ResponseRecord& record) {
  if (!rules_.denied.has_record(record.type, record.rdata)) return false;
  denied_ = true;
  return true;
}

std::uint32_t Builder::clamp(std::uint32_t ttl) const {
  const auto low = static_cast<std::uint32_t>(rules_.min_ttl.count());
  const auto high = static_cast<std::uint32_t>(rules_.max_ttl.count());
  return std::min(std::max(ttl, low), std::max(low, high));
}

void Builder::write() {
  RecordWriter writer(parts_);
  const bool odd_case = has_odd_case(answer_.sent_name);
  const std::string_view last_label = last_label_of(answer_.sent_name);
  std::uint32_t least = wire::kMaxTtl;
  const auto add = [&](const Chosen& chosen) {
    least = std::min(least, chosen.ttl);
    if (!odd_case || last_label.empty() ||
        chosen.record->rdata.find(last_label) == std::string::npos)
      return writer.add(*chosen.record, chosen.ttl);
    ResponseRecord restored = *chosen.record;
    take_out_odd_case(restored.rdata, answer_.sent_name);
    return writer.add_copy(restored, chosen.ttl);
  };
  // The first record that does not fit is left out, with all records behind it.
  for (const Chosen& chosen : chosen_answer_) {
    if (!add(chosen)) break;
    ++parts_.answer_count;
  }
  for (const Chosen& chosen : chosen_authority_) {
    if (!add(chosen)) break;
    ++parts_.authority_count;
  }
  std::erase_if(parts_.aliases,
                [&](const auto& alias) { return alias.record >= parts_.answer_count; });
  if (!uncacheable_) parts_.lifetime = Millis{least} * 1000;
  const Type type = answer_.question.type;
  if (requested_count_ > 1 && (type == Type::A || type == Type::Aaaa))
    find_run(requested_begin_, requested_count_);
}

// Only records of one size can change places without moving what compression pointers know.
void Builder::find_run(std::size_t begin, std::size_t count) {
  if (begin + count > parts_.answer_count) return;
  const std::size_t stride = parts_.ttl_offsets[begin + 1] - parts_.ttl_offsets[begin];
  for (std::size_t i = begin + 2; i < begin + count; ++i)
    if (parts_.ttl_offsets[i] - parts_.ttl_offsets[i - 1] != static_cast<int>(stride)) return;
  // The first record's owner must be a pointer as those of the others are.
  std::size_t first = wire::kHeaderSize + parts_.key.bytes().size() - 1;
  if (begin > 0) {
    const std::size_t before = parts_.ttl_offsets[begin - 1] + 4u;
    first = before + 2u + wire::load_u16(parts_.message.data() + before);
  }
  constexpr std::size_t kPointerTypeClass = 6;
  if (first + kPointerTypeClass != parts_.ttl_offsets[begin]) return;
  parts_.run_begin = static_cast<std::uint16_t>(begin);
  parts_.run_count = static_cast<std::uint16_t>(count);
}

}  // namespace

std::expected<MessageRef, UnusableAnswer> build_answer(const UpstreamAnswer& answer,
                                                       const AnswerRules& rules, Millis now) {
  return Builder(answer, rules, now).build();
}

MessageRef build_failure(const CacheKey& key, const FailureText& failure, Millis now) {
  MessageParts parts(key);
  parts.kind = MessageKind::Failure;
  parts.rcode = static_cast<unsigned>(failure.rcode) > 15 ? wire::Rcode::ServFail : failure.rcode;
  parts.received_at = now;
  parts.has_ede = true;
  parts.ede = failure.ede;
  parts.ede_text = relayed_text(failure.text);
  parts.unreachable = failure.unreachable;
  parts.server = failure.server;
  return CachedMessage::create(parts);
}

}  // namespace meshdns::dnsd
