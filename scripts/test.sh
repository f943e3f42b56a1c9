# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# The tests under each preset, and the gate.

readonly gate_limit=2400   # seconds after which a run of `./dev test all` is ended; more on a machine that the calibration
                           # finds slower than that of the budgets
readonly gate_target=1750  # seconds after which it begins nothing more that may be left out

sanitizer_environment() {
  local preset=$1 log=$stage_dir/report
  local common="exitcode=66:second_deadlock_stack=1:log_path=$log:external_symbolizer_path=/usr/bin/llvm-symbolizer-19"
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
# Failed tests run again, alone; the summary names those that passed then.
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
  under_preset "$preset" 1500 ctest --test-dir "$(binary_dir "$preset")" --no-tests=error --timeout 300 \
    --progress --output-on-failure --output-junit "$stage_dir/$result" "$@"
}

# end_to_end PRESET [PYTEST ARGUMENT... TEST...]
# Real daemons, clients and clocks.  In the release build they wait more than they work, so that four files for each
# processor run at a time; under a sanitizer, two.  Longest files first (tests/conftest.py).  A test that hangs fails
# by itself, with its stack.  Failed tests run again, alone; under a sanitizer, which multiplies all times, a third time
# with generous limits.  The summary names those that passed then.
end_to_end() {
  local preset=$1 status=0 files=$((2 * jobs))
  shift
  [ "$preset" != release ] || files=$((4 * jobs))
  sanitizer_environment "$preset"
  cd "$root"
  run_pytest "$preset" pytest.xml --numprocesses "$files" --dist loadfile --durations=10 "$@" || status=$?
  again pytest_again.xml "$@"
  [ "$preset" = release ] || MESHDNS_TIME_FACTOR=16 again pytest_third.xml "$@"
  fail_on_sanitizer_reports
  return "$status"
}

# again RESULT_FILE [PYTEST ARGUMENT... TEST...]: what failed in end_to_end or in timing, alone.
again() {
  local result=$1
  shift
  [ "$status" = 1 ] || return 0
  status=0
  say "what failed, once more"
  in_quiet run_pytest "$preset" "$result" --last-failed --last-failed-no-failures none -rA --show-capture=no "$@" ||
    status=$?
}

# Tests of time, processor time and memory: one at a time, with nothing beside; the best of three.
timing() {
  local preset=release status=0 chosen=(-m timing tests/e2e tests/scenarios)
  sanitizer_environment release
  cd "$root"
  in_quiet run_pytest release pytest.xml --durations=10 "${chosen[@]}" || status=$?
  again pytest_again.xml "${chosen[@]}"
  again pytest_third.xml "${chosen[@]}"
  return "$status"
}

# run_pytest PRESET RESULT_FILE [PYTEST ARGUMENT...]
run_pytest() {
  local preset=$1 result=$2
  shift 2
  MESHDNSD=$(binary_dir "$preset")/meshdnsd PYTHONPYCACHEPREFIX=$root/build/pycache under_preset "$preset" "${pytest_limit:-1500}" \
    "$python" -m pytest -o "cache_dir=$stage_dir/cache" --timeout 300 --junitxml "$stage_dir/$result" -q "$@"
}

# build_for_tests PRESET [TARGET...].  Test programs without threads show ThreadSanitizer nothing.
build_for_tests() {
  local preset=$1 parts=("${product_and_tests[@]}")
  shift
  [ "$preset" != tsan ] || parts+=("-DMESHDNS_THREADED_TESTS_ONLY=$threaded_tests_only")
  build_preset "$preset" "${parts[@]}" "$@"
}
threaded_tests_only=ON

