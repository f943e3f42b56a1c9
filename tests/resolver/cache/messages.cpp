// SPDX-License-Identifier: Apache-2.0
#include "tests/resolver/cache/messages.hpp"

#include <gtest/gtest.h>

#include <sstream>

#include "registry/base/host_name.hpp"
#include "resolver/wire/name_text.hpp"
#include "resolver/wire/octets.hpp"
#include "resolver/wire/upstream_query.hpp"

namespace meshdns::dnsd::test {
namespace {

void put_u16(std::string& out, std::uint32_t value) {
  out.push_back(static_cast<char>(value >> 8));
  out.push_back(static_cast<char>(value));
}

void put_u32(std::string& out, std::uint32_t value) {
  put_u16(out, value >> 16);
  put_u16(out, value & 0xffff);
}

void put_record(std::string& out, const wire::ResponseRecord& record) {
  out += record.owner;
  put_u16(out, static_cast<std::uint16_t>(record.type));
  put_u16(out, static_cast<std::uint16_t>(record.rclass));
  put_u32(out, record.ttl);
  put_u16(out, static_cast<std::uint32_t>(record.rdata.size()));
  out += record.rdata;
}

std::string rdata_text(const wire::ResponseRecord& record) {
  const auto* const octets = reinterpret_cast<const std::uint8_t*>(record.rdata.data());
  switch (record.type) {
    case wire::Type::A:
      return IpAddress::v4({octets[0], octets[1], octets[2], octets[3]}).to_string();
    case wire::Type::Cname:
      return wire::name_to_text(record.rdata);
    case wire::Type::Soa:
      return std::to_string(wire::load_u32(octets + record.rdata.size() - 4));
    case wire::Type::Srv:
      return std::to_string(wire::load_u16(octets + 4)) + " " +
             wire::name_to_text(std::string_view(record.rdata).substr(6));
    case wire::Type::Txt:
      return record.rdata.substr(1);
    default:
      return "?";
  }
}

}  // namespace

std::string wire_name(std::string_view text) {
  auto name = wire::name_from_text(text);
  EXPECT_TRUE(name.has_value()) << text;
  return name.value_or(std::string(1, '\0'));
}

wire::Question question(std::string_view name, wire::Type type) {
  return {to_lower(wire_name(name)), type, wire::Class::In};
}

wire::ResponseRecord record(std::string_view text) {
  std::istringstream words{std::string(text)};
  std::string owner;
  std::string type;
  std::string value;
  wire::ResponseRecord record;
  words >> owner >> record.ttl >> type >> value;
  record.owner = wire_name(owner);
  record.rclass = wire::Class::In;
  EXPECT_TRUE(wire::type_from_string(type, record.type)) << text;
  switch (record.type) {
    case wire::Type::A: {
      const auto address = IpAddress::parse(value);
      EXPECT_TRUE(address) << text;
      if (address) record.rdata.assign(reinterpret_cast<const char*>(&address->octets()[12]), 4);
      break;
    }
    case wire::Type::Cname:
    case wire::Type::Ns:
    case wire::Type::Dname:
      record.rdata = wire_name(value);
      break;
    case wire::Type::Soa:
      record.rdata = wire_name("ns.example.org.") + wire_name("hostmaster.example.org.");
      for (int i = 0; i < 4; ++i) put_u32(record.rdata, 1);
      put_u32(record.rdata, static_cast<std::uint32_t>(std::stoul(value)));
      break;
    case wire::Type::Srv: {
      std::string target;
      words >> target;
      put_u32(record.rdata, 0);
      put_u16(record.rdata, static_cast<std::uint32_t>(std::stoul(value)));
      record.rdata += wire_name(target);
      break;
    }
    case wire::Type::Rrsig: {
      wire::Type covered{};
      EXPECT_TRUE(wire::type_from_string(value, covered)) << text;
      put_u16(record.rdata, static_cast<std::uint16_t>(covered));
      record.rdata += std::string(16, '\1') + wire_name("example.org.") + "signature";
      break;
    }
    default:
      record.rdata = static_cast<char>(value.size()) + value;
  }
  return record;
}

wire::ResponseMessage response(const wire::Question& question,
                               std::initializer_list<std::string_view> answer,
                               std::initializer_list<std::string_view> authority,
                               wire::Rcode rcode) {
  wire::ResponseMessage response;
  response.question = question;
  response.question_name = question.name;
  response.rcode = rcode;
  response.recursion_available = true;
  for (const std::string_view text : answer) response.answer.push_back(record(text));
  for (const std::string_view text : authority) response.authority.push_back(record(text));
  return response;
}

std::vector<std::uint8_t> to_wire(const wire::ResponseMessage& response) {
  std::string out;
  put_u16(out, response.id);
  put_u16(out, 0x8180u | (response.truncated ? 0x0200u : 0u) |
                   static_cast<std::uint32_t>(response.rcode));
  put_u16(out, 1);
  put_u16(out, static_cast<std::uint32_t>(response.answer.size()));
  put_u16(out, static_cast<std::uint32_t>(response.authority.size()));
  put_u16(out,
          static_cast<std::uint32_t>(response.additional.size()) + (response.has_edns ? 1 : 0));
  out += response.question_name;
  put_u16(out, static_cast<std::uint16_t>(response.question.type));
  put_u16(out, static_cast<std::uint16_t>(response.question.qclass));
  for (const auto* section : {&response.answer, &response.authority, &response.additional})
    for (const wire::ResponseRecord& each : *section) put_record(out, each);
  if (response.has_edns) {
    out.push_back('\0');
    put_u16(out, 41);
    put_u16(out, 1232);
    put_u32(out, 0);
    put_u16(out, 0);
  }
  return {out.begin(), out.end()};
}

ClientQuery::ClientQuery(std::string_view name, wire::Type type, const QueryOptions& options)
    : buffer(65535) {
  const std::string spelled = wire_name(name);
  wire::UpstreamQuery asked;
  asked.id = 0x1234;
  asked.name = spelled;
  asked.type = type;
  asked.checking_disabled = options.checking_disabled;
  asked.edns = options.edns || options.dnssec_ok;
  asked.dnssec_ok = options.dnssec_ok;
  const std::size_t size = wire::build_query(buffer, asked);
  EXPECT_EQ(wire::parse_query(std::span(buffer).first(size), query), wire::ParseOutcome::Ok);
}

wire::ResponseMessage ClientQuery::reply(std::size_t size) const {
  const auto parsed = wire::parse_response(std::span(buffer).first(size));
  EXPECT_TRUE(parsed.has_value()) << parsed.error().message;
  return parsed.value_or(wire::ResponseMessage{});
}

std::vector<std::string> texts(const std::vector<wire::ResponseRecord>& records) {
  std::vector<std::string> texts;
  for (const wire::ResponseRecord& each : records)
    texts.push_back(wire::name_to_text(each.owner) + " " + std::to_string(each.ttl) + " " +
                    wire::to_string(each.type) + " " + rdata_text(each));
  return texts;
}

MessageRef cached(const wire::ResponseMessage& response, Millis now, const AnswerRules& rules) {
  auto message = build_answer({response.question, false, false, {}, response}, rules, now);
  EXPECT_TRUE(message.has_value()) << message.error().why;
  return message ? *message : nullptr;
}

}  // namespace meshdns::dnsd::test
