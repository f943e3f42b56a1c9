# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Stages of a run, and the summary at its end.
#
# Each stage runs by itself and leaves build/results/STAGE/ with its exit status, its seconds and the
# runners' JUnit files; the summary (summary.py) counts from these.

stage_count=0
stage_dir=

# stage LABEL COMMAND...
stage() {
  enter_stage "$1"
  say "$1"
  run_stage "$@"
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
  local label=$1 status begin outcome
  shift
  begin=$SECONDS
  # Errexit must hold inside, so the subshell may stand in no condition.
  set +e
  (
    set -e
    "$@"
  )
  status=$?
  set -e
  printf '%s\n%s\n%s\n' "$label" "$status" "$((SECONDS - begin))" >"$stage_dir/status"
  outcome=ok
  [ "$status" = 0 ] || outcome=FAILED
  printf -- '-- %s: %s in %d s\n' "$label" "$outcome" "$((SECONDS - begin))"
}

begin_stages() {
  rm -rf "$results"
  mkdir -p "$results"
}

# A line per stage, and last `N passed, N failed`; fails if a stage or a test did, or none ran.
finish_stages() {
  say "summary"
  "$python" "$root/scripts/summary.py" "$results"
}
