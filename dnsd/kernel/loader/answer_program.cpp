// SPDX-License-Identifier: Apache-2.0
#include "dnsd/kernel/loader/answer_program.hpp"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>

// The object file that clang made of answer.bpf.c.
asm(R"(
  .section .rodata.meshdns_answer, "a"
  .balign 8
meshdns_answer_object:
  .incbin ")" MESHDNS_ANSWER_OBJECT R"("
meshdns_answer_object_end:
  .previous
)");
extern const char kAnswerObject[] asm("meshdns_answer_object");
extern const char kAnswerObjectEnd[] asm("meshdns_answer_object_end");

namespace meshdns::kernel {
namespace {

// --- the messages of libbpf ----------------------------------------------------------------------

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

std::string take_libbpf_messages() {
  std::string text(captured.text.data(), captured.size);
  captured.size = 0;
  return text;
}

// --- the pinned maps -----------------------------------------------------------------------------

namespace {

std::unexpected<Error> fail_at(const std::string& path, const char* what) {
  return fail(path + ": " + what + ": " + std::strerror(errno));
}

std::string parent_of(const std::string& path) {
  const auto slash = path.find_last_not_of('/') == std::string::npos ? 0 : path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, std::max<std::size_t>(slash, 1));
}

Result<void> check_file_system(const std::string& path) {
  struct statfs system{};
  if (::statfs(path.c_str(), &system) != 0 && errno != ENOENT)
    return fail_at(path, "cannot be used");
  if (system.f_type == BPF_FS_MAGIC) return {};
  return fail(
      path + ": no BPF file system; make the folder and mount one: mount -t bpf -o mode=0711 bpf " +
      path);
}

bool has_layout_of(int fd, const bpf_map& map) {
  bpf_map_info info{};
  __u32 size = sizeof info;
  if (bpf_obj_get_info_by_fd(fd, &info, &size) != 0) return false;
  return info.type == static_cast<__u32>(bpf_map__type(&map)) &&
         info.key_size == bpf_map__key_size(&map) && info.value_size == bpf_map__value_size(&map) &&
         info.max_entries == bpf_map__max_entries(&map) &&
         info.map_flags == bpf_map__map_flags(&map);
}

bool has_our_version(int control) {
  const __u32 first = 0;
  meshdns_control state{};
  return bpf_map_lookup_elem(control, &first, &state) == 0 && state.version == MESHDNS_MAPS_VERSION;
}

// False: no such map, or another's.
Result<bool> is_pinned_as(const std::string& path, const bpf_map& map, bool is_control) {
  const FileDescriptor fd(bpf_obj_get(path.c_str()));
  if (!fd && errno == ENOENT) return false;
  if (!fd) return fail_at(path, "cannot open the pinned map");
  return has_layout_of(fd.get(), map) && (!is_control || has_our_version(fd.get()));
}

}  // namespace

Result<PinFolder> PinFolder::open(const std::string& path) {
  // A container may have the folder without what is around it.
  if (::access(path.c_str(), F_OK) != 0) {
    if (auto usable = check_file_system(parent_of(path)); !usable)
      return std::unexpected(usable.error());
    if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
      return fail_at(path, "cannot make the folder");
  }
  if (auto usable = check_file_system(path); !usable) return std::unexpected(usable.error());
  FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return fail_at(path, "cannot open the folder");
  return PinFolder(path, std::move(fd));
}

bool PinFolder::try_lock() const { return ::flock(fd_.get(), LOCK_EX | LOCK_NB) == 0; }

Result<bool> PinFolder::prepare_for(bpf_object& program) const {
  for (const char* const name : kSharedMaps) {
    const bpf_map* const map = bpf_object__find_map_by_name(&program, name);
    const auto is_ours =
        is_pinned_as(path_of(name), *map, std::string_view(name) == MESHDNS_MAP_CONTROL);
    if (!is_ours) return std::unexpected(is_ours.error());
    if (*is_ours) continue;
    if (auto removed = remove_maps(); !removed) return std::unexpected(removed.error());
    return false;
  }
  return true;
}

Result<void> PinFolder::give_to(std::optional<unsigned> group) const {
  const auto give = [&](const std::string& path, mode_t mode) {
    return (!group || ::chown(path.c_str(), -1, *group) == 0) && ::chmod(path.c_str(), mode) == 0;
  };
  for (const char* const name : kSharedMaps)
    if (!give(path_of(name), group ? 0660 : 0600))
      return fail_at(path_of(name), "cannot change group and mode");
  if (!give(path_, group ? 0710 : 0700)) return fail_at(path_, "cannot change group and mode");
  return {};
}

Result<void> PinFolder::remove_maps() const {
  for (const char* const name : kSharedMaps)
    if (::unlink(path_of(name).c_str()) != 0 && errno != ENOENT)
      return fail_at(path_of(name), "cannot remove the pinned map");
  return {};
}

Result<void> PinFolder::remove_all(const std::string& path) {
  if (::access(path.c_str(), F_OK) != 0 && errno == ENOENT) return {};
  auto folder = open(path);
  if (!folder) return std::unexpected(folder.error());
  if (!folder->try_lock()) return fail(path + ": meshdns-kernel uses this folder; stop it first");
  if (auto removed = folder->remove_maps(); !removed) return removed;
  if (::rmdir(path.c_str()) != 0) return fail_at(path, "cannot remove the folder");
  return {};
}

Result<FileDescriptor> open_pinned(const std::string& path) {
  FileDescriptor fd(bpf_obj_get(path.c_str()));
  if (!fd) return fail_at(path, "cannot open the pinned map");
  return fd;
}

// --- the program ---------------------------------------------------------------------------------

namespace {

constexpr const char* kProgramName = "meshdns_answer";

std::unexpected<Error> fail_with_messages(const char* what, int error) {
  return fail(std::string(what) + ": " + std::strerror(error) + "\n" + take_libbpf_messages());
}

Result<void> write_version(bpf_object& object) {
  const __u32 first = 0;
  meshdns_control fresh{};
  fresh.version = MESHDNS_MAPS_VERSION;
  const bpf_map* const map = bpf_object__find_map_by_name(&object, MESHDNS_MAP_CONTROL);
  if (bpf_map_update_elem(bpf_map__fd(map), &first, &fresh, BPF_ANY) != 0)
    return fail_with_messages("cannot write the version of the maps", errno);
  return {};
}

bool set_size(bpf_object& object, const char* map, std::uint32_t size) {
  return bpf_map__set_max_entries(bpf_object__find_map_by_name(&object, map), size) == 0;
}

// libbpf takes over what is pinned there, and pins what it makes.
bool set_pin_paths(bpf_object& object, const PinFolder& folder) {
  for (const char* const name : kSharedMaps) {
    bpf_map* const map = bpf_object__find_map_by_name(&object, name);
    if (bpf_map__set_pin_path(map, folder.path_of(name).c_str()) != 0) return false;
  }
  return true;
}

}  // namespace

void AnswerProgram::Closer::operator()(bpf_object* object) const { bpf_object__close(object); }

Result<AnswerProgram> AnswerProgram::load(const PinFolder& folder, const MapSizes& sizes) {
  libbpf_set_print(capture);
  AnswerProgram program;
  program.object_.reset(bpf_object__open_mem(
      kAnswerObject, static_cast<std::size_t>(kAnswerObjectEnd - kAnswerObject), nullptr));
  if (!program.object_) return fail_with_messages("cannot read the program", errno);
  bpf_object& object = *program.object_;
  if (!set_size(object, MESHDNS_MAP_ANSWERS, sizes.answers) ||
      !set_size(object, MESHDNS_MAP_CLIENTS, sizes.clients))
    return fail_with_messages("cannot set the sizes of the maps", errno);
  const auto taken = folder.prepare_for(object);
  if (!taken) return std::unexpected(taken.error());
  program.took_over_maps_ = *taken;
  if (!set_pin_paths(object, folder)) return fail_with_messages("cannot pin the maps", errno);
  if (const int result = bpf_object__load(&object); result != 0)
    return fail_with_messages("the kernel refuses the program", -result);
  if (!*taken)
    if (auto written = write_version(object); !written) return std::unexpected(written.error());
  if (auto found = program.find_program(); !found) return std::unexpected(found.error());
  return program;
}

Result<void> AnswerProgram::find_program() {
  fd_ = bpf_program__fd(bpf_object__find_program_by_name(object_.get(), kProgramName));
  bpf_prog_info info{};
  __u32 size = sizeof info;
  if (bpf_obj_get_info_by_fd(fd_, &info, &size) != 0)
    return fail_with_messages("cannot read the number of the program", errno);
  id_ = info.id;
  return {};
}

}  // namespace meshdns::kernel
