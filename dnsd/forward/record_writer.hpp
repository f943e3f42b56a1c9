// Writes records behind a question, names compressed, and notes where their TTLs lie.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dnsd/forward/message_parts.hpp"
#include "dnsd/wire/response_message.hpp"

namespace meshdns::dnsd {

class RecordWriter {
 public:
  // Fills `parts.message` and `parts.ttl_offsets`.  REQUIRES: parts outlives this.
  explicit RecordWriter(MessageParts& parts);

  // Appends the record with another TTL.  False, and nothing written, when the message would get
  // longer than a message may be.
  // REQUIRES: the record outlives this.
  bool add(const wire::ResponseRecord& record, std::uint32_t ttl);
  // The same for a record that does not.
  bool add_copy(const wire::ResponseRecord& record, std::uint32_t ttl) {
    const bool added = add(record, ttl);
    last_owner_ = {};
    return added;
  }

 private:
  struct Known {
    std::uint16_t offset;
    std::uint16_t size;  // octets of the name from here on, uncompressed
  };
  void put_u16(std::uint16_t value);
  void put_name(std::string_view name);
  void put_rdata(const wire::ResponseRecord& record);
  void remember(std::string_view name, std::size_t offset);
  // Where `name` (a suffix, too) lies in the message already; 0 = nowhere.
  std::uint16_t find(std::string_view name) const;
  bool equals_at(std::size_t offset, std::string_view name) const;

  std::vector<std::uint8_t>& out_;
  std::vector<std::uint16_t>& ttl_offsets_;
  std::vector<Known> known_;
  std::string_view last_owner_;  // of the record before: long sets repeat it
  std::uint16_t last_owner_at_ = 0;
};

}  // namespace meshdns::dnsd
