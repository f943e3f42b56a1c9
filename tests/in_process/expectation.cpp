// SPDX-License-Identifier: Apache-2.0
#include "tests/in_process/expectation.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "resolver/wire/name_text.hpp"
#include "resolver/wire/octets.hpp"
#include "resolver/wire/upstream_query.hpp"
#include "tests/in_process/yaml_text.hpp"
#include "tests/upstream/records.hpp"

namespace meshdns::dnsd::test {
namespace {

constexpr std::uint16_t kId = 0x1234;

const std::set<std::string> kKeys = {"rcode",
                                     "aa",
                                     "ra",
                                     "tc",
                                     "ad",
                                     "cd",
                                     "answer",
                                     "authority",
                                     "additional",
                                     "answer_count",
                                     "answer_any_of",
                                     "ede",
                                     "ede_text",
                                     "max_ttl",
                                     "min_ttl",
                                     "negative_ttl",
                                     "text_contains",
                                     "text_lacks",
                                     "within"};

using Problems = std::vector<std::string>;

// A reply as it is compared.
struct Reply {
  wire::ResponseMessage message;
  bool recursion_desired = false;
  std::vector<Record> answer;
  std::vector<Record> authority;
  std::vector<Record> additional;

  const std::vector<Record>& section(const std::string& name) const {
    return name == "answer" ? answer : name == "authority" ? authority : additional;
  }
};

std::vector<Record> records_of(const std::vector<wire::ResponseRecord>& records) {
  std::vector<Record> result;
  for (const auto& record : records) result.push_back(record_of(record));
  return result;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const auto& word : words) text += (text.empty() ? "" : ", ") + word;
  return text.empty() ? "nothing" : text;
}

void compare_section(const std::vector<Record>& found, const std::string& section,
                     const std::vector<std::string>& wanted, Problems& problems) {
  const auto is_type = [](const std::string& text) { return text.find(' ') == std::string::npos; };
  if (!wanted.empty() && std::ranges::all_of(wanted, is_type)) {
    std::vector<std::string> types;
    for (const Record& record : found) types.push_back(record.type);
    std::vector<std::string> sorted = wanted;
    std::ranges::sort(types);
    std::ranges::sort(sorted);
    if (types != sorted)
      problems.push_back(section + " has " + joined(types) + ", not " + joined(sorted));
    return;
  }
  std::vector<ExpectedRecord> missing(wanted.begin(), wanted.end());
  for (const Record& record : found) {
    const auto match =
        std::ranges::find_if(missing, [&](const auto& each) { return each.matches(record); });
    if (match == missing.end())
      problems.push_back(section + " has too much: " + record.to_string());
    else
      missing.erase(match);
  }
  for (const ExpectedRecord& record : missing)
    problems.push_back(section + " lacks: " + record.text());
}

void compare_shape(const Reply& reply, const YAML::Node& expected, Problems& problems) {
  if (const YAML::Node count = expected["answer_count"]) {
    const auto low = (count.IsScalar() ? count : count[0]).as<std::size_t>();
    const auto high = (count.IsScalar() ? count : count[1]).as<std::size_t>();
    if (reply.answer.size() < low || reply.answer.size() > high)
      problems.push_back("has " + std::to_string(reply.answer.size()) + " answer records");
  }
  if (const YAML::Node any_of = expected["answer_any_of"]) {
    const auto texts = strings_of(any_of);
    const std::vector<ExpectedRecord> allowed(texts.begin(), texts.end());
    for (const Record& record : reply.answer)
      if (std::ranges::none_of(allowed, [&](const auto& each) { return each.matches(record); }))
        problems.push_back("answer has too much: " + record.to_string());
  }
}

void compare_ttls(const Reply& reply, const YAML::Node& expected, Problems& problems) {
  const auto max = expected["max_ttl"].as<std::uint32_t>(1U << 31);
  const auto min = expected["min_ttl"].as<std::uint32_t>(0);
  for (const Record& record : reply.answer)
    if (record.ttl > max || record.ttl < min)
      problems.push_back("TTL of " + record.owner + " " + record.type + " is " +
                         std::to_string(record.ttl));
  if (const YAML::Node wanted = expected["negative_ttl"]) {
    std::vector<std::string> found;
    for (const auto& record : reply.message.authority) {
      if (record.type != wire::Type::Soa) continue;
      const auto* const end =
          reinterpret_cast<const std::uint8_t*>(record.rdata.data()) + record.rdata.size();
      found.push_back(std::to_string(std::min(record.ttl, wire::load_u32(end - 4))));
    }
    if (joined(found) != wanted.Scalar())
      problems.push_back("negative TTL is " + joined(found) + ", not " + wanted.Scalar());
  }
}

std::vector<std::string> texts_of(const Reply& reply) {
  std::vector<std::string> texts;
  for (const auto& record : reply.message.answer) {
    if (record.type != wire::Type::Txt) continue;
    std::string text;
    for (std::size_t at = 0; at < record.rdata.size();) {
      const auto size = static_cast<std::uint8_t>(record.rdata[at]);
      text += record.rdata.substr(at + 1, size);
      at += 1U + size;
    }
    texts.push_back(text);
  }
  return texts;
}

void compare_texts(const Reply& reply, const YAML::Node& expected, Problems& problems) {
  const auto texts = texts_of(reply);
  const auto has = [&](const std::string& pattern) {
    return std::ranges::any_of(
        texts, [&](const auto& text) { return std::regex_search(text, std::regex(pattern)); });
  };
  for (const auto& pattern : expected["text_contains"])
    if (!has(pattern.Scalar()))
      problems.push_back("no TXT string matches '" + pattern.Scalar() + "': " + joined(texts));
  for (const auto& pattern : expected["text_lacks"])
    if (has(pattern.Scalar()))
      problems.push_back("a TXT string matches '" + pattern.Scalar() + "': " + joined(texts));
}

void compare_errors(const Reply& reply, const YAML::Node& wanted, Problems& problems) {
  if (!wanted) return;
  std::vector<std::string> found;
  for (const auto& [code, text] : reply.message.extended_errors)
    found.push_back(std::to_string(code));
  if (wanted.IsNull()) {
    if (!found.empty()) problems.push_back("has extended errors " + joined(found));
    return;
  }
  const auto allowed = strings_of(wanted);
  if (found.size() != 1 || std::ranges::find(allowed, found.front()) == allowed.end())
    problems.push_back("extended errors are " + joined(found) + ", not " + joined(allowed));
}

void compare_error_text(const Reply& reply, const YAML::Node& pattern, Problems& problems) {
  if (!pattern) return;
  std::string found;
  for (const auto& [code, text] : reply.message.extended_errors) found += text;
  if (!std::regex_search(found, std::regex(pattern.Scalar())))
    problems.push_back("the text of the extended error is '" + found + "', not '" +
                       pattern.Scalar() + "'");
}

std::optional<bool> wanted_flag(const YAML::Node& expected, const char* name) {
  if (const YAML::Node value = expected[name]) return value.as<bool>();
  if (std::string_view(name) == "ra") return true;
  if (std::string_view(name) == "tc") return false;
  return {};
}

void compare_header(const Reply& reply, const YAML::Node& expected, Problems& problems) {
  const std::string rcode(wire::to_string(reply.message.rcode));
  if (rcode != expected["rcode"].Scalar())
    problems.push_back("rcode is " + rcode + ", not " + expected["rcode"].Scalar());
  const std::pair<const char*, bool> flags[] = {{"aa", reply.message.authoritative},
                                                {"ra", reply.message.recursion_available},
                                                {"tc", reply.message.truncated},
                                                {"ad", reply.message.authentic_data},
                                                {"cd", reply.message.checking_disabled}};
  for (const auto& [name, found] : flags) {
    const auto wanted = wanted_flag(expected, name);
    if (wanted && *wanted != found)
      problems.push_back(std::string("flag ") + name + (found ? " is set" : " is clear"));
  }
}

// Aliases come first and in order: each record belongs to the name that those before lead to.
void check_chain(const AskedQuestion& question, const Reply& reply, Problems& problems) {
  if (reply.answer.empty() || question.qclass != wire::Class::In) return;
  const std::string asked = *wire::name_from_text(question.name);
  if (reply.message.answer[0].owner != asked && reply.answer[0].type != "DNAME")
    problems.push_back("the first owner is not spelled as the question");
  const std::string type(wire::to_string(question.type));
  const bool is_followed = type != "CNAME" && type != "ANY";
  std::string current = lower(wire::name_to_text(asked));
  for (const Record& record : reply.answer) {
    if (record.type == "RRSIG" || record.type == "DNAME") continue;
    if (record.owner != current) {
      problems.push_back(record.owner + " " + record.type + " stands where " + current + " is due");
      return;
    }
    if (record.type == "CNAME" && is_followed) current = record.rdata;
  }
}

void check_repeats(const Reply& reply, Problems& problems) {
  for (const auto* section : {&reply.answer, &reply.authority, &reply.additional}) {
    std::set<std::string> seen;
    for (const Record& record : *section) {
      const std::string text = record.owner + " " + record.type + " " + record.rdata;
      if (!seen.insert(text).second) problems.push_back("repeats " + text);
    }
  }
}

// Properties of every reply, whatever was asked.
void check_invariants(const AskedQuestion& question, const AskedAnswer& answer, const Reply& reply,
                      Problems& problems) {
  const wire::ResponseMessage& message = reply.message;
  if (message.id != kId) problems.emplace_back("the ID is not the question's");
  if (reply.recursion_desired != question.recursion_desired)
    problems.emplace_back("RD is not the question's");
  if (message.checking_disabled != question.checking_disabled)
    problems.emplace_back("CD is not the question's");
  if (message.question_name != *wire::name_from_text(question.name) ||
      message.question.type != question.type || message.question.qclass != question.qclass)
    problems.emplace_back("the question is not repeated octet by octet");
  if (message.has_edns != question.edns)
    problems.emplace_back(message.has_edns ? "OPT is present" : "OPT is missing");
  const std::size_t limit = question.edns ? std::max<std::size_t>(512, question.bufsize) : 512;
  if (!answer.tcp && answer.wire.size() > limit)
    problems.push_back(std::to_string(answer.wire.size()) + " octets over UDP, the limit is " +
                       std::to_string(limit));
  check_repeats(reply, problems);
  check_chain(question, reply, problems);
}

std::string described(const Reply& reply) {
  std::string text = "got " + std::string(wire::to_string(reply.message.rcode));
  for (const char* section : {"answer", "authority", "additional"})
    for (const Record& record : reply.section(section))
      text += std::string("\n    ") + section + ": " + record.to_string();
  return text;
}

}  // namespace