# While tests wait for clocks and daemons, builds of later stages run in the background, and take only time in which no
# processor has other work.  finish_building_ahead waits for them as for other processes.
build_ahead() {
  local idle=(chrt --idle 0)
  "${idle[@]}" true 2>/dev/null || idle=(nice -n 19)
  set -m  # a process group of its own, so that end_building_ahead can end all of it
  "${idle[@]}" "$root/dev" in-background build_each "$@" >"$root/build/ahead.log" 2>&1 &
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

# finish_building_ahead PRESET...: builds what the background has not, and shows what failed there.
finish_building_ahead() {
  local process
  for process in $(pgrep -g "$ahead"); do
    chrt --other --pid 0 "$process" 2>/dev/null || renice -n 0 "$process" >/dev/null 2>&1 || true
  done
  # A stage is a shell of its own, of which the builds are no children.
  while pgrep -g "$ahead" -r D,R,S,T >/dev/null; do sleep 0.2; done
  build_each "$@"
}

end_building_ahead() {
  [ -n "${ahead:-}" ] || return 0
  kill -TERM -- "-$ahead" 2>/dev/null || true
  kill -CONT -- "-$ahead" 2>/dev/null || true
  wait "$ahead" 2>/dev/null || true
  while kill -0 -- "-$ahead" 2>/dev/null; do sleep 0.1; done
  ahead=
}

end_what_runs_beside() {
  end_building_ahead
  end_stage_beside
}

# Checks that need no build: a run that would fail for a comment or a list fails in its first minute.
tree_rules() {
  check_format
  check_scripts
  cd "$root"
  run_pytest release pytest.xml --numprocesses "$jobs" -m tree tests/e2e
}

# No two definitions of one name, of which the linker would silently take the first: gold compares those whose sizes
# differ.  Its other warnings are of the sanitizer's runtime.
one_definition() {
  local log=$stage_dir/link
  build_preset asan-ubsan meshdnsd_by_gold >"$log" 2>&1 || { cat "$log"; return 1; }
  ! grep -F -A 3 'possible ODR violation' "$log"
}

command_test() {
  case ${1:-} in
    '') test_release ;;
    all)
      test_all
      finish_stages --whole
      return
      ;;
    deep)
      command_deep "${@:2}"
      return
      ;;
    unit)
      begin_test "${unit_packages[@]}"
      stage "release: build" build_for_tests release
      stage "release: unit tests" unit_tests release "${@:2}"
      ;;
    *) test_chosen "$@" ;;
  esac
  finish_stages
}

# begin_test PACKAGE...
begin_test() {
  need "${build_packages[@]}" "$@"
  begin_stages
  trap end_what_runs_beside EXIT
}

test_release() {
  begin_test "${test_packages[@]}" clang-format-19 shellcheck
  stage "rules of the tree" tree_rules
  stage "release: build" build_for_tests release
  stage "release: unit tests" unit_tests release
  stage "release: end-to-end tests" end_to_end release -m "not timing and not tree" tests/e2e tests/scenarios
  stage "release: tests of time" timing
}

