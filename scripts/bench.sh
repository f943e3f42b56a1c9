# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Benchmarks and fuzzers.

command_bench() {
  local packages=("${bench_packages[@]}") targets=(meshdnsd bench_{changes,echo,load})
  case "${1:-}" in
    --check | --set-budgets) packages=("${budget_packages[@]}") targets=(bench_hot_path) ;;
    --parts) packages=("${budget_packages[@]}") targets=(bench_parts) ;;
    --worst) packages=("${budget_packages[@]}") targets=(bench_worst_queries) ;;
    --pods) targets=(meshdnsd meshdns-kernel bench_{echo,load}) ;;
    --changes) packages=("${budget_packages[@]}") targets=(meshdnsd bench_{changes,load}) ;;
  esac
  need "${build_packages[@]}" "${unit_packages[@]}" "${packages[@]}"
  build_preset release -DMESHDNS_BENCH=ON "${targets[@]}"
  if [ "${1:-}" = --parts ]; then
    shift
    exec "$root/build/bench_parts" "$@"
  fi
  if [ "${1:-}" = --worst ]; then
    exec "$root/build/bench_worst_queries" "${2:-50}"
  fi
  if [ "${1:-}" = --changes ]; then
    shift
    exec "$root/tests/bench/changes/run" "$@"
  fi
  exec "$root/tests/bench/run" "$@"
}

# The targets are the programs build/fuzz/NAME_fuzz; the seeds are tests/fuzz/corpus/NAME/.
command_fuzz() {
  local seconds=${1:-60} target
  [ $# -eq 0 ] || shift
  [[ $seconds =~ ^[1-9][0-9]*$ ]] || die "fuzz: '$seconds' is no number of seconds"
  need "${build_packages[@]}" "${unit_packages[@]}" "${sanitizer_packages[@]}"
  local targets=("${@/%_fuzz/}")
  [ $# -gt 0 ] || mapfile -t targets < <(cd "$root/tests/fuzz" && printf '%s\n' *_fuzz.cpp | sed 's/_fuzz\.cpp$//')
  build_preset fuzz "${targets[@]/%/_fuzz}"
  for target in "${targets[@]}"; do fuzz_target "${target%_fuzz}" "$seconds"; done
}

# New inputs stay in build/fuzz/corpus/; a crash is written to build/fuzz/findings/.
fuzz_target() {
  local name=$1 seconds=$2 grown=$root/build/fuzz/corpus/$1 seeds=$root/tests/fuzz/corpus/$1
  local directories=("$grown")
  mkdir -p "$grown" "$root/build/fuzz/findings"
  [ ! -d "$seeds" ] || directories+=("$seeds")
  say "fuzz $name for $seconds s"
  "$root/build/fuzz/${name}_fuzz" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix="$root/build/fuzz/findings/$name-" "${directories[@]}" ||
    die "fuzz $name: a finding, see build/fuzz/findings/; add it to tests/fuzz/corpus/$name/ with the fix"
}
