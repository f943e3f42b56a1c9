// SPDX-License-Identifier: Apache-2.0
#include "tests/upstream/records.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <sstream>
#include <stdexcept>
#include <vector>

#include "resolver/wire/octets.hpp"

namespace meshdns::dnsd::test {
namespace {

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

bool is_number(std::string_view text) {
  return !text.empty() &&
         std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c); });
}

std::string take_word(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  const std::size_t end = std::min(text.find(' '), text.size());
  std::string word(text.substr(0, end));
  text.remove_prefix(std::min(end + 1, text.size()));
  return word;
}

}  // namespace

std::string lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

std::string Record::to_string() const {
  return owner + " " + std::to_string(ttl) + " " + type + " " + rdata;
}

Record record_of(const ldns_rr& record) {
  const RecordPtr canonical(ldns_rr_clone(&record));
  ldns_rr2canonical(canonical.get());
  const std::unique_ptr<char, FreeText> text(ldns_rr2str(canonical.get()));
  // OWNER, TTL, CLASS, TYPE and rdata, with tabs between them.
  std::vector<std::string> fields(1);
  for (const char* c = text.get(); *c != '\0' && *c != '\n'; ++c) {
    if (*c == '\t' && fields.size() < 5)
      fields.emplace_back();
    else
      fields.back() += *c == '\t' ? ' ' : *c;
  }
  fields.resize(5);
  std::string& rdata = fields[4];
  while (rdata.ends_with(' ')) rdata.pop_back();
  return {fields[0], ldns_rr_ttl(&record), fields[3], rdata};
}

Record record_of(const wire::ResponseRecord& record) {
  std::uint8_t fields[10];
  wire::store_u16(fields, static_cast<std::uint16_t>(record.type));
  wire::store_u16(fields + 2, static_cast<std::uint16_t>(record.rclass));
  wire::store_u32(fields + 4, record.ttl);
  wire::store_u16(fields + 8, static_cast<std::uint16_t>(record.rdata.size()));
  const std::string wire = record.owner +
                           std::string(reinterpret_cast<const char*>(fields), sizeof fields) +
                           record.rdata;
  ldns_rr* parsed = nullptr;
  std::size_t position = 0;
  const ldns_status status =
      ldns_wire2rr(&parsed, reinterpret_cast<const std::uint8_t*>(wire.data()), wire.size(),
                   &position, LDNS_SECTION_ANSWER);
  const RecordPtr owned(parsed);
  if (status != LDNS_STATUS_OK) throw std::invalid_argument(ldns_get_errorstr_by_id(status));
  return record_of(*owned);
}

RecordPtr parse_record(const std::string& text, std::uint32_t default_ttl) {
  ldns_rr* parsed = nullptr;
  const ldns_status status =
      ldns_rr_new_frm_str(&parsed, text.c_str(), default_ttl, nullptr, nullptr);
  RecordPtr owned(parsed);
  if (status != LDNS_STATUS_OK)
    throw std::invalid_argument("'" + text + "' is no record: " + ldns_get_errorstr_by_id(status));
  return owned;
}

ExpectedRecord::ExpectedRecord(std::string text) : text_(std::move(text)) {
  std::string_view rest = text_;
  record_.owner = lower(take_word(rest));
  std::string word = take_word(rest);
  if (is_number(word)) {
    ttl_ = static_cast<std::uint32_t>(std::stoul(word));
    word = take_word(rest);
  }
  if (word == "IN") word = take_word(rest);
  record_.type = word;
  record_.rdata = lower(rest);
  const auto fields = words_of(record_.rdata);
  if (std::ranges::find(fields, "*") == fields.end()) record_ = record_of(*parse_record(text_, 0));
}

bool ExpectedRecord::matches(const Record& record) const {
  if (record.owner != record_.owner || record.type != record_.type) return false;
  if (ttl_ && *ttl_ != record.ttl) return false;
  const auto wanted = words_of(record_.rdata);
  if (std::ranges::find(wanted, "*") == wanted.end()) return record.rdata == record_.rdata;
  const auto found = words_of(lower(record.rdata));
  return std::ranges::equal(wanted, found,
                            [](const auto& w, const auto& f) { return w == "*" || w == f; });
}

}  // namespace meshdns::dnsd::test
