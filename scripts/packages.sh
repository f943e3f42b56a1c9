# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# The Debian packages of each command, and their installation.

# The daemon alone, for `./dev run`.
run_packages=(
  cmake ninja-build g++ pkgconf
  libc-ares-dev libcli11-dev libcrypt-dev libcurl4-openssl-dev libfmt-dev libfstrm-dev libgnutls28-dev libldns-dev
  libmicrohttpd-dev libprotobuf-c-dev libsodium-dev libspdlog-dev libssl-dev libsystemd-dev libuv1-dev libyaml-cpp-dev
  libyaml-dev prometheus-cpp-dev protobuf-c-compiler rapidjson-dev zlib1g-dev
)
# Beside it the module for istiod sources, and the kernel's program with its loader.
build_packages=(
  "${run_packages[@]}" clang libbpf-dev libgrpc++-dev libprotobuf-dev protobuf-compiler
)
unit_packages=(libgmock-dev libgtest-dev python3)
test_packages=(
  "${unit_packages[@]}"
  apparmor bind9-dnsutils curl dbus-daemon dnsmasq-base dnsperf git groff-base hugo iproute2 knot knot-dnsutils libfaketime
  man-db musl-tools nftables nghttp2-proxy nsd openssl procps python3-dbus python3-dnspython python3-gi python3-grpcio
  python3-pytest python3-pytest-timeout python3-pytest-xdist python3-yaml systemd unbound
)
sanitizer_packages=(clang-19 libclang-rt-19-dev lld-19 llvm-19)  # of llvm, llvm-symbolizer and llvm-cov
# For tests of pages in a browser, of the metrics and of packages.
all_packages=("${test_packages[@]}" "${sanitizer_packages[@]}" chromium libcap2-bin lintian prometheus umoci)
docs_packages=(groff-base hugo python3 python3-yaml)
lint_packages=(clang-format-19 clang-tidy-19 git shellcheck)
bench_packages=(
  bind9 dnsdist dnsmasq-base knot knot-resolver libbenchmark-dev nsd openssl pdns-recursor python3 unbound valgrind
)
budget_packages=(libbenchmark-dev python3 valgrind)  # what `bench` needs without other servers
# Packages that tests install on machines of their own, never on this one (tests/harness/machine.py).
downloaded_packages=(libbluetooth3 libmm-glib0 libndp0 libnm0 libteamdctl0 network-manager systemd-resolved)
image_packages=(ca-certificates git libcap2-bin umoci)
package_packages=(binutils dpkg-dev file git gzip lintian python3 xz-utils)

# cross_packages ARCHITECTURE: those that build for it on a machine of another one, and run the result.  One a line.
cross_packages() {
  local package
  printf '%s\n' "crossbuild-essential-$1" qemu-user-static
  for package in "${build_packages[@]}"; do
    case $package in
      g++) ;;                                         # of crossbuild-essential
      libcli11-dev | rapidjson-dev) echo "$package" ;;  # headers for all architectures
      *-dev) echo "$package:$1" ;;
      *) echo "$package" ;;
    esac
  done
}

# Puts downloaded_packages into build/debs.  Without Debian's archive, their tests are skipped.
download_packages() {
  local directory=$root/build/debs package
  mkdir -p "$directory"
  is_debian 12 || return 0  # on another release, they may need others
  for package in "${downloaded_packages[@]}"; do
    compgen -G "$directory/${package}_*.deb" >/dev/null || (cd "$directory" && apt-get -qq download "$package") 2>/dev/null ||
      say "cannot download $package"
  done
}

# Those of the given packages that are not installed, one a line.
missing_packages() {
  local installed
  installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "$@" 2>/dev/null | sed -n 's/^installed //p' || true)
  comm -23 <(printf '%s\n' "$@" | sort -u) <(sort -u <<<"$installed")
}

# is_debian RELEASE...: whether this machine is one of these.
is_debian() {
  local release
  for release in "$@"; do
    if grep -qsx 'ID=debian' /etc/os-release && grep -qsx "VERSION_ID=\"$release\"" /etc/os-release; then return 0; fi
  done
  return 1
}

need() {
  if is_debian 12 13; then
    need_on_debian "$@"
  elif ! command -v dpkg-query >/dev/null || [ -n "$(missing_packages "$@")" ]; then
    say_what_is_needed "$@"
  fi
}

need_on_debian() {
  local missing
  mapfile -t missing < <(missing_packages "$@")
  [ ${#missing[@]} -gt 0 ] || return 0
  [ -z "${MESHDNS_NO_INSTALL:-}" ] || die "missing packages: ${missing[*]}"
  say "installing Debian packages: ${missing[*]}"
  as_root bash -c "$(declare -f install_as_root disable_services); install_as_root \"\$@\"" dev "${missing[@]}"
}

# Elsewhere we cannot know the packages' names; we say what they are called on Debian and go on.
say_what_is_needed() {
  cat >&2 <<TEXT
dev: this is not Debian 12 or 13, so nothing is installed.  Needed: GCC 12 or later with C++23, CMake 3.25
or later, Ninja, and what Debian calls
  $*
TEXT
}

as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    echo "(with sudo)"
    sudo "$@"
  else
    die "not root and no sudo; as root: apt-get install --no-install-recommends ${missing[*]}"
  fi
}

# Runs as root in a shell of its own.  Name servers must not start on this machine because a test
# uses their programs: neither now (policy-rc.d) nor at the next boot (disable_services).
install_as_root() {
  set -euo pipefail
  export DEBIAN_FRONTEND=noninteractive
  local policy=/usr/sbin/policy-rc.d
  if [ ! -e "$policy" ]; then
    trap 'rm -f /usr/sbin/policy-rc.d' EXIT
    trap 'exit 130' INT TERM
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
  fi
  local apt=(apt-get -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0) install=(install --no-install-recommends)
  "${apt[@]}" -qq update
  # Prints the size, and a line for each tenth of the packages that are unpacked and set up.
  LC_ALL=C "${apt[@]}" --simulate "${install[@]}" "$@" | sed -n 's/^[0-9]* upgraded, \([0-9]* newly installed\).*/\1/p'
  LC_ALL=C "${apt[@]}" --assume-no "${install[@]}" "$@" | sed -n '/^Need to get/p; /^After this operation/p' || true
  LC_ALL=C "${apt[@]}" -y "${install[@]}" "$@" | awk '
    /newly installed/ { steps = 2 * $3 }
    /^(Unpacking|Setting up) / { if (++done * 10 >= (tenth + 1) * steps) { tenth = int(done * 10 / steps); print tenth "0 %"; fflush() } }'
  disable_services "$@"
}

# The services of freshly installed packages; those that were here before are the user's.
disable_services() {
  local service
  for service in $(dpkg -L "$@" | sed -n 's#^\(/usr\)\?/lib/systemd/system/\([^@/]*\)\.service$#\2#p'); do
    if [ -d /run/systemd/system ]; then
      systemctl disable --now --quiet "$service" 2>/dev/null || true
    elif [ -e "/etc/init.d/$service" ]; then
      update-rc.d "$service" disable >/dev/null 2>&1 || true
    elif command -v systemctl >/dev/null; then
      systemctl disable --quiet "$service" 2>/dev/null || true
    fi
  done
}