# test_chosen -k NAME | FILE...: tests by a part of their name, or files of tests.
test_chosen() {
  if [ "$1" = -k ]; then
    [ $# -eq 2 ] || die "test: -k NAME, a part of a test's name"
    begin_test "${test_packages[@]}"
    stage "release: build" build_for_tests release
    stage "release: unit tests" unit_tests_or_none release -R "$2"
    stage "release: end-to-end tests" end_to_end_or_none release -k "$2" tests/e2e tests/scenarios
    return
  fi
  local file
  for file in "$@"; do [ -e "${file%%::*}" ] || die "test: there is no file '$file' (see ./dev help)"; done
  begin_test "${test_packages[@]}"
  stage "release: build" build_for_tests release
  stage "release: end-to-end tests" end_to_end release "$@"
}

# With no such test in one of the two kinds, the summary counts the other.
unit_tests_or_none() {
  local chosen
  chosen=$(ctest --test-dir "$(binary_dir "$1")" --show-only "${@:2}" | sed -n 's/^Total Tests: //p')
  [ "$chosen" = 0 ] || unit_tests "$@"
}
end_to_end_or_none() {
  local status=0
  end_to_end "$@" || status=$?
  [ "$status" = 5 ] || return "$status"
}

# Runs what continuous integration runs.  The rules of the tree end soonest and come first; then the release build and its
# tests, beside which the sanitizers' builds take the time that the tests do not need; then the tests under the
# sanitizers.  The last stages may be left out when there is no time for them; `./dev test deep` has all of them.
test_all() {
  local files
  need "${build_packages[@]}" "${all_packages[@]}" "${lint_packages[@]}" "${budget_packages[@]}"
  download_packages
  begin_stages
  calibrate
  deadline=$((SECONDS + gate_limit * $(slowness) / 100))
  deadline_of_extras=$((SECONDS + gate_target))
  trap end_what_runs_beside EXIT
  stage "rules of the tree" tree_rules
  stage "release: build" build_for_tests release
  build_ahead asan-ubsan tsan
  stage "release: unit tests" unit_tests release
  stage "release: end-to-end tests" end_to_end release -m "not timing and not tree" tests/e2e tests/scenarios
  stage "release: tests of time" timing
  stage "sanitizers: build" finish_building_ahead asan-ubsan tsan
  ahead=
  stage "asan-ubsan: one definition" one_definition
  stage_beside "asan-ubsan: chaos" chaos asan-ubsan 30
  stage "asan-ubsan: unit tests" unit_tests asan-ubsan
  mapfile -t files < <(asan_files fixed)
  stage "asan-ubsan: end-to-end tests" end_to_end asan-ubsan "${files[@]}"
  finish_stage_beside
  stage_beside "tsan: chaos" chaos tsan 30
  stage "tsan: unit tests" unit_tests tsan
  stage "tsan: end-to-end tests" end_to_end tsan -m threads tests/e2e
  finish_stage_beside
  stage "unused code" unused_code
  stage "clang-tidy" tidy_for 120
  mapfile -t files < <(asan_files third)
  stage_if_time 240 "asan-ubsan: a third of the other end-to-end tests" end_to_end asan-ubsan "${files[@]}"
  stage_if_time 120 "instruction budgets" instruction_budgets
}

# asan_files fixed|third: the files of end-to-end tests for AddressSanitizer (tests/lint/asan_files).
asan_files() { "$python" "$root/tests/lint/asan_files" "$1" "$(lint_base)"; }

# A report, not a verdict: another compiler or library moves the instruction counts, too.
instruction_budgets() {
  "$root/dev" bench --check || say "instruction counts differ from tests/bench/budgets.json: see above"
}

# The tests of one preset as the gate runs them, but all of them.
test_sanitizer() {
  local preset=$1
  stage "$preset: build" build_for_tests "$preset"
  stage "$preset: unit tests" unit_tests "$preset"
  stage "$preset: end-to-end tests" end_to_end "$preset" tests/e2e tests/scenarios
}

command_sanitize() {
  local which=${1:-all}
  case $which in
    address | thread | all) ;;
    *) die "sanitize: unknown argument '$which' (address, thread, all)" ;;
  esac
  threaded_tests_only=OFF
  need "${build_packages[@]}" "${all_packages[@]}"
  begin_stages
  [ "$which" = thread ] || test_sanitizer asan-ubsan
  [ "$which" = address ] || test_sanitizer tsan
  finish_stages
}

command_soak() {
  local seconds=${1:-1800}
  [[ $seconds =~ ^[1-9][0-9]*$ ]] || die "soak: '$seconds' is no number of seconds"
  need "${build_packages[@]}" "${test_packages[@]}"
  [ -d "$root/tests/soak" ] || die "soak: there is no tests/soak"
  build_preset release
  cd "$root"
  MESHDNSD=$root/build/meshdnsd MESHDNS_SOAK_SECONDS=$seconds PYTHONPYCACHEPREFIX=$root/build/pycache \
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
  stage "$preset: build" build_for_tests "$preset" meshdnsd meshdns-kernel
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
  run_pytest "$preset" chaos.xml --timeout 0 -s tests/chaos || status=$?
  fail_on_sanitizer_reports
  return "$status"
}
