// SPDX-License-Identifier: Apache-2.0
#include "dnsd/kernel/loader/tc_filter.hpp"

#include <bpf/libbpf.h>

#include <cerrno>
#include <cstring>

#include "dnsd/kernel/loader/libbpf_messages.hpp"
#include "dnsd/kernel/loader/netlink.hpp"

namespace meshdns::kernel {
namespace {

// libbpf names a filter by its program: NAME:[ID].
constexpr std::string_view kNameStart = "meshdns_answer:[";

bpf_tc_hook hook_of(int interface, bpf_tc_attach_point point) {
  bpf_tc_hook hook{};
  hook.sz = sizeof hook;
  hook.ifindex = interface;
  hook.attach_point = point;
  return hook;
}

bpf_tc_opts our_place() {
  bpf_tc_opts options{};
  options.sz = sizeof options;
  options.handle = kHandle;
  options.priority = kPriority;
  return options;
}

std::unexpected<Error> fail_with(const char* what, int result) {
  std::string details = take_libbpf_messages();
  while (!details.empty() && details.back() == '\n') details.pop_back();
  return fail(std::string(what) + ": " + std::strerror(-result) +
              (details.empty() ? "" : " (" + details + ")"));
}

bool is_unused(int interface) {
  for (const Direction direction : {Direction::Ingress, Direction::Egress}) {
    const auto filters = list_filters(interface, direction);
    if (!filters || !filters->empty()) return false;
  }
  return true;
}

}  // namespace

Result<std::optional<std::uint32_t>> find_filter(int interface) {
  const auto filters = list_filters(interface, Direction::Ingress);
  if (!filters) return std::unexpected(filters.error());
  for (const Filter& filter : *filters) {
    if (filter.priority != kPriority || filter.handle != kHandle) continue;
    if (!filter.name.starts_with(kNameStart))
      return fail("another program has our place (priority 53): " + filter.name);
    return filter.program_id;
  }
  return std::nullopt;
}

Result<Qdisc> attach_filter(int interface, int program) {
  bpf_tc_hook hook = hook_of(interface, BPF_TC_INGRESS);
  const int made = bpf_tc_hook_create(&hook);
  take_libbpf_messages();  // it complains about one that is there
  if (made != 0 && made != -EEXIST) return fail_with("cannot make clsact", made);
  bpf_tc_opts options = our_place();
  options.prog_fd = program;
  options.flags = BPF_TC_F_REPLACE;
  if (const int result = bpf_tc_attach(&hook, &options); result != 0)
    return fail_with("cannot attach the program", result);
  return made == 0 ? Qdisc::Made : Qdisc::Found;
}

Result<void> detach_filter(int interface, Qdisc qdisc) {
  bpf_tc_hook hook = hook_of(interface, BPF_TC_INGRESS);
  const auto found = find_filter(interface);
  if (!found) return std::unexpected(found.error());
  if (*found) {
    const bpf_tc_opts options = our_place();
    const int result = bpf_tc_detach(&hook, &options);
    if (result != 0 && result != -ENOENT) return fail_with("cannot detach the program", result);
  }
  if (qdisc == Qdisc::Made && is_unused(interface)) {
    hook = hook_of(interface, static_cast<bpf_tc_attach_point>(BPF_TC_INGRESS | BPF_TC_EGRESS));
    bpf_tc_hook_destroy(&hook);
    take_libbpf_messages();
  }
  return {};
}

}  // namespace meshdns::kernel
