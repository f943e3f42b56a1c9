// SPDX-License-Identifier: Apache-2.0
// Decisions as records: one function per verdict.  Nothing here decides anything.
#pragma once

#include <span>
#include <string_view>

#include "dnsd/answer/decision.hpp"
#include "dnsd/answer/endpoint_answer.hpp"
#include "resolver/cache/cached_message.hpp"
#include "resolver/wire/message_writer.hpp"

namespace meshdns::dnsd {

// The context for writing one reply.
struct AnswerContext {
  const registry::View& view;
  RotationTable& rotation;
  wire::MessageWriter& writer;
  wire::Type type = wire::Type::A;
  // The name that the decision is about: the question's, or an alias's target in the message.
  std::string_view name = {};
  wire::MessageWriter::NameRef owner = wire::MessageWriter::kQuestionName;
  std::size_t question_size = 0;  // of the question's name in wire form
  Millis now = 0;                 // for aliases of replies
  std::span<const IpAddress> server_addresses = {};
  bool is_empty_zone = false;  // Decision::is_empty_zone, set by write_answer()
};

// Writes records, rcode and extended error of every verdict but Alias, SearchAlias, Forward and
// Wait.  Records that do not fit are left out; TC says so where they are answers.  AA is the
// caller's: it depends on the first name of a chain.
void write_answer(const Decision& decision, AnswerContext& context);

// A negative answer's SOA in the authority section, or the apex's own.
void write_soa(AnswerContext& context, std::string_view zone, wire::Section section);
void answer_nxdomain(const Decision& decision, AnswerContext& context);

// For RotationTable::next(): the records of each service and type have a turn of their own.
inline std::uint64_t rotation_key(const registry::ServiceRecord& service, wire::Type type) {
  return reinterpret_cast<std::uintptr_t>(&service) ^ static_cast<std::uint64_t>(type) << 56;
}

// The time that a client may keep that a name or record is missing; also of aliases made by the
// search shortcut, which something real may replace.
std::uint32_t negative_ttl(const registry::View& view);

}  // namespace meshdns::dnsd
