# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# The tests under each preset.

sanitizer_environment() {
  local preset=$1 log=$stage_dir/report
  local common="exitcode=66:second_deadlock_stack=1:log_path=$log"
  export ASAN_OPTIONS="$common:detect_leaks=1:detect_stack_use_after_return=1:strict_string_checks=1"
  export UBSAN_OPTIONS="print_stacktrace=1:log_path=$log"
  export TSAN_OPTIONS="$common:halt_on_error=0"
  [ ! -f "$root/tests/tsan.supp" ] || TSAN_OPTIONS+=":suppressions=$root/tests/tsan.supp"
  [ ! -f "$root/tests/lsan.supp" ] || export LSAN_OPTIONS="suppressions=$root/tests/lsan.supp"
  export MESHDNS_PRESET=$preset
}

# A report of a process that a test started fails the stage, even if nobody looked at its exit status.
# LeakSanitizer sometimes fails itself where gRPC's threads end during its search; that is no report of ours.
fail_on_sanitizer_reports() {
  local reports
  grep -lF "LeakSanitizer has encountered a fatal error" "$stage_dir"/report.* 2>/dev/null | xargs -r rm -v || true
  reports=("$stage_dir"/report.*)
  [ -e "${reports[0]}" ] || return 0
  head -n 60 "${reports[@]}"
  die "${#reports[@]} sanitizer reports, the whole in $stage_dir"
}

# unit_tests PRESET [CTEST ARGUMENT...]
# Failed tests run once more, alone; the summary says so.
unit_tests() {
  local preset=$1 status=0
  shift
  sanitizer_environment "$preset"
  run_ctest "$preset" ctest.xml --parallel "$((2 * jobs))" "$@" || status=$?
  if [ "$status" != 0 ]; then
    status=0
    say "what failed, once more"
    in_quiet run_ctest "$preset" ctest_again.xml --rerun-failed || status=$?
  fi
  fail_on_sanitizer_reports
  return "$status"
}

# run_ctest PRESET RESULT_FILE [CTEST ARGUMENT...]
run_ctest() {
  local preset=$1 result=$2
  shift 2
  under_preset "$preset" ctest --test-dir "$(binary_dir "$preset")" --no-tests=error --timeout 300 \
    --output-on-failure --output-junit "$stage_dir/$result" "$@"
}

# end_to_end PRESET [PYTEST ARGUMENT... TEST...]
# Real daemons, clients and clocks, which wait more than they work: on two cores, five files at a time, and four under a
# sanitizer, where they work more.  A test that hangs fails by itself, with its stack.  Failed files run once more,
# alone; the summary says so.
end_to_end() {
  local preset=$1 status=0 files=$((2 * jobs))
  shift
  [ "$preset" != release ] || files=$((2 * jobs + 1))
  sanitizer_environment "$preset"
  cd "$root"
  run_pytest "$preset" pytest.xml --numprocesses "$files" --dist loadfile --timeout 300 --durations=5 "$@" ||
    status=$?
  if [ "$status" = 1 ]; then
    status=0
    say "what failed, once more"
    in_quiet run_pytest "$preset" pytest_again.xml --last-failed --last-failed-no-failures none --timeout 300 -rA \
      --show-capture=no "$@" ||
      status=$?
  fi
  fail_on_sanitizer_reports
  return "$status"
}

# run_pytest PRESET RESULT_FILE [PYTEST ARGUMENT...]
run_pytest() {
  local preset=$1 result=$2
  shift 2
  MESHDNSD=$(binary_dir "$preset")/meshdnsd PYTHONDONTWRITEBYTECODE=1 under_preset "$preset" \
    timeout --foreground --kill-after=10 "${pytest_limit:-1500}" "$python" -m pytest -o "cache_dir=$root/build/pytest" \
    --junitxml "$stage_dir/$result" -q "$@"
}

# Options of `./dev test all`, which compiles everything once: each library in one piece takes half of the time.  The
# presets of the sanitizers always do.  A file that misses an include shows in `./dev test` and to clang-tidy.
whole_libraries=()

# build_for_tests PRESET [TARGET...]
build_for_tests() { build_preset "$1" -DMESHDNS_UNITY_TESTS=ON "${whole_libraries[@]}" "${@:2}"; }

# While tests wait for clocks and daemons, the builds of later stages run in the background at the lowest priority.
# The build stages of their own compile the rest.
build_ahead() {
  set -m  # a process group of its own, so that end_building_ahead can end all of it
  nice -n 19 "$root/dev" in-background build_each "$@" >"$root/build/ahead.log" 2>&1 &
  ahead=$!
  set +m
}

build_each() {
  local preset
  for preset in "$@"; do build_for_tests "$preset"; done
}

