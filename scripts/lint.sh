# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Checks of the sources.

# The C++ files of the tree, one a line; new ones that Git does not ignore, too.
sources() {
  cd "$root"
  if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
    git ls-files --cached --others --exclude-standard '*.cpp' '*.hpp' | while read -r file; do
      [ ! -f "$file" ] || echo "$file"
    done
  else
    find dnsd resolver registry tests -name '*.[ch]pp'
  fi
}

check_format() {
  cd "$root"
  sources | xargs -r clang-format-19 --dry-run --Werror || die "format: run ./dev format"
}

command_format() {
  need clang-format-19
  cd "$root"
  sources | xargs -r clang-format-19 -i
}

# The commit that a change is compared with: LINT_BASE; where it left the main branch; on that branch, the last commit
# that is four hours older than the newest, which is longer than one change takes to be written and to land.
lint_base() {
  local main base newest
  cd "$root"
  if [ -n "${LINT_BASE:-}" ]; then
    echo "$LINT_BASE"
    return
  fi
  for main in origin/main main; do
    base=$(git merge-base HEAD "$main" 2>/dev/null) || continue
    if [ "$base" != "$(git rev-parse HEAD)" ]; then
      echo "$base"
      return
    fi
  done
  newest=$(git log -1 --format=%ct 2>/dev/null) || newest=0
  base=$(git rev-list -1 --before="$((newest - 4 * 3600))" HEAD 2>/dev/null) || base=
  if [ -n "$base" ]; then echo "$base"; else git hash-object -t tree /dev/null; fi
}

# A header is checked through a source that includes it: its own, or the first other.
source_of() {
  case $1 in
    *.cpp) echo "$1" ;;
    *) if [ -f "${1%.hpp}.cpp" ]; then echo "${1%.hpp}.cpp"; else including "$1" | head -n 1; fi ;;
  esac
}
including() { sources | grep '\.cpp$' | xargs -r grep -lF "#include \"$1\"" || true; }

# The largest change first.
files_to_lint() {
  cd "$root"
  if [ "${1:-}" = --all ]; then
    sources | grep '\.cpp$'
    return
  fi
  {
    git diff --numstat --diff-filter=d "$(lint_base)" | awk -F '\t' '{ print $1 + $2 "\t" $3 }'
    git ls-files --others --exclude-standard | sed 's/^/1000\t/'
  } | sed -nE '/\.[ch]pp$/p' | sort -rn | cut -f 2 | while read -r file; do source_of "$file"; done | awk '!seen[$0]++'
}

# Only what the release build compiles has a compile command; a fuzzer, say, has none.
compiled() {
  "$python" -c '
import json, os, sys
known = {os.path.realpath(c["file"]) for c in json.load(open(sys.argv[1]))}
sys.stdout.writelines(line for line in sys.stdin if os.path.realpath(line.strip()) in known)
' "$root/build/tidy/compile_commands.json"
}

command_lint() {
  need "${build_packages[@]}" "${unit_packages[@]}" "${lint_packages[@]}"
  check_format
  check_scripts
  unused_code
  tidy "$@"
}

check_scripts() {
  cd "$root"
  shellcheck --external-sources --check-sourced dev
  shellcheck .ci/run systemd/meshdns-resolver tests/package/{lifecycle,boot} conf/debian/{build-package,postinst,prerm,postrm} \
    conf/kubernetes/{base/node-setup,build-image,collect-runtime}
}

# Functions that the product never calls and members that nothing reads: see the script.
unused_code() {
  build_preset release meshdnsd registry_example
  "$python" "$root/tests/lint/unused_code" "$root/build"
}

# By compile commands of its own: those of the builds name libraries in one piece.
configure_tidy() {
  (cd "$root" && cmake --preset release -B build/tidy -DMESHDNS_FILE_BY_FILE=ON --log-level=WARNING "$@" &&
    ninja -C build/tidy registry/source/istiod/module/{xds,workload}.pb.h) >/dev/null
}

tidy() {
  configure_tidy
  files_to_lint "$@" | compiled |
    xargs -r -P "$jobs" -n 1 clang-tidy-19 --quiet -p "$root/build/tidy" || die "lint: clang-tidy has findings"
}

# tidy_all CHECKS PATTERN: all files that match, with the checks of .clang-tidy as CHECKS changes them.
tidy_all() {
  configure_tidy -DMESHDNS_BENCH=ON
  files_to_lint --all | grep -E "$2" | compiled |
    xargs -r -P "$jobs" -n 1 clang-tidy-19 --quiet --checks="$1" -p "$root/build/tidy" || die "lint: clang-tidy has findings"
}
readonly analyzer_alone='-*,clang-analyzer-*,-clang-analyzer-optin.core.EnumCastOutOfRange,-clang-analyzer-optin.performance.Padding'

# tidy_for SECONDS: as many files as there is time for, without the static analyzer, which takes as long as all other
# checks.  `./dev test deep analyzer` has it.
tidy_for() {
  local until=$((SECONDS + $1)) file running=0 status=0
  configure_tidy
  mapfile -t files < <(files_to_lint | compiled)
  for file in "${files[@]}"; do
    if [ "$SECONDS" -ge "$until" ]; then
      echo "not read, for want of time: $file"
      continue
    fi
    if [ "$running" -ge "$jobs" ]; then
      wait -n || status=1
    else
      running=$((running + 1))
    fi
    clang-tidy-19 --quiet --checks=-clang-analyzer-* -p "$root/build/tidy" "$file" 2>/dev/null &
  done
  while [ "$running" -gt 0 ]; do
    wait -n || status=1
    running=$((running - 1))
  done
  [ "$status" = 0 ] || die "lint: clang-tidy has findings"
}
