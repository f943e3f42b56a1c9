// SPDX-License-Identifier: Apache-2.0
#include "dnsd/kernel/loader/answer_program.hpp"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <cerrno>
#include <cstring>

#include "dnsd/kernel/loader/libbpf_messages.hpp"

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
  capture_libbpf_messages();
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
