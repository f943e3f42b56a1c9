# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# The documentation as a static site.

command_docs() {
  need "${docs_packages[@]}"
  "$root/docs/site/build" "$root/build/site"
  say "open $root/build/site/public/index.html"
}
