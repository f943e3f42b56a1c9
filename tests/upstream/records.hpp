// SPDX-License-Identifier: Apache-2.0
// Records as a scenario writes them, and as an answer has them, in one form that can be compared.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "resolver/wire/ldns.hpp"
#include "resolver/wire/response_message.hpp"

namespace meshdns::dnsd::test {

struct FreeRecord {
  void operator()(ldns_rr* record) const { ldns_rr_free(record); }
};
using RecordPtr = std::unique_ptr<ldns_rr, FreeRecord>;
struct FreeText {
  void operator()(char* text) const { std::free(text); }  // NOLINT: ldns allocates with malloc
};

// Owner and names in lower case; rdata as ldns writes it.
struct Record {
  std::string owner;
  std::uint32_t ttl = 0;
  std::string type;
  std::string rdata;
  // "www.example.org. 60 A 192.0.2.1"
  std::string to_string() const;
};

Record record_of(const ldns_rr& record);
Record record_of(const wire::ResponseRecord& record);

// Parses zone-file text, "OWNER [TTL] TYPE RDATA".  Throws std::invalid_argument.
RecordPtr parse_record(const std::string& text, std::uint32_t default_ttl);

// A record that a scenario expects.  Without a TTL any will do, and a field `*` of the rdata stands
// for any one field.
class ExpectedRecord {
 public:
  // Throws std::invalid_argument.
  explicit ExpectedRecord(std::string text);
  bool matches(const Record& record) const;
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  Record record_;
  std::optional<std::uint32_t> ttl_;
};

std::string lower(std::string_view text);

}  // namespace meshdns::dnsd::test
