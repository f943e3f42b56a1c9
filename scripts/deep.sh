# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# `./dev test deep`: what the gate has no time for, in parts.

# A part that passed leaves its summary in build/deep/TREE/PART, TREE being the hash of the tree; it does not run again.
readonly deep_parts=(asan tsan chaos-asan chaos-tsan fuzz tidy analyzer analyzer-tests includes mutants package budgets release coverage)
readonly deep_limit=2400  # seconds for one part

command_deep() {
  local part parts=("$@") kept failed=()
  kept=$root/build/deep/$(tree_hash)
  mkdir -p "$kept"
  if [ ${#parts[@]} -eq 0 ]; then
    for part in "${deep_parts[@]}"; do [ -f "$kept/$part" ] || parts+=("$part"); done
    [ ${#parts[@]} -gt 0 ] || say "all parts have passed for this tree: $kept"
  fi
  for part in "${parts[@]}"; do
    [[ " ${deep_parts[*]} " = *" $part "* ]] || die "test deep: unknown part '$part' (${deep_parts[*]})"
  done
  need "${build_packages[@]}" "${all_packages[@]}" "${lint_packages[@]}" "${budget_packages[@]}"
  for part in "${parts[@]}"; do
    # A shell of its own: each part has its own deadline, and the next one runs whatever this one does.
    if "$root/dev" in-background deep_part "$part" "$kept"; then :; else failed+=("$part"); fi
  done
  for part in "${deep_parts[@]}"; do
    if [ -f "$kept/$part" ]; then echo "passed   $part"; else echo "open     $part"; fi
  done
  [ ${#failed[@]} -eq 0 ] || die "test deep: failed: ${failed[*]}"
}

deep_part() {
  local part=$1 kept=$2
  begin_stages "$deep_limit"
  trap end_what_runs_beside EXIT
  threaded_tests_only=OFF
  export MESHDNS_DEEP=1  # for tests/harness/preset.py
  "deep_${part//-/_}"
  finish_stages --checks | tee "$kept/$part.last"
  mv "$kept/$part.last" "$kept/$part"
}

# The hash of the files' present contents.
tree_hash() { "$python" "$root/tests/lint/asan_files" tree; }

deep_asan() { test_sanitizer asan-ubsan; }
deep_tsan() { test_sanitizer tsan; }
deep_chaos_asan() { chaos_of asan-ubsan; }
deep_chaos_tsan() { chaos_of tsan; }
chaos_of() {
  stage "$1: build" build_for_tests "$1" meshdnsd meshdns-kernel
  stage "$1: chaos" chaos "$1" 600
}
deep_fuzz() { stage "fuzz" command_fuzz 60; }
# The analyzer takes as long as all other checks: it has parts of its own.
deep_tidy() { stage "clang-tidy" tidy_all '-clang-analyzer-*' .; }
deep_analyzer() { stage "the analyzer, product" tidy_all "$analyzer_alone" '^(dnsd|registry|resolver)/'; }
deep_analyzer_tests() { stage "the analyzer, tests" tidy_all "$analyzer_alone" '^tests/'; }
deep_mutants() { test_mutants; }
deep_package() { stage "package" command_package check; }
deep_budgets() { stage "instruction budgets" "$root/dev" bench --check; }

# Each file by itself: one that misses an include finds it in its library's other files otherwise.
deep_includes() {
  stage "file by file: build" within "$deep_limit" bash -c "
    cd '$root' && cmake --preset debug -B build/single -DMESHDNS_FILE_BY_FILE=ON --log-level=WARNING >/dev/null &&
    cmake --build build/single --parallel $jobs -- -k 0"
}

# The release's tests with another seed.
deep_release() {
  export MESHDNS_TEST_SEED=$RANDOM
  export MESHDNS_CHANGES=1000 MESHDNS_WALKS=100000 MESHDNS_PROVENANCE_SEQUENCES=500 MESHDNS_OTHERS_QUESTIONS=300000 MESHDNS_SERVERS=300  # random questions
  stage "release: build" build_for_tests release
  stage "release: unit tests" unit_tests release
  stage "release: end-to-end tests, seed $MESHDNS_TEST_SEED" end_to_end release -m "not timing" tests/e2e tests/scenarios
}

# Writes tests/lint/asan_files.tsv: the files that reach functions which unit tests and scenarios do not.
deep_coverage() {
  local profiles=$root/build/coverage/profiles
  rm -rf "$profiles"
  mkdir -p "$profiles"/{unit,e2e}
  LLVM_PROFILE_FILE=/dev/null stage "coverage: build" build_preset coverage "${product_and_tests[@]}"
  LLVM_PROFILE_FILE=$profiles/unit/%4m.profraw stage "coverage: unit tests" unit_tests coverage
  MESHDNS_COVERAGE=$profiles/e2e stage "coverage: end-to-end tests" end_to_end coverage -m "not tree" tests/e2e
  stage "coverage: files" "$python" "$root/tests/lint/asan_files" measure "$profiles"/{unit,e2e}
}
