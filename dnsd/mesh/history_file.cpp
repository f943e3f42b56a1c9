// SPDX-License-Identifier: Apache-2.0
#include "dnsd/mesh/history_file.hpp"

#include <fcntl.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <span>
#include <system_error>

#include "dnsd/mesh/state_directory.hpp"
#include "registry/base/durable_file.hpp"

namespace meshdns::dnsd {
namespace {

using registry::Decoder;
using registry::OriginId;
using registry::ResolvedName;
using registry::StoredResource;

// The number goes up with every change of the layout, or of what a part means.
constexpr std::string_view kHistoryMagic = "meshdns-history 1\n";
constexpr std::string_view kHistoryMagicOfAnyVersion = "meshdns-history ";
constexpr std::string_view kHistoryPrefix = "history.";
// Parts are gathered to frames of about this size before they are compressed.
constexpr std::size_t kFrameSize = std::size_t{256} << 10;
// A part is as large as an object at most, whose source limits it; only a damaged file has more.
constexpr std::size_t kMaxFrameSize = std::size_t{256} << 20;
constexpr std::size_t kFrameHeaderSize = 8;  // size and checksum, both least octet first

// The parts of a record, each behind its number.
enum class Part : std::uint8_t {
  End,
  Facts,
  Origin,  // of the objects behind it
  Object,
  RemovedObject,
  Result,
  Vip,
  RemovedVip,
  Event,
};

void put_number32(char* to, std::size_t value) {
  for (unsigned i = 0; i < 4; ++i) to[i] = static_cast<char>(value >> (8 * i));
}
std::uint32_t number32(const char* from) {
  std::uint32_t value = 0;
  for (unsigned i = 0; i < 4; ++i)
    value |= static_cast<std::uint32_t>(static_cast<unsigned char>(from[i])) << (8 * i);
  return value;
}

std::span<std::uint8_t> octets_of(std::string& text) {
  return {reinterpret_cast<std::uint8_t*>(text.data()), text.size()};
}

std::string reason() { return std::strerror(errno); }

}  // namespace

std::vector<HistoryFile> history_files(const std::string& state_dir, std::string* error) {
  std::vector<HistoryFile> files;
  std::error_code code;
  for (std::filesystem::directory_iterator item(state_dir, code), end; !code && item != end;
       item.increment(code)) {
    const std::string name = item->path().filename();
    std::error_code ignored;
    if (!name.starts_with(kHistoryPrefix) ||
        item->symlink_status(ignored).type() != std::filesystem::file_type::regular)
      continue;
    HistoryFile file{.path = item->path()};
    const char* const last = name.data() + name.size();
    const auto [rest, problem] =
        std::from_chars(name.data() + kHistoryPrefix.size(), last, file.begins);
    if (problem != std::errc() || rest != last) continue;
    if (const auto size = item->file_size(ignored); !ignored) file.bytes = size;
    files.push_back(std::move(file));
  }
  if (code && error != nullptr) *error = "cannot read " + state_dir + ": " + code.message();
  std::ranges::sort(files, {}, &HistoryFile::begins);
  return files;
}

// A stream of zlib, in one direction.
class HistoryStream {
 public:
  enum class Direction : std::uint8_t { Compress, Expand };

  explicit HistoryStream(Direction direction) : is_expanding_(direction == Direction::Expand) {
    is_good_ = (is_expanding_ ? ::inflateInit(&zlib_)
                              : ::deflateInit(&zlib_, Z_DEFAULT_COMPRESSION)) == Z_OK;
  }
  ~HistoryStream() {
    if (is_expanding_)
      ::inflateEnd(&zlib_);
    else
      ::deflateEnd(&zlib_);
  }
  HistoryStream(const HistoryStream&) = delete;
  HistoryStream& operator=(const HistoryStream&) = delete;

  // Appends the other form of `from` to `to`, as a whole: what follows is not needed to read it.
  bool run(std::string& from, std::string& to) {
    std::array<char, 16'384> piece;
    zlib_.next_in = octets_of(from).data();
    zlib_.avail_in = static_cast<uInt>(from.size());
    do {
      zlib_.next_out = reinterpret_cast<Bytef*>(piece.data());
      zlib_.avail_out = piece.size();
      if (!is_good_) return false;
      const int result =
          is_expanding_ ? ::inflate(&zlib_, Z_SYNC_FLUSH) : ::deflate(&zlib_, Z_SYNC_FLUSH);
      if (result != Z_OK && result != Z_BUF_ERROR) return false;
      to.append(piece.data(), piece.size() - zlib_.avail_out);
      if (to.size() > kMaxFrameSize) return false;
    } while (zlib_.avail_out == 0);
    return zlib_.avail_in == 0;
  }