AskedQuestion AskedQuestion::from(const std::string& text, const YAML::Node& step) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  if (words.size() < 2 || words.size() > 3 || !words[0].ends_with('.'))
    throw std::invalid_argument("query '" + text + "': write NAME. [CLASS] TYPE");
  AskedQuestion question;
  question.name = words[0];
  if (!wire::name_from_text(question.name) || !wire::type_from_string(words.back(), question.type))
    throw std::invalid_argument("query '" + text + "': no such name or type");
  if (words.size() == 3) {
    const ldns_rr_class number = ldns_get_rr_class_by_name(words[1].c_str());
    question.qclass = static_cast<wire::Class>(number);
  }
  question.edns = step["edns"].as<bool>(true);
  question.bufsize = step["bufsize"].as<std::uint16_t>(1232);
  question.dnssec_ok = step["do"].as<bool>(false);
  question.authentic_data = step["ad"].as<bool>(false);
  question.checking_disabled = step["cd"].as<bool>(false);
  question.recursion_desired = step["rd"].as<bool>(true);
  return question;
}

std::vector<std::uint8_t> AskedQuestion::to_wire() const {
  std::vector<std::uint8_t> buffer(wire::kMaxQuerySize);
  const std::string wire_name = *wire::name_from_text(name);
  buffer.resize(wire::build_query(buffer, {.id = kId,
                                           .name = wire_name,
                                           .type = type,
                                           .qclass = qclass,
                                           .recursion_desired = recursion_desired,
                                           .checking_disabled = checking_disabled,
                                           .authentic_data = authentic_data,
                                           .edns = edns,
                                           .udp_payload = bufsize,
                                           .dnssec_ok = dnssec_ok}));
  return buffer;
}

