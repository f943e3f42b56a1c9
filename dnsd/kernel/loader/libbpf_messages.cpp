// SPDX-License-Identifier: Apache-2.0
#include "dnsd/kernel/loader/libbpf_messages.hpp"

#include <bpf/libbpf.h>

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace meshdns::kernel {
namespace {

// libbpf is C: no exception may pass through it, so nothing is allocated in its callback.
struct Captured {
  std::array<char, 4000> text;
  std::size_t size = 0;
};
Captured captured;  // the loader has one thread

// The end of the log of the verifier has the reason: what is older gives way.
void append(const char* line, std::size_t size) noexcept {
  size = std::min(size, captured.text.size());
  const std::size_t kept = std::min(captured.size, captured.text.size() - size);
  std::memmove(captured.text.data(), captured.text.data() + captured.size - kept, kept);
  std::memcpy(captured.text.data() + kept, line, size);
  captured.size = kept + size;
}

int capture(enum libbpf_print_level level, const char* format, va_list arguments) noexcept {
  if (level != LIBBPF_WARN) return 0;
  static std::array<char, 1 << 20> line;  // the verifier's log comes in one piece
  const int size = std::vsnprintf(line.data(), line.size(), format, arguments);
  if (size > 0) append(line.data(), std::min<std::size_t>(size, line.size() - 1));
  return 0;
}

}  // namespace

void capture_libbpf_messages() { libbpf_set_print(capture); }

std::string take_libbpf_messages() {
  std::string text(captured.text.data(), captured.size);
  captured.size = 0;
  return text;
}

}  // namespace meshdns::kernel