# Holds the builds up while a command runs that needs the machine's time for itself.
in_quiet() {
  local status=0
  [ -z "${ahead:-}" ] || kill -STOP -- "-$ahead" 2>/dev/null || true
  "$@" || status=$?
  [ -z "${ahead:-}" ] || kill -CONT -- "-$ahead" 2>/dev/null || true
  return "$status"
}

end_building_ahead() {
  [ -n "${ahead:-}" ] || return 0
  kill -TERM -- "-$ahead" 2>/dev/null || true
  kill -CONT -- "-$ahead" 2>/dev/null || true
  wait "$ahead" 2>/dev/null || true
  while kill -0 -- "-$ahead" 2>/dev/null; do sleep 0.1; done
  ahead=
}

# test_preset PRESET [NEXT_PRESET...]: builds and tests PRESET; the builds of the next ones begin meanwhile.  Its chaos,
# in which no test depends on the speed of the machine, runs beside what follows, up to the next tests.
test_preset() {
  local preset=$1
  shift
  stage "$preset: build" build_for_tests "$preset"
  finish_stage_beside
  [ $# -eq 0 ] || build_ahead "$@"
  stage "$preset: unit tests" unit_tests "$preset"
  stage "$preset: end-to-end tests" end_to_end "$preset" tests/e2e tests/scenarios
  end_building_ahead
  [ "$preset" = release ] || stage_beside "$preset: chaos" chaos "$preset" 120
}

end_what_runs_beside() {
  end_building_ahead
  end_stage_beside
}

command_test() {
  local which=${1:-release}
  case $which in
    release | all) ;;
    *) die "test: unknown argument '$1' (all, or nothing)" ;;
  esac
  need "${build_packages[@]}" "${test_packages[@]}"
  [ "$which" = release ] || need "${lint_packages[@]}" "${budget_packages[@]}"
  download_packages
  begin_stages
  trap end_what_runs_beside EXIT
  if [ "$which" = release ]; then
    test_preset release
    stage "format" check_format
  else
    whole_libraries=(-DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=0)
    test_preset release asan-ubsan tsan
    stage "instruction budgets" instruction_budgets
    test_preset asan-ubsan tsan
    test_preset tsan
    stage "format" check_format
    stage "unused code" unused_code
    stage "clang-tidy" tidy
    finish_stage_beside
  fi
  finish_stages
}

# A report, not a verdict: another compiler or library moves the instruction counts, too.
instruction_budgets() {
  "$root/dev" bench --check || say "instruction counts differ from bench/budgets.json: see above"
}

command_sanitize() {
  local which=${1:-all}
  case $which in
    address | thread | all) ;;
    *) die "sanitize: unknown argument '$which' (address, thread, all)" ;;
  esac
  need "${build_packages[@]}" "${test_packages[@]}"
  begin_stages
  trap end_what_runs_beside EXIT
  [ "$which" = thread ] || test_preset asan-ubsan
  [ "$which" = address ] || test_preset tsan
  finish_stage_beside
  finish_stages
}

command_soak() {
  local seconds=${1:-1800}
  [[ $seconds =~ ^[1-9][0-9]*$ ]] || die "soak: '$seconds' is no number of seconds"
  need "${build_packages[@]}" "${test_packages[@]}"
  [ -d "$root/tests/soak" ] || die "soak: there is no tests/soak"
  build_preset release
  cd "$root"
  MESHDNSD=$root/build/meshdnsd MESHDNS_SOAK_SECONDS=$seconds PYTHONDONTWRITEBYTECODE=1 \
    "$python" -m pytest -o "cache_dir=$root/build/pytest" -s tests/soak
}

command_chaos() {
  local seconds=${1:-60} preset=${2:-release}
  [[ $seconds =~ ^[1-9][0-9]*$ ]] || die "chaos: '$seconds' is no number of seconds"
  case $preset in
    release | debug | asan-ubsan | tsan) ;;
    *) die "chaos: unknown preset '$preset' (release, debug, asan-ubsan, tsan)" ;;
  esac
  need "${build_packages[@]}" "${test_packages[@]}"
  begin_stages
  stage "$preset: build" build_preset "$preset" meshdnsd
  stage "$preset: chaos" chaos "$preset" "$seconds"
  finish_stages
}

# chaos PRESET SECONDS
# A stage for `./dev test`, too.  Fails with the seed and the sanitizer's report.
chaos() {
  local preset=$1 status=0 pytest_limit=$((1500 + $2))
  export MESHDNS_CHAOS_SECONDS=$2
  sanitizer_environment "$preset"
  cd "$root"
  run_pytest "$preset" chaos.xml -s tests/chaos || status=$?
  fail_on_sanitizer_reports
  return "$status"
}
