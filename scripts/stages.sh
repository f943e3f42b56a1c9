# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Stages of a run, their time, and the summary at its end.
#
# Each stage runs by itself and leaves build/results/STAGE/ with its exit status, its times and the runners' JUnit files;
# the summary (summary.py) counts from these and compares the times with scripts/budgets.

stage_count=0
stage_dir=
deadline=1000000000  # the second of this shell (SECONDS) at which the run ends

# within SECONDS COMMAND...: ends the command after this time, or at the end of the run.  A test runner that gets SIGINT
# writes its results first.
within() {
  local limit=$1 left=$((deadline - SECONDS))
  shift
  if [ "$left" -lt "$limit" ]; then limit=$left; fi
  if [ "$limit" -le 0 ]; then
    echo "no time is left"
    return 124
  fi
  timeout --foreground --signal=INT --kill-after=30 "$limit" "$@"
}

# stage LABEL COMMAND...
stage() {
  enter_stage "$1"
  say "$1$(expected_time "$1")"
  if [ "$SECONDS" -ge "$deadline" ]; then
    write_status "$1" 124 0 0 0
    echo "-- $1: not run, the run took too long"
    return 0
  fi
  run_stage "$@"
}

# stage_if_time SECONDS LABEL COMMAND...: a stage that does not run if fewer seconds are left than it needs, which is no
# failure.
stage_if_time() {
  local needed=$1
  shift
  if [ $((deadline_of_extras - SECONDS)) -ge "$needed" ]; then
    stage "$@"
    return 0
  fi
  enter_stage "$1"
  write_status "$1" - 0 0 0
  echo "-- $1: not run, it needs $needed s"
}

# stage_beside LABEL COMMAND...: a stage that runs while others do.  finish_stage_beside waits for it and shows what it
# printed; there is one at a time.
stage_beside() {
  enter_stage "$1"
  beside_dir=$stage_dir
  set -m  # a process group of its own, so that end_stage_beside can end all of it
  run_stage "$@" >"$beside_dir/output" 2>&1 &
  beside=$!
  set +m
}

finish_stage_beside() {
  [ -n "${beside:-}" ] || return 0
  wait "$beside" || true
  say "$(head -n 1 "$beside_dir/status") (ran beside the stages above)"
  cat "$beside_dir/output"
  beside=
}

end_stage_beside() {
  [ -z "${beside:-}" ] || kill -TERM -- "-$beside" 2>/dev/null || true
}

enter_stage() {
  stage_count=$((stage_count + 1))
  stage_dir=$results/$(printf '%02d-%s' "$stage_count" "${1//[^a-z0-9]/-}")
  mkdir -p "$stage_dir"
}

run_stage() {
  local label=$1 status begin=$SECONDS busy idle busy_before idle_before outcome=ok
  shift
  read -r busy_before idle_before < <(processor_seconds)
  # Errexit must hold inside, so the subshell may stand in no condition.
  set +e
  (
    set -e
    "$@"
  )
  status=$?
  set -e
  read -r busy idle < <(processor_seconds)
  busy=$((busy - busy_before)) idle=$((idle - idle_before))
  write_status "$label" "$status" "$((SECONDS - begin))" "$busy" "$idle"
  [ "$status" = 0 ] || outcome=FAILED
  printf -- '-- %s: %s in %d s%s; processors busy %d s, idle %d s\n' "$label" "$outcome" "$((SECONDS - begin))" \
    "$(budget_of "$label" ' of %d s')" "$busy" "$idle"
}

# write_status LABEL EXIT_STATUS SECONDS BUSY IDLE
write_status() { printf '%s\n' "$@" >"$stage_dir/status"; }

# Seconds that the machine's processors have worked and were idle since it was started.
processor_seconds() {
  awk '$1 == "cpu" { printf "%d %d\n", ($2 + $3 + $4 + $7 + $8) / 100, ($5 + $6) / 100 }' /proc/stat
}

# budget_of LABEL FORMAT: the stage's wall seconds in scripts/budgets, printed by FORMAT; nothing if there are none.
budget_of() {
  # shellcheck disable=SC2059  # the format is ours
  awk -F '\t' -v label="$1" '$1 == label { print $2 }' "$root/scripts/budgets" | while read -r seconds; do printf "$2" "$seconds"; done
}
expected_time() { budget_of "$1" ' (about %d s)'; }

# begin_stages [LIMIT]: LIMIT seconds from now, the run ends.
begin_stages() {
  rm -rf "$results"
  mkdir -p "$results"
  [ -z "${1:-}" ] || deadline=$((SECONDS + $1))
}

# CPU milliseconds that this machine needs now for a fixed compilation; summary.py divides by what scripts/budgets says.
calibrate() {
  local TIMEFORMAT='%U %S'
  { time g++ -std=c++20 -O1 -c -x c++ -o /dev/null - <<<'
#include <map>
#include <regex>
#include <string>
std::map<std::string, std::regex> expressions;
bool matches(const std::string& name, const std::string& text) { return std::regex_match(text, expressions[name]); }
'; } 2>&1 | awk '{ printf "%d\n", 1000 * ($1 + $2) }' >"$results/calibration"
}

# The time of the calibration in percent of what scripts/budgets says, but at least 100.
slowness() {
  awk -F '\t' 'FNR == NR { now = $1; next } $1 == "calibration" { slow = 100 * now / $2; printf "%d", slow < 100 ? 100 : slow }' \
    "$results/calibration" "$root/scripts/budgets"
}

# A line per stage, and last `N passed, N failed`; fails if a stage or a test did, or none ran.
finish_stages() {
  say "summary"
  "$python" "$root/scripts/summary.py" "$results" "$@"
}
