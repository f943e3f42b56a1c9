# SPDX-License-Identifier: Apache-2.0
"""Every source file names its licence, and its comments keep their form under clang-format. Needs no daemon."""

import re

from harness.preset import ONCE
from harness.references import CPP, files, is_script, text_of

pytestmark = ONCE

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
    libraries = {path.parent for path in files() if path.suffix in CPP and path.parts[0] in ("dnsd", "registry")}
    expected = {str(folder) for folder in libraries} | {path.parts[0] for path in files() if len(path.parts) > 1}
    assert sorted(expected - named - {"dnsd"}) == []
