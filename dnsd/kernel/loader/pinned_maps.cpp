// SPDX-License-Identifier: Apache-2.0
#include "dnsd/kernel/loader/pinned_maps.hpp"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

namespace meshdns::kernel {
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

std::optional<unsigned> to_number(std::string_view text) {
  unsigned number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
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

Result<unsigned> group_of(const std::string& user) {
  const auto colon = user.find(':');
  if (colon != std::string::npos) {
    const auto group = to_number(std::string_view(user).substr(colon + 1));
    if (!group || !to_number(std::string_view(user).substr(0, colon)))
      return fail("--user " + user + ": neither a user's name nor UID:GID");
    return *group;
  }
  const passwd* const entry = ::getpwnam(user.c_str());
  if (entry == nullptr) return fail("--user " + user + ": no such user");
  return entry->pw_gid;
}

}  // namespace meshdns::kernel
