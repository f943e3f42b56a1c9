// SPDX-License-Identifier: Apache-2.0
// The files of the history, STATE_DIR/history.SECONDS: what the registry was given, so that the
// answers of an earlier time can be made again with the code that made them then.
//
// A file begins with all that there was at that time (Unix seconds; in its name, too), and goes on
// with what has changed, in records, each with its time.  A line with the format's version is
// followed by frames: size, checksum and a piece of one stream of zlib.  Each checksum continues
// the one before, and a record counts once its last frame is whole: a file that a crash has cut
// loses no more than its last record.
//
// Nothing but the program that wrote a file needs to read it: another format, or another layout of
// the resources, is said and not read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dnsd/answer/answer_history.hpp"
#include "registry/base/file_descriptor.hpp"
#include "registry/base/result.hpp"
#include "registry/model/resolved_name.hpp"
#include "registry/model/resources.hpp"
#include "registry/snapshot/octets.hpp"
#include "registry/snapshot/snapshot.hpp"
#include "registry/snapshot/stored_resource.hpp"
#include "registry/tables/vip_allocator.hpp"

namespace meshdns::dnsd {

// Facts that all answers depend on, beside the objects.
struct HistoryFacts {
  std::uint64_t configuration = 0;  // a hash of the sections that change answers
  std::uint32_t serial = 1;
  registry::SourceState sources;
  bool tells_networks_apart = false;
  friend bool operator==(const HistoryFacts&, const HistoryFacts&) = default;
};

// The files of a state directory, by the time at which each begins.
struct HistoryFile {
  std::int64_t begins = 0;  // Unix seconds
  std::string path;
  std::uint64_t bytes = 0;
};
// The oldest first.  Empty where there is no such directory, or it cannot be read: `error` has why.
std::vector<HistoryFile> history_files(const std::string& state_dir, std::string* error = nullptr);

class HistoryStream;

// Writes one file.  One thread at a time.  After an Error it is of no use.
class HistoryWriter {
 public:
  // Called before so many octets are written; an Error ends the writing.
  using MakeRoom = std::function<Result<void>(std::uint64_t octets)>;

  // Creates the file that begins at `now`, or soon after if there is one.  It is removed again
  // unless a record is completed.
  static Result<std::unique_ptr<HistoryWriter>> create(const std::string& state_dir,
                                                       std::int64_t now, MakeRoom make_room);
  ~HistoryWriter();
  HistoryWriter(const HistoryWriter&) = delete;
  HistoryWriter& operator=(const HistoryWriter&) = delete;

  // The parts of a record, in any order.
  void put(const HistoryFacts& facts);
  void put(std::string_view origin, std::uint32_t line, std::string_view encoded);
  void put_removed(std::string_view origin, const registry::StoredResource& object);
  void put(std::string_view ns, const registry::ResolvedName& name);
  void put(const registry::VipAssignment& vip);
  void put_removed(const registry::VipAssignment& vip);
  void put(const AnswerEvent& event);
  // Completes the record; the Error is the first one of its parts.
  Result<void> end_record(std::int64_t now);

  const std::string& path() const { return path_; }
  std::int64_t begins() const { return begins_; }
  std::uint64_t bytes() const { return bytes_; }
  // The size of the file at the end of its first record; 0: that is not complete.
  std::uint64_t bytes_at_first() const { return bytes_at_first_; }

 private:
  HistoryWriter(std::string path, FileDescriptor fd, std::int64_t begins, MakeRoom make_room);
  void begin_part(std::uint64_t tag);
  void write_frame();
  void write(std::string_view octets);

  const std::string path_;
  FileDescriptor fd_;
  const std::int64_t begins_;
  MakeRoom make_room_;
  std::unique_ptr<HistoryStream> stream_;
  std::string origin_;  // of the object that was put last
  std::string frame_;   // not compressed yet
  registry::Encoder to_{frame_};
  std::uint32_t checksum_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint64_t bytes_at_first_ = 0;
  Result<void> outcome_;
};

// A record has the changes of one moment; the first one of a file has all that there was.
struct HistoryRecord {
  std::int64_t time = 0;  // Unix seconds
  std::optional<HistoryFacts> facts = {};
  std::vector<registry::StoredRef> objects = {};  // new or in another form
  std::vector<std::pair<std::string, registry::ResourceKey>> removed = {};   // by origin
  std::vector<std::pair<std::string, registry::ResolvedName>> results = {};  // by namespace
  std::vector<registry::VipAssignment> vips = {};
  std::vector<std::pair<std::string, std::string>> removed_vips = {};  // namespace, host
  std::vector<AnswerEvent> events = {};
};

// Reads one file.  Any octets are safe; memory is bounded by a multiple of the octets read.
class HistoryReader {
 public:
  // Gives an id to an origin.  Empty: objects are not wanted, and records have none.
  using OriginIds = std::function<registry::OriginId(std::string_view name)>;

  // An Error: the file cannot be read, or another version of the program wrote it.
  static Result<std::unique_ptr<HistoryReader>> open(const std::string& path, OriginIds origins);
  ~HistoryReader();
  HistoryReader(const HistoryReader&) = delete;
  HistoryReader& operator=(const HistoryReader&) = delete;

  // nullopt at the end, and before what is cut or damaged.
  std::optional<HistoryRecord> next();
  // Why there are no more records than these; empty at the end of a whole file.
  const std::string& damage() const { return damage_; }

 private:
  HistoryReader(FileDescriptor fd, OriginIds origins);
  Result<void> read_head();
  bool read_frame();
  bool take_part(std::uint64_t tag, registry::Decoder& from, HistoryRecord& record);
  bool stop(std::string why);

  FileDescriptor fd_;
  OriginIds origins_;
  std::unique_ptr<HistoryStream> stream_;
  registry::OriginId origin_ = 0;
  std::string frame_;
  registry::Decoder from_{std::string_view()};
  std::uint32_t checksum_ = 0;
  std::string damage_;
};

}  // namespace meshdns::dnsd
