# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Builds of the presets of CMakePresets.json.

binary_dir() {
  case $1 in
    release) echo "$root/build" ;;
    *) echo "$root/build/$1" ;;
  esac
}

# under_preset PRESET SECONDS COMMAND...: runs a command within this time (stages.sh).
# ThreadSanitizer cannot live with much address randomisation; the build runs the test programs, too (to list their
# tests).
under_preset() {
  local preset=$1 limit=$2 prefix=()
  shift 2
  if [ "$preset" = tsan ] && setarch "$(uname -m)" -R true 2>/dev/null; then prefix=(setarch "$(uname -m)" -R); fi
  within "$limit" "${prefix[@]}" "$@"
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
  under_preset "$preset" 2400 cmake --build "$(binary_dir "$preset")" --parallel "$jobs" "${options[@]}"
}

daemon_alone=(-DMESHDNS_ISTIOD=OFF -DMESHDNS_KERNEL=OFF -DBUILD_TESTING=OFF)
product=(-DMESHDNS_ISTIOD=ON -DMESHDNS_KERNEL=ON -DBUILD_TESTING=OFF)
product_and_tests=(-DMESHDNS_ISTIOD=ON -DMESHDNS_KERNEL=ON -DBUILD_TESTING=ON)

# With the module for istiod sources only where `./dev build` or `./dev test` has built it before: gRPC is large.
command_run() {
  local parts=("${daemon_alone[@]}") begin
  if grep -qs '^MESHDNS_ISTIOD:BOOL=ON' "$root/build/CMakeCache.txt"; then
    need "${build_packages[@]}"
    parts=()
  else
    need "${run_packages[@]}"
  fi
  say "building the daemon; the first time takes about 3 minutes on two processors"
  begin=$SECONDS
  build_preset release "${parts[@]}" meshdnsd
  say "built in $((SECONDS - begin)) s; the daemon answers on 127.0.0.1:15053"
  cd "$root"
  exec build/meshdnsd run --config conf/meshdns.yaml
}

# The product, or the given targets, which may be test programs.
command_build() {
  local preset=${1:-release} targets=("${@:2}") packages=("${build_packages[@]}") parts=("${product[@]}") begin
  case $preset in
    release | debug) ;;
    asan-ubsan | tsan) packages+=("${sanitizer_packages[@]}") ;;
    *) die "build: unknown preset '$preset' (release, debug, asan-ubsan, tsan)" ;;
  esac
  if [ ${#targets[@]} -gt 0 ]; then
    packages+=("${unit_packages[@]}")
    parts=("${product_and_tests[@]}")
  else
    targets=(meshdnsd meshdns-istiod meshdns-kernel)
  fi
  need "${packages[@]}"
  say "building ${targets[*]}; the first time takes about 4 minutes on two processors"
  begin=$SECONDS
  build_preset "$preset" "${parts[@]}" "${targets[@]}"
  say "built in $((SECONDS - begin)) s"
}
