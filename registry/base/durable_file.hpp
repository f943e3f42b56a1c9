// SPDX-License-Identifier: Apache-2.0
// Opens, reads and writes files as a whole, some of which survive a power cut: whole or as they
// were before.  Checksums of saved files, and hashes that other processes compare.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "registry/base/file_descriptor.hpp"
#include "registry/base/result.hpp"

namespace meshdns {

// Opens `path` for reading.  Never waits: for the writer of a FIFO, or for a terminal.  Follows
// links.  An empty descriptor: errno says why.  Any thread.
FileDescriptor open_for_reading(const std::string& path);

// False when not all of it could be written; errno says why.  Any thread.
bool write_all(int fd, std::span<const std::uint8_t> octets);

// Reads until `octets` is full or the input ends, and returns the number of octets.  After an
// Error, errno says why, too.  Any thread.
Result<std::size_t> read_fully(int fd, std::span<std::uint8_t> octets);

// Reads to the end of the input, whatever size it says it has, but stops beyond `limit` octets:
// more than these mean that the input is longer.  After an Error, errno says why, too.  Any thread.
Result<std::string> read_to_end(int fd, std::size_t limit);

// Checksums and stable hashes are the same in every process and on every machine.  For hash tables
// see hash_bytes() in registry/base/hash.hpp.

// Returns the CRC-32 (of zlib and gzip) of `octets`, continued from the CRC-32 of what comes before
// them.  Detects damage, not forgery.
std::uint32_t checksum(std::span<const std::uint8_t> octets, std::uint32_t before = 0);
std::uint32_t checksum(std::string_view text, std::uint32_t before = 0);

// FNV-1a with 64 bits.  Anybody can construct two texts with one hash.
constexpr std::uint64_t stable_hash(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return hash;
}

// FNV-1a with 32 bits, as Istio uses it.
constexpr std::uint32_t stable_hash32(std::string_view text) {
  std::uint32_t hash = 0x811c9dc5U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x01000193U;
  return hash;
}

// A file that takes the place of `path` once it is whole and on the disk.  Until then it is beside
// it, as PATH.new, and what was there before stays; given up on the way, it leaves nothing behind.
// Readable by the owner alone.  Errors name the file and the reason.  One thread at a time.
class DurableFile {
 public:
  static Result<DurableFile> create(std::string path);
  DurableFile(DurableFile&& other) noexcept = default;
  DurableFile& operator=(DurableFile&&) = delete;
  ~DurableFile();

  Result<void> write(std::span<const std::uint8_t> octets);
  // Syncs, renames, syncs the directory.
  Result<void> commit();

 private:
  DurableFile(std::string path, FileDescriptor fd) : path_(std::move(path)), fd_(std::move(fd)) {}
  std::string temporary() const { return path_ + ".new"; }

  std::string path_;
  FileDescriptor fd_;  // none once it is in place
};

// Any thread.  All of it at once.
Result<void> write_durably(const std::string& path, std::span<const std::uint8_t> octets);

// Opens `path` for reading.  It does not follow a symbolic link and does not wait for a FIFO: they
// are Errors, as everything that is not a regular file.  No descriptor: there is no such file.
Result<FileDescriptor> open_regular(const std::string& path);

// Returns the octets of `path`, or nullopt if there is no such file.  Errors are those of
// open_regular(), or that the file is larger than `max_size`.
Result<std::optional<std::vector<std::uint8_t>>> read_octets(const std::string& path,
                                                             std::size_t max_size);

}  // namespace meshdns
