# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# The Debian packages.

project_version() { sed -n 's/^project(meshdns VERSION \([0-9.]*\).*/\1/p' "$root/CMakeLists.txt"; }

command_package() {
  case ${1:-} in
    '') package_binary ;;
    check) package_check ;;
    source) package_source ;;
    *) die "package: unknown argument '$1' (check, source, or nothing)" ;;
  esac
}

# Lintian prefers not to be root, but need not be anybody else.
package_binary() {
  need "${build_packages[@]}" "${package_packages[@]}"
  build_preset symbols "${product[@]}" meshdnsd meshdns-kernel
  local output=$root/build/package
  rm -rf "$output"
  "$root/conf/debian/build-package" "$root/build/symbols/meshdnsd" "$(project_version)-1" "$output"
  lintian --fail-on error,warning "$output"/*.deb
  say "$(ls "$output"/*.deb)"
}

package_source() {
  need "${package_packages[@]}"
  local output=$root/build/source-package
  rm -rf "$output"
  "$root/conf/debian/build-source" "$(project_version)" "$output"
  lintian --fail-on error,warning "$output"/*.dsc
  say "$(ls "$output"/*.dsc)"
}

package_check() {
  need "${build_packages[@]}" "${package_packages[@]}"
  build_preset release "${product[@]}" meshdnsd meshdns-kernel
  need bind9-dnsutils curl debootstrap dnsperf iproute2 procps util-linux
  "$root/tests/package/lifecycle" "$root/build/meshdnsd"
  "$root/tests/package/boot" "$root/build/meshdnsd"
}
