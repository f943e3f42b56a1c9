// SPDX-License-Identifier: Apache-2.0
// Files that survive a power cut: whole or as they were before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "registry/base/file_descriptor.hpp"
#include "registry/base/result.hpp"

namespace meshdns {

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
