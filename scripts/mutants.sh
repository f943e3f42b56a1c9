# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# `./dev mutants`: small faults of the product, and whether the tests see them (tests/mutants/mutants).

readonly mutants=$root/build/mutants
readonly mutants_program=$root/tests/mutants/mutants

# command_mutants [FOLDER...]: the faults of these folders, or all.
command_mutants() {
  local folder
  for folder in "$@"; do [ -d "$root/$folder" ] || die "mutants: there is no folder '$folder'"; done
  need "${build_packages[@]}" "${test_packages[@]}" "${sanitizer_packages[@]}"
  begin_stages
  test_mutants "$@"
  finish_stages --checks
}

# test_mutants [FOLDER...]: also the faults of memory and threads, under the sanitizer that finds each.
test_mutants() {
  local preset targets
  for preset in debug asan-ubsan tsan; do
    mapfile -t targets < <("$python" "$mutants_program" targets "$preset" "$@")
    [ -n "${targets[0]}" ] || continue
    stage "mutants, $preset: build" build_mutants "$preset" "${targets[@]}"
    stage "mutants, $preset: tests" under_preset "$preset" 2400 "$python" "$mutants_program" run "$preset" "$mutants/$preset" "$@"
  done
}

# build_mutants PRESET TARGET...: a copy of the tree that has all faults, of which the environment selects one.
build_mutants() {
  local preset=$1 target options=()
  shift
  "$python" "$mutants_program" tree "$mutants/tree"
  if command -v ccache >/dev/null; then
    export CCACHE_DIR=$root/build/ccache CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1 CCACHE_MAXSIZE=2G
    options+=(-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
  fi
  (cd "$mutants/tree" && cmake --preset "$preset" -B "$mutants/$preset" --log-level=WARNING \
    "${product_and_tests[@]}" "${options[@]}" -DCMAKE_C_COMPILER=clang-19 -DCMAKE_CXX_COMPILER=clang++-19 \
    "-DCMAKE_CXX_FLAGS=-w -include $mutants/tree/mutant.hpp" -DCMAKE_CXX_FLAGS_DEBUG=-O0 -DCMAKE_C_FLAGS_DEBUG=-O0 \
    -DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=lld) >/dev/null
  options=()
  for target in "$@"; do options+=(--target "$target"); done
  under_preset "$preset" 2400 cmake --build "$mutants/$preset" --parallel "$jobs" "${options[@]}"
}
