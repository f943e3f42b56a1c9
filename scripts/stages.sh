# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Stages of a run, and the summary at its end.
#
# Each stage runs by itself and leaves build/results/STAGE/ with its exit status, its seconds and the
# runners' JUnit files; the summary (summary.py) counts from these.

stage_count=0
stage_dir=

stage() {
  local label=$1 status begin outcome
  shift
  stage_count=$((stage_count + 1))
  stage_dir=$results/$(printf '%02d-%s' "$stage_count" "${label//[^a-z0-9]/-}")
  mkdir -p "$stage_dir"
  say "$label"
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
