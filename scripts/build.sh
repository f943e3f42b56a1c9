# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Builds of the presets of CMakePresets.json.

binary_dir() {
  case $1 in
    release) echo "$root/build" ;;
    *) echo "$root/build/$1" ;;
  esac
}

# ThreadSanitizer of GCC 12 cannot live with much address randomisation; the build runs the test
# programs, too (to list their tests).
under_preset() {
  local preset=$1
  shift
  if [ "$preset" = tsan ] && setarch "$(uname -m)" -R true 2>/dev/null; then
    setarch "$(uname -m)" -R "$@"
  else
    "$@"
  fi
}

# build_preset PRESET [-DNAME=VALUE...] [TARGET...]
build_preset() {
  local preset=$1 target options=()
  shift
  while [[ ${1:-} == -D* ]]; do
    options+=("$1")
    shift
  done
  if command -v ccache >/dev/null; then
    export CCACHE_DIR=$root/build/ccache CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1 CCACHE_MAXSIZE=2G
    options+=(-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
  fi
  (cd "$root" && cmake --preset "$preset" --log-level=WARNING "${options[@]}") >/dev/null
  options=()
  for target in "$@"; do options+=(--target "$target"); done
  under_preset "$preset" cmake --build "$(binary_dir "$preset")" --parallel "$jobs" "${options[@]}"
}

command_run() {
  need "${build_packages[@]}"
  build_preset release meshdnsd
  cd "$root"
  exec build/meshdnsd run --config conf/meshdns.yaml
}

command_build() {
  local preset=${1:-release}
  [ $# -eq 0 ] || shift
  case $preset in
    release | debug | asan-ubsan | tsan) ;;
    *) die "build: unknown preset '$preset' (release, debug, asan-ubsan, tsan)" ;;
  esac
  need "${build_packages[@]}"
  build_preset "$preset" "$@"
}