std::string AskedQuestion::to_string() const {
  return name + " " + std::string(wire::to_string(type));
}

YAML::Node expectation_of(const YAML::Node& answer) {
  static const std::map<std::string, std::string> kShorthands = {
      {"NODATA", "{rcode: NOERROR, aa: true, answer: [], authority: [SOA]}"},
      {"NXDOMAIN", "{rcode: NXDOMAIN, aa: true, answer: [], authority: [SOA]}"},
      {"SERVFAIL", "{rcode: SERVFAIL, answer: []}"},
      {"REFUSED", "{rcode: REFUSED, answer: []}"},
      {"NOTIMP", "{rcode: NOTIMP, answer: []}"},
      {"FORMERR", "{rcode: FORMERR, answer: []}"}};
  if (answer.IsScalar()) {
    const auto found = kShorthands.find(answer.Scalar());
    if (found == kShorthands.end())
      throw std::invalid_argument("unknown answer '" + answer.Scalar() + "'");
    return YAML::Load(found->second);
  }
  YAML::Node expected;
  if (answer.IsSequence()) {
    expected["aa"] = true;
    expected["answer"] = answer;
  } else {
    expected = YAML::Clone(answer);
  }
  for (const auto& item : expected)
    if (!kKeys.contains(item.first.Scalar()))
      throw std::invalid_argument("answer: unknown key " + item.first.Scalar());
  if (!expected["rcode"]) expected["rcode"] = "NOERROR";
  return expected;
}

