// SPDX-License-Identifier: Apache-2.0
#include "dnsd/kernel/loader/privileges.hpp"

#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>

namespace meshdns::kernel {
namespace {

struct Capabilities {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  std::array<__user_cap_data_struct, 2> data{};
};

constexpr std::uint32_t bit_of(unsigned capability) { return 1U << (capability % 32); }

bool has(const Capabilities& all, unsigned capability) {
  return (all.data[capability / 32].effective & bit_of(capability)) != 0;
}

Error failed_call(const char* what) { return {std::string(what) + ": " + std::strerror(errno)}; }

}  // namespace

Result<void> check_privileges(bool change_group) {
  Capabilities own;
  if (syscall(SYS_capget, &own.header, own.data.data()) != 0)
    return std::unexpected(failed_call("capget"));
  const bool is_admin = has(own, CAP_SYS_ADMIN);  // it includes two of the others
  std::string missing;
  if (!has(own, CAP_BPF) && !is_admin) missing += " CAP_BPF";
  if (!has(own, CAP_PERFMON) && !is_admin) missing += " CAP_PERFMON";
  if (!has(own, CAP_NET_ADMIN)) missing += " CAP_NET_ADMIN";
  if (change_group && !has(own, CAP_CHOWN)) missing += " CAP_CHOWN";
  if (missing.empty()) return {};
  return fail("missing capabilities:" + missing +
              "; run meshdns-kernel as root, or by meshdns-kernel.service");
}

Result<void> drop_privileges() {
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
    return std::unexpected(failed_call("no_new_privs"));
  if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0)
    return std::unexpected(failed_call("ambient capabilities"));
  Capabilities kept;
  kept.data[0].effective = kept.data[0].permitted = bit_of(CAP_NET_ADMIN);
  if (syscall(SYS_capset, &kept.header, kept.data.data()) != 0)
    return std::unexpected(failed_call("capset"));
  return {};
}

}  // namespace meshdns::kernel
