# SPDX-License-Identifier: Apache-2.0
"""`meshdnsd check` over a folder of broken resources: each fault is named with its file, line, object and field, nothing
else is, and what is good stays good.  The faults are tests/e2e/broken_resources.yaml."""

import copy
import pathlib
import re
import subprocess

import pytest
import yaml

from harness.daemon import binary
from harness.preset import ONE_THREAD

pytestmark = ONE_THREAD

TABLE = yaml.safe_load((pathlib.Path(__file__).parent / "broken_resources.yaml").read_text())
TAKEN_AWAY = "-"


def changed(good, changes):
    """`good` with each "a.b.c" of `changes` set, or taken away."""
    resource = copy.deepcopy(good)
    for path, value in changes.items():
        *parents, key = path.split(".")
        place = resource
        for parent in parents:
            place = place.setdefault(parent, {})
        if value == TAKEN_AWAY:
            place.pop(key, None)
        else:
            place[key] = value
    return resource


def write_folder(folder):
    """One file per fault, a comment of two lines before the resource; file name -> what must be said."""
    expected = {}
    for kind, table in TABLE.items():
        for index, (changes, beginning) in enumerate(table["faults"]):
            name = f"{kind.lower()}-{index:03d}"
            good = copy.deepcopy(table["good"])
            good["metadata"]["name"] = name
            path = folder / f"{name}.yaml"
            path.write_text("# a fault\n#\n" + yaml.safe_dump(changed(good, changes), allow_unicode=True))
            expected[path.name] = (kind, beginning)
        (folder / f"{kind.lower()}-good.yaml").write_text(
            yaml.safe_dump(changed(table["good"], {"metadata.name": f"{kind.lower()}-good"})))
    return expected


@pytest.fixture(name="checked", scope="module")
def fixture_checked(tmp_path_factory):
    folder = tmp_path_factory.mktemp("broken")
    expected = write_folder(folder)
    done = subprocess.run([binary(), "check", folder], capture_output=True, text=True, timeout=60, check=False)
    return expected, done


def findings(done):
    """File name -> [(line, severity, rest)]."""
    found = {}
    for line in done.stdout.splitlines():
        if match := re.match(r".*/([^/]+\.yaml):(\d+): (error|warning): (.*)", line):
            found.setdefault(match[1], []).append((int(match[2]), match[3], match[4]))
    return found


def test_each_fault_is_named_with_its_field(checked):
    expected, done = checked
    found = findings(done)
    wrong = []
    for file, (kind, beginning) in expected.items():
        errors = [rest for line, severity, rest in found.get(file, []) if severity == "error" and line >= 3]
        if not any(re.match(rf"{kind}(?: \S*)?: {re.escape(beginning)}", rest) for rest in errors):
            wrong.append(f"{file}: expected {beginning!r}, found {found.get(file)}")
    assert not wrong, "\n" + "\n".join(wrong)


def test_valid_resources_have_no_findings(checked):
    _, done = checked
    assert not [file for file in findings(done) if file.endswith("-good.yaml")]


def test_the_summary_counts_and_the_exit_status_says_so(checked):
    expected, done = checked
    assert len(expected) >= 200
    assert done.returncode == 1
    summary = re.search(r"^(\d+) resources, (\d+) errors, \d+ warnings(?:, \d+ notes)?$", done.stdout, re.M)
    resources, errors = map(int, summary.groups())
    assert resources == len(expected) + len(TABLE)
    assert errors >= len(expected)
