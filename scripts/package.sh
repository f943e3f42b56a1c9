# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# The Debian package.

# The project's version, and the first package of it.
package_version() {
  local version
  version=$(sed -n 's/^project(meshdns VERSION \([0-9.]*\).*/\1/p' "$root/CMakeLists.txt")
  echo "$version-1"
}

command_package() {
  case ${1:-} in
    '' | check) ;;
    *) die "package: unknown argument '$1' (check, or nothing)" ;;
  esac
  need "${build_packages[@]}" "${package_packages[@]}"
  build_preset release meshdnsd
  if [ "${1:-}" = check ]; then
    need bind9-dnsutils curl debootstrap dnsperf iproute2 procps util-linux
    "$root/tests/package/lifecycle" "$root/build/meshdnsd"
    "$root/tests/package/boot" "$root/build/meshdnsd"
    return
  fi
  local output=$root/build/package
  rm -rf "$output"
  "$root/conf/debian/build-package" "$root/build/meshdnsd" "$(package_version)" "$output"
  # Lintian prefers not to be root, but need not be anybody else.
  lintian --fail-on error,warning "$output"/*.deb
  say "$(ls "$output"/*.deb)"
}
