// SPDX-License-Identifier: Apache-2.0
#include "dnsd/net/socket_group.hpp"

#include <linux/filter.h>
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <vector>

#ifndef SO_ATTACH_REUSEPORT_CBPF
#define SO_ATTACH_REUSEPORT_CBPF 51
#endif
#ifndef SO_DETACH_REUSEPORT_BPF
#define SO_DETACH_REUSEPORT_BPF 68
#endif

namespace meshdns::dnsd {
namespace {

void choose_by(std::span<sock_filter> code, const ListenSocket& any_of_group) {
  const sock_fprog program{static_cast<unsigned short>(code.size()), code.data()};
  ::setsockopt(any_of_group.fd.get(), SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program,
               sizeof program);
}

sock_filter random_number() {
  return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(SKF_AD_OFF + SKF_AD_RANDOM));
}

}  // namespace

void spread_at_random(const ListenSocket& any_of_group, unsigned workers) {
  if (workers < 2) return;
  std::array<sock_filter, 3> code = {
      random_number(),
      BPF_STMT(BPF_ALU | BPF_MOD | BPF_K, workers),
      BPF_STMT(BPF_RET | BPF_A, 0),
  };
  choose_by(code, any_of_group);
}

void spread_over(const ListenSocket& any_of_group, std::span<const unsigned> workers) {
  std::vector<sock_filter> code = {
      random_number(),
      BPF_STMT(BPF_ALU | BPF_MOD | BPF_K, static_cast<std::uint32_t>(workers.size())),
  };
  for (std::uint32_t drawn = 0; drawn < workers.size(); ++drawn) {
    code.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, drawn, 0, 1));
    code.push_back(BPF_STMT(BPF_RET | BPF_K, workers[drawn]));
  }
  code.push_back(BPF_STMT(BPF_RET | BPF_K, workers.front()));  // a program must end
  choose_by(code, any_of_group);
}

void spread_by_hash(const ListenSocket& any_of_group) {
  const int unused = 0;  // the kernel refuses the option without a value
  ::setsockopt(any_of_group.fd.get(), SOL_SOCKET, SO_DETACH_REUSEPORT_BPF, &unused, sizeof unused);
}

}  // namespace meshdns::dnsd