 private:
  const bool is_expanding_;
  z_stream zlib_{};
  bool is_good_ = false;
};

// --- Writing -------------------------------------------------------------------------------------

Result<std::unique_ptr<HistoryWriter>> HistoryWriter::create(const std::string& state_dir,
                                                             std::int64_t now, MakeRoom make_room) {
  constexpr int kTries = 1000;  // starts within a few seconds
  for (int i = 0; i < kTries; ++i, ++now) {
    std::string path = state_file(state_dir, std::string(kHistoryPrefix) + std::to_string(now));
    FileDescriptor fd(
        ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!fd && errno == EEXIST) continue;
    if (!fd) return fail("cannot write " + path + ": " + reason());
    return std::unique_ptr<HistoryWriter>(
        new HistoryWriter(std::move(path), std::move(fd), now, std::move(make_room)));
  }
  return fail("cannot write a file of the history in " + state_dir + ": all names are in use");
}

HistoryWriter::HistoryWriter(std::string path, FileDescriptor fd, std::int64_t begins,
                             MakeRoom make_room)
    : path_(std::move(path)),
      fd_(std::move(fd)),
      begins_(begins),
      make_room_(std::move(make_room)),
      stream_(std::make_unique<HistoryStream>(HistoryStream::Direction::Compress)) {
  write(kHistoryMagic);
  to_.number(registry::encoding_layout());
}

HistoryWriter::~HistoryWriter() {
  if (bytes_at_first_ == 0) ::unlink(path_.c_str());
}

void HistoryWriter::write(std::string_view octets) {
  if (!outcome_) return;
  if (auto room = make_room_(octets.size()); !room) {
    outcome_ = room;
    return;
  }
  checksum_ = checksum(octets, checksum_);
  if (!write_all(fd_.get(), {reinterpret_cast<const std::uint8_t*>(octets.data()), octets.size()}))
    outcome_ = fail("cannot write " + path_ + ": " + reason());
  bytes_ += octets.size();
}

void HistoryWriter::write_frame() {
  std::string framed(kFrameHeaderSize, '\0');
  const bool is_good = stream_->run(frame_, framed);
  frame_.clear();
  if (!is_good) {
    outcome_ = fail("cannot write " + path_ + ": zlib fails");
    return;
  }
  const std::string_view compressed = std::string_view(framed).substr(kFrameHeaderSize);
  put_number32(framed.data(), compressed.size());
  put_number32(framed.data() + 4, checksum(compressed, checksum_));
  write(framed);
}

void HistoryWriter::begin_part(std::uint64_t tag) {
  if (frame_.size() >= kFrameSize) write_frame();
  to_.number(tag);
}

void HistoryWriter::put(const HistoryFacts& facts) {
  begin_part(static_cast<std::uint64_t>(Part::Facts));
  to_.number(facts.configuration);
  to_.number(facts.serial);
  const registry::SourceState& sources = facts.sources;
  unsigned bits = 0;
  // The version before reads the last five.
  for (const bool bit :
       {sources.policies_unknown, sources.authoritative, sources.synced, sources.from_state_dir,
        sources.endpoints_unknown, facts.tells_networks_apart})
    bits = 2 * bits + (bit ? 1 : 0);
  to_.number(bits);
  to_.text(sources.awaited_source);
}

void HistoryWriter::put(std::string_view origin, std::uint32_t line, std::string_view encoded) {
  if (origin != origin_ || origin_.empty()) {
    begin_part(static_cast<std::uint64_t>(Part::Origin));
    to_.text(origin);
    origin_ = origin;
  }
  begin_part(static_cast<std::uint64_t>(Part::Object));
  to_.number(line);
  to_.text(encoded);
}

void HistoryWriter::put_removed(std::string_view origin, const StoredResource& object) {
  begin_part(static_cast<std::uint64_t>(Part::RemovedObject));
  to_.text(origin);
  to_.number(static_cast<std::uint64_t>(object.kind()));
  to_.text(object.cluster());
  to_.text(object.ns());
  to_.text(object.name());
}

void HistoryWriter::put(std::string_view ns, const ResolvedName& name) {
  begin_part(static_cast<std::uint64_t>(Part::Result));
  to_.text(ns);
  to_.text(name.host);
  to_.number(static_cast<std::uint64_t>(name.state));
  to_.number(name.links);
  to_.text(name.reason);
  to_.number(name.via.size());
  for (const auto& alias : name.via) to_.text(alias);
  to_.number(name.addresses.size());
  for (const auto& address : name.addresses) to_.octets(address.octets().data(), 16);
}

void HistoryWriter::put(const registry::VipAssignment& vip) {
  begin_part(static_cast<std::uint64_t>(Part::Vip));
  to_.text(vip.ns);
  to_.text(vip.host);
  to_.octets(vip.v4.octets().data(), 16);
  to_.octets(vip.v6.octets().data(), 16);
}

void HistoryWriter::put_removed(const registry::VipAssignment& vip) {
  begin_part(static_cast<std::uint64_t>(Part::RemovedVip));
  to_.text(vip.ns);
  to_.text(vip.host);
}

void HistoryWriter::put(const AnswerEvent& event) {
  begin_part(static_cast<std::uint64_t>(Part::Event));
  to_.number(static_cast<std::uint64_t>(event.unix_seconds));
  to_.number(static_cast<std::uint64_t>(event.kind));
  for (const std::string* text :
       {&event.name, &event.ns, &event.before, &event.after, &event.object, &event.source})
    to_.text(*text);
}

Result<void> HistoryWriter::end_record(std::int64_t now) {
  begin_part(static_cast<std::uint64_t>(Part::End));
  to_.number(static_cast<std::uint64_t>(now));
  write_frame();
  if (outcome_ && bytes_at_first_ == 0) bytes_at_first_ = bytes_;
  return outcome_;
}

// --- Reading -------------------------------------------------------------------------------------

Result<std::unique_ptr<HistoryReader>> HistoryReader::open(const std::string& path,
                                                           OriginIds origins) {
  auto fd = open_regular(path);
  if (!fd) return std::unexpected(fd.error());
  if (!*fd) return fail("cannot read " + path + ": " + reason());
  std::unique_ptr<HistoryReader> reader(new HistoryReader(*std::move(fd), std::move(origins)));
  if (auto good = reader->read_head(); !good) return fail(path + ": " + good.error().message);
  return reader;
}

HistoryReader::HistoryReader(FileDescriptor fd, OriginIds origins)
    : fd_(std::move(fd)),
      origins_(std::move(origins)),
      stream_(std::make_unique<HistoryStream>(HistoryStream::Direction::Expand)) {}

HistoryReader::~HistoryReader() = default;

Result<void> HistoryReader::read_head() {
  std::string magic(kHistoryMagic.size(), '\0');
  const auto got = read_fully(fd_.get(), octets_of(magic));
  if (!got) return std::unexpected(got.error());
  magic.resize(*got);
  if (magic != kHistoryMagic)
    return fail(magic.starts_with(kHistoryMagicOfAnyVersion)
                    ? "its format is of another version of the program"
                    : "it is not a file of the history");
  checksum_ = checksum(magic);
  if (!read_frame()) return {};  // next() has nothing, and damage() says why
  if (from_.number() != registry::encoding_layout())
    return fail("its objects are of another version of the program");
  return {};
}

bool HistoryReader::stop(std::string why) {
  if (damage_.empty()) damage_ = std::move(why);
  fd_.reset();
  return false;
}

bool HistoryReader::read_frame() {
  if (!fd_) return false;
  std::string header(kFrameHeaderSize, '\0');
  auto got = read_fully(fd_.get(), octets_of(header));
  if (!got) return stop(got.error().message);
  if (*got == 0) {
    fd_.reset();
    return false;
  }
  if (*got != header.size()) return stop("its last record is cut short");
  const std::size_t size = number32(header.data());
  if (size > kMaxFrameSize) return stop("a record is damaged");
  std::string octets;
  while (octets.size() < size) {  // in steps, so that a false size costs no memory
    const std::size_t begin = octets.size();
    octets.resize(begin + std::min(size - begin, 4 * kFrameSize));
    got = read_fully(fd_.get(), octets_of(octets).subspan(begin));
    if (!got) return stop(got.error().message);
    if (*got != octets.size() - begin) return stop("its last record is cut short");
  }
  if (number32(header.data() + 4) != checksum(octets, checksum_))
    return stop("a record is damaged");
  checksum_ = checksum(octets, checksum(header, checksum_));
  frame_.clear();
  if (!stream_->run(octets, frame_)) return stop("a record is damaged");
  from_ = Decoder(frame_);
  return true;
}

std::optional<HistoryRecord> HistoryReader::next() {
  HistoryRecord record;
  bool has_begun = false;
  while (!from_.at_end() || read_frame()) {
    if (from_.at_end()) continue;
    has_begun = true;
    const std::uint64_t tag = from_.number();
    if (tag == static_cast<std::uint64_t>(Part::End)) {
      record.time = static_cast<std::int64_t>(from_.number());
      if (!from_.bad()) return record;
    }
    if (!take_part(tag, from_, record) || from_.bad()) {
      from_ = Decoder(std::string_view());
      stop("a record is damaged");
      return std::nullopt;
    }
  }
  if (has_begun) stop("its last record is cut short");
  return std::nullopt;
}

namespace {

IpAddress address_from(Decoder& from) {
  IpAddress::Octets octets{};
  from.octets(octets.data(), octets.size());
  return IpAddress::v6(octets);
}

HistoryFacts facts_from(Decoder& from) {
  HistoryFacts facts;
  facts.configuration = from.number();
  facts.serial = static_cast<std::uint32_t>(from.number());
  const std::uint64_t bits = from.number();
  facts.sources.policies_unknown = (bits & 32) != 0;
  facts.sources.authoritative = (bits & 16) != 0;
  facts.sources.synced = (bits & 8) != 0;
  facts.sources.from_state_dir = (bits & 4) != 0;
  facts.sources.endpoints_unknown = (bits & 2) != 0;
  facts.tells_networks_apart = (bits & 1) != 0;
  facts.sources.awaited_source = from.text();
  return facts;
}

ResolvedName result_from(Decoder& from) {
  ResolvedName name;
  name.host = from.text();
  name.state = static_cast<ResolvedName::State>(
      std::min<std::uint64_t>(from.number(), static_cast<int>(ResolvedName::State::Failed)));
  name.links = static_cast<std::uint8_t>(from.number());
  name.reason = from.text();
  for (std::uint64_t left = from.length(); left > 0 && !from.bad(); --left)
    name.via.emplace_back(from.text());
  for (std::uint64_t left = from.length(); left > 0 && !from.bad(); --left)
    name.addresses.push_back(address_from(from));
  return name;
}

AnswerEvent event_from(Decoder& from) {
  AnswerEvent event;
  event.unix_seconds = static_cast<std::int64_t>(from.number());
  event.kind = static_cast<AnswerEvent::Kind>(
      std::min<std::uint64_t>(from.number(), static_cast<int>(AnswerEvent::Kind::Different)));
  for (std::string* text :
       {&event.name, &event.ns, &event.before, &event.after, &event.object, &event.source})
    *text = from.text();
  return event;
}

}  // namespace

// Returns whether the part is one of this version.
bool HistoryReader::take_part(std::uint64_t tag, Decoder& from, HistoryRecord& record) {
  switch (static_cast<Part>(tag)) {
    case Part::Facts:
      record.facts = facts_from(from);
      return true;
    case Part::Origin: {
      const std::string_view name = from.text();
      if (!from.bad() && origins_) origin_ = origins_(name);
      return true;
    }
    case Part::Object: {
      const auto line = static_cast<std::uint32_t>(from.number());
      const std::string_view encoded = from.text();
      if (!origins_ || from.bad()) return true;
      auto object = StoredResource::from_encoded(encoded, origin_, line);
      if (!object) return false;
      record.objects.push_back(*std::move(object));
      return true;
    }
    case Part::RemovedObject: {
      std::string origin(from.text());
      registry::ResourceKey key;
      key.kind = static_cast<registry::Kind>(from.number());
      key.cluster = from.text();
      key.ns = from.text();
      key.name = from.text();
      if (origins_) record.removed.emplace_back(std::move(origin), std::move(key));
      return true;
    }
    case Part::Result: {
      std::string ns(from.text());
      record.results.emplace_back(std::move(ns), result_from(from));
      return true;
    }
    case Part::Vip: {
      registry::VipAssignment& vip = record.vips.emplace_back();
      vip.ns = from.text();
      vip.host = from.text();
      vip.v4 = address_from(from);
      vip.v6 = address_from(from);
      return true;
    }
    case Part::RemovedVip: {
      std::string ns(from.text());
      record.removed_vips.emplace_back(std::move(ns), from.text());
      return true;
    }
    case Part::Event:
      record.events.push_back(event_from(from));
      return true;
    case Part::End:
      break;
  }
  return false;
}

}  // namespace meshdns::dnsd
