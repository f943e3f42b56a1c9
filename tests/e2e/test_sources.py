# SPDX-License-Identifier: Apache-2.0
"""Every source file names its licence, and its comments keep their form under clang-format. Needs no daemon."""

import ast
import re

from harness.daemon import ROOT
from harness.preset import ONCE, TREE
from harness.references import CPP, files, is_script, text_of

pytestmark = [ONCE, TREE]

SPDX = "SPDX-License-Identifier: Apache-2.0"


def is_licensed(path):
    return path.suffix in CPP | {".py", ".sh"} or path.name == "CMakeLists.txt" or is_script(path)


def test_every_source_file_begins_with_its_licence():
    missing = []
    for path in filter(is_licensed, files()):
        lines = text_of(path).split("\n", 2)
        first = lines[1] if lines[0].startswith("#!") and len(lines) > 1 else lines[0]
        if first not in (f"// {SPDX}", f"# {SPDX}"):
            missing.append(str(path))
    assert missing == []


def test_rulers_are_one_line():
    """clang-format breaks a ruler of more than 100 columns in two."""
    broken = [str(path) for path in files() if path.suffix in CPP and re.search(r"^ *// *-{5,} *$", text_of(path), re.M)]
    assert broken == []


def test_the_architecture_page_has_a_row_for_every_folder():
    rows = re.findall(r"^\| (`.*?`) \|", text_of("docs/architecture.md"), re.M)
    named = {folder for row in rows for folder in re.findall(r"`([\w./]+)`", row)}
    libraries = {path.parent for path in files() if path.suffix in CPP and path.parts[0] in ("dnsd", "registry", "resolver")}
    expected = {str(folder) for folder in libraries} | {path.parts[0] for path in files() if len(path.parts) > 1}
    assert sorted(expected - named - {"dnsd", "resolver"}) == []


def marks_of(path):
    assigned = [node for node in ast.parse(text_of(path)).body
                if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", None) == "pytestmark"]
    return {node.id for value in assigned for node in ast.walk(value) if isinstance(node, ast.Name)}


def test_each_file_of_end_to_end_tests_states_for_which_builds_it_is():
    """ThreadSanitizer's run has the files with THREADS, and a sanitizer's none with ONCE."""
    broken = []
    for path in files():
        if path.match("tests/e2e/test_*.py"):
            if len(marks_of(path) & {"ONCE", "ONE_THREAD", "THREADS"}) != 1:
                broken.append(str(path))
    assert broken == []


def test_each_unit_test_program_that_starts_threads_says_so():
    """Those without THREADS are not run under ThreadSanitizer."""
    broken = []
    for path in files():
        if path.name != "CMakeLists.txt" or path.parts[0] != "tests":
            continue
        for program in re.findall(r"^ *add_unit_tests\((\w+)\)", text_of(path), re.M):
            sources = re.search(rf"add_executable\({program}\s+([^)]*)\)", text_of(path))[1].split()
            if any(re.search(r"std::j?thread\b|std::async\b", text_of(path.parent / source)) for source in sources):
                broken.append(f"{path}: {program}")
    assert broken == []


def test_the_measured_files_exist():
    """A file that the list does not have is in each run under AddressSanitizer; one that is gone must leave it."""
    for listed in ("tests/lint/asan_files.tsv", "tests/durations.tsv"):
        rows = [line.split("\t") for line in text_of(listed).splitlines() if not line.startswith("#")]
        paths = [row[0] if listed.endswith("files.tsv") else f"tests/{row[1]}" for row in rows]
        assert [path for path in paths if not (ROOT / path).is_file()] == []
