# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# The Debian packages.

project_version() { sed -n 's/^project(meshdns VERSION \([0-9.]*\).*/\1/p' "$root/CMakeLists.txt"; }

command_package() {
  case ${1:-} in
    '') package_binary ;;
    check) package_check ;;
    source) package_source ;;
    image) package_image ;;
    *) die "package: unknown argument '$1' (check, source, image, or nothing)" ;;
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

package_image() {
  need "${build_packages[@]}" "${image_packages[@]}"
  build_preset release "${product[@]}" meshdnsd meshdns-kernel
  local output=$root/build/image
  rm -rf "$output"
  local time  # read here: root may not look at somebody else's repository
  time=$(git -C "$root" log -1 --format=%ct)
  as_root env "SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$time}" "$root/conf/kubernetes/build-image" "$root/build/meshdnsd" \
    "$(project_version)" "$output"
  say "$(ls "$output"/*.tar)"
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
  need bind9-dnsutils curl debootstrap dnsperf git iproute2 procps util-linux
  "$root/tests/package/lifecycle" "$root/build/meshdnsd"
  "$root/tests/package/boot" "$root/build/meshdnsd"
  package_again
}

# The last commit, built in two other folders, gives the same packages.
package_again() {
  local folder tree
  folder=$(mktemp -d)
  for tree in "$folder/one" "$folder/in/another"; do
    git clone --quiet "$root" "$tree"
    MESHDNS_PACKAGE_COMPRESSION=none "$tree/dev" package
  done
  diff "$folder/one/build/package/SHA256SUMS" "$folder/in/another/build/package/SHA256SUMS" ||
    die "package check: two builds of one commit differ (kept in $folder)"
  rm -rf "$folder"
}
