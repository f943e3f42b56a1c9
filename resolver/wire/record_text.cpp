// SPDX-License-Identifier: Apache-2.0
#include "resolver/wire/record_text.hpp"

#include <cstdlib>
#include <memory>

#include "resolver/wire/ldns.hpp"
#include "resolver/wire/name_text.hpp"
#include "resolver/wire/octets.hpp"
#include "resolver/wire/rdata_shape.hpp"

namespace meshdns::wire {
namespace {

struct FreeRr {
  void operator()(ldns_rr* rr) const { ldns_rr_free(rr); }
};
struct FreeText {
  void operator()(char* text) const { std::free(text); }  // NOLINT: ldns allocates with malloc
};

std::string class_to_text(Class rclass) {
  switch (rclass) {
    case Class::In:
      return "IN";
    case Class::Chaos:
      return "CH";
    case Class::None:
      return "NONE";
    case Class::Any:
      return "ANY";
  }
  return "CLASS" + std::to_string(static_cast<unsigned>(rclass));
}

// RFC 3597, section 5.
std::string generic_text(const ResponseRecord& record) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text = name_to_text(record.owner) + " " + std::to_string(record.ttl) + " " +
                     class_to_text(record.rclass) + " " + to_string(record.type) + " \\# " +
                     std::to_string(record.rdata.size());
  if (!record.rdata.empty()) text += ' ';
  for (const char c : record.rdata) {
    const auto octet = static_cast<std::uint8_t>(c);
    text += kDigits[octet >> 4];
    text += kDigits[octet & 15];
  }
  return text;
}

// The record with the root as its owner: ldns takes much longer for the text of a long name than
// name_to_text().
std::string wire_form_at_root(const ResponseRecord& record) {
  std::uint8_t fields[10];
  store_u16(fields, static_cast<std::uint16_t>(record.type));
  store_u16(fields + 2, static_cast<std::uint16_t>(record.rclass));
  store_u32(fields + 4, record.ttl);
  store_u16(fields + 8, static_cast<std::uint16_t>(record.rdata.size()));
  return std::string(1, '\0') + std::string(reinterpret_cast<const char*>(fields), sizeof fields) +
         record.rdata;
}

// Replaces the tabs of ldns by spaces and removes its final newline.
std::string tidied(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  for (char& c : text)
    if (c == '\t') c = ' ';
  return text;
}

}  // namespace

std::string record_to_text(const ResponseRecord& record) {
  const bool checked = is_wire_name(record.owner) && record.rdata.size() <= 0xffff &&
                       has_known_shape(record.type, record.rclass, record.rdata);
  if (!checked) return generic_text(record);
  const std::string wire = wire_form_at_root(record);
  ldns_rr* parsed = nullptr;
  std::size_t position = 0;
  if (ldns_wire2rr(&parsed, reinterpret_cast<const std::uint8_t*>(wire.data()), wire.size(),
                   &position, LDNS_SECTION_ANSWER) != LDNS_STATUS_OK)
    return generic_text(record);
  const std::unique_ptr<ldns_rr, FreeRr> rr(parsed);
  const std::unique_ptr<char, FreeText> text(ldns_rr2str(rr.get()));
  if (!text || text.get()[0] != '.') return generic_text(record);
  return name_to_text(record.owner) + tidied(text.get() + 1);
}

}  // namespace meshdns::wire