YAML::Node forwarded_expectation(const UpstreamZone& zone, const AskedQuestion& question) {
  const auto reply = zone.answer(lower(question.name),
                                 static_cast<ldns_rr_type>(std::to_underlying(question.type)));
  YAML::Node expected;
  expected["rcode"] = reply.rcode == LDNS_RCODE_NXDOMAIN ? "NXDOMAIN" : "NOERROR";
  expected["aa"] = false;
  expected["answer"] = YAML::Node(YAML::NodeType::Sequence);
  for (const RecordPtr& record : reply.answer) {
    const Record parsed = record_of(*record);
    expected["answer"].push_back(parsed.owner + " " + parsed.type + " " + parsed.rdata);
  }
  if (!reply.authority.empty()) expected["authority"].push_back("SOA");
  return expected;
}

std::vector<std::string> problems_of(const AskedQuestion& question, const AskedAnswer& answer,
                                     const YAML::Node& expected) {
  if (answer.wire.empty()) return {"no answer"};
  auto parsed = wire::parse_response(answer.wire);
  if (!parsed) return {"the answer is malformed: " + parsed.error().message};
  Reply reply{.message = std::move(*parsed),
              .recursion_desired = (answer.wire[2] & 1) != 0,
              .answer = {},
              .authority = {},
              .additional = {}};
  reply.answer = records_of(reply.message.answer);
  reply.authority = records_of(reply.message.authority);
  reply.additional = records_of(reply.message.additional);
  Problems problems;
  check_invariants(question, answer, reply, problems);
  compare_header(reply, expected, problems);
  for (const char* section : {"answer", "authority", "additional"})
    if (expected[section])
      compare_section(reply.section(section), section, strings_of(expected[section]), problems);
  compare_shape(reply, expected, problems);
  compare_ttls(reply, expected, problems);
  compare_texts(reply, expected, problems);
  compare_errors(reply, expected["ede"], problems);
  compare_error_text(reply, expected["ede_text"], problems);
  if (const YAML::Node within = expected["within"];
      within && answer.elapsed > std::chrono::duration<double>(within.as<double>()))
    problems.push_back("took " + std::to_string(answer.elapsed.count()) + " ms");
  if (!problems.empty()) problems.push_back(described(reply));
  return problems;
}

}  // namespace meshdns::dnsd::test
