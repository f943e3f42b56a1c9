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
    find dnsd kernel loop resolver registry tests bench -name '*.[ch]pp'
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

# The commit that a change is compared with: where it left the main branch, or the last commit on it.
lint_base() {
  local main base
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
  git rev-parse --verify --quiet HEAD~1 || git hash-object -t tree /dev/null
}

# A header is checked through a source that includes it: its own, or the first other.
source_of() {
  case $1 in
    *.cpp) echo "$1" ;;
    *) if [ -f "${1%.hpp}.cpp" ]; then echo "${1%.hpp}.cpp"; else including "$1" | head -n 1; fi ;;
  esac
}
including() { sources | grep '\.cpp$' | xargs -r grep -lF "#include \"$1\"" || true; }

files_to_lint() {
  cd "$root"
  if [ "${1:-}" = --all ]; then
    sources | grep '\.cpp$'
    return
  fi
  { git diff --name-only --diff-filter=d "$(lint_base)" && git ls-files --others --exclude-standard; } |
    sed -nE '/\.[ch]pp$/p' | while read -r file; do source_of "$file"; done | sort -u
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
  need "${build_packages[@]}" "${lint_packages[@]}" python3
  check_format
  cd "$root"
  shellcheck --external-sources --check-sourced dev
  shellcheck .ci/run systemd/meshdns-resolver tests/package/{lifecycle,boot} conf/debian/{build-package,postinst,prerm,postrm} \
    conf/kubernetes/base/node-setup
  unused_code
  tidy "$@"
}

# Functions that the product never calls and members that nothing reads: see the script.
unused_code() {
  build_preset release meshdnsd registry_example
  "$python" "$root/tests/lint/unused_code" "$root/build"
}

# By compile commands of its own: those of a build that was tested name test programs in one piece.
tidy() {
  (cd "$root" && cmake --preset release -B build/tidy --log-level=WARNING) >/dev/null
  files_to_lint "$@" | compiled |
    xargs -r -P "$jobs" -n 1 clang-tidy-19 --quiet -p "$root/build/tidy" || die "lint: clang-tidy has findings"
}
