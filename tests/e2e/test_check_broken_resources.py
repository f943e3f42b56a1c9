# SPDX-License-Identifier: Apache-2.0
"""`meshdnsd check` over a folder of broken resources: each fault is named with its file, line, object and field, no other
error is, and what is good stays good.  The resources are the rows of tests/registry/manifest/findings.txt."""

import pathlib
import re
import subprocess
from dataclasses import dataclass

import pytest

from harness.daemon import binary
from harness.preset import ONE_THREAD

pytestmark = ONE_THREAD

TABLE = pathlib.Path(__file__).parents[1] / "registry" / "manifest" / "findings.txt"


@dataclass
class Row:
    name: str
    resource: str
    errors: list  # (line, field)
    says: str  # in one finding


def read_table():
    shorthands, rows = {}, []
    for line in TABLE.read_text().splitlines():
        if line.startswith("<"):
            name, _, text = line.partition(" = ")
            shorthands[name] = text
        elif line.startswith("["):
            frame = []
        elif line.startswith("  "):
            frame.append(line[2:])
        elif line and not line.startswith("#"):
            name, text, places, says, *_ = [part.strip() for part in f"{line} | |".split(" |")]
            for shorthand, stands_for in shorthands.items():
                text = text.replace(shorthand, stands_for)
            errors = [(int(number), field) for number, field in re.findall(r"(\d+) error ([^;]+)", places)]
            rows.append(Row(name, framed(frame, text.replace("\\n", "\n")), errors, says))
    return rows


def framed(frame, text):
    lines = []
    for line in frame:
        column = line.find("{text}")
        lines += [line] if column < 0 else [" " * column + each for each in text.splitlines()]
    return "\n".join(lines) + "\n"


def check(folder, rows):
    """File name -> row, and the result.  A file each, and in most a name of its own: no resource is there twice."""
    files = {}
    for index, row in enumerate(rows):
        file = f"row-{index:03d}.yaml"
        resource = re.sub(r"(metadata:(?: \{|\n  )name: )(?:api|api-1|vm|s)(?=[,}\n])", rf"\1row-{index:03d}", row.resource)
        (folder / file).write_text(resource)
        files[file] = row
    return files, subprocess.run([binary(), "check", folder], capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture(name="checked", scope="module")
def fixture_checked(tmp_path_factory):
    return check(tmp_path_factory.mktemp("broken"), read_table())


def findings(done):
    """File name -> [(line, severity, rest)]."""
    found = {}
    for line in done.stdout.splitlines():
        if match := re.match(r".*/([^/]+\.yaml):(\d+): (error|warning): (.*)", line):
            found.setdefault(match[1], []).append((int(match[2]), match[3], match[4]))
    return found


def test_each_fault_is_named_with_its_line_and_field(checked):
    """No other error is; warnings of several resources come together."""
    files, done = checked
    found = findings(done)
    wrong = []
    for file, row in files.items():
        errors = [(line, rest) for line, severity, rest in found.get(file, []) if severity == "error"]
        if len(errors) != len(row.errors) or not all(
                any(line == number and f": {field}: " in rest for line, rest in errors) for number, field in row.errors):
            wrong.append(f"{file}: {row.resource}: expected {row.errors}, found {errors}")
        if errors and not any(row.says in rest for _, _, rest in found[file]):
            wrong.append(f"{file}: {row.says!r} is not in {found[file]}")
    assert not wrong, "\n" + "\n".join(wrong)


def test_valid_resources_have_no_findings(tmp_path):
    _, done = check(tmp_path, [row for row in read_table() if row.name == "good"])
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1].startswith("6 resources, 0 errors, 0 warnings"), done.stdout


def test_the_summary_counts_and_the_exit_status_says_so(checked):
    files, done = checked
    assert len(files) >= 582
    assert done.returncode == 1
    summary = re.search(r"^(\d+) resources, (\d+) errors, \d+ warnings(?:, \d+ notes)?$", done.stdout, re.M)
    resources, errors = map(int, summary.groups())
    assert resources == len(files)
    assert errors == sum(len(row.errors) for row in files.values())
