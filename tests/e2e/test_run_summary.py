# SPDX-License-Identifier: Apache-2.0
"""The summary of a run of tests (scripts/summary.py)."""

import pathlib
import subprocess

from harness.preset import ONCE

pytestmark = ONCE

SUMMARY = pathlib.Path(__file__).parents[2] / "scripts" / "summary.py"


def junit(**outcomes):
    mark = {"passed": "", "failed": "<failure/>", "error": "<error/>", "skipped": "<skipped/>"}
    cases = "".join(f'<testcase classname="c" name="{name}">{mark[outcome]}</testcase>' for name, outcome in outcomes.items())
    return f"<testsuite>{cases}</testsuite>"


def summary(path, *stages):
    for number, (label, status, files) in enumerate(stages):
        stage = path / f"{number:02}"
        stage.mkdir()
        (stage / "status").write_text(f"{label}\n{status}\n7\n")
        for name, text in files.items():
            (stage / name).write_text(text)
    run = subprocess.run(["/usr/bin/python3", SUMMARY, path], capture_output=True, text=True, timeout=30)
    return run.returncode, run.stdout.splitlines()


def test_a_line_for_each_stage_and_the_totals(tmp_path):
    status, lines = summary(tmp_path, ("build", 0, {}), ("tests", 0, {"ctest.xml": junit(one="passed", two="skipped")}))
    assert status == 0
    assert lines[0].split() == ["ok", "7", "s", "build"]
    assert lines[1].split() == ["ok", "7", "s", "tests", "1", "passed,", "1", "skipped"]
    assert lines[-1] == "1 passed, 0 failed"


def test_a_second_try_is_named(tmp_path):
    status, lines = summary(tmp_path, ("tests", 0, {"pytest.xml": junit(one="failed", two="passed"),
                                                    "pytest_again.xml": junit(one="passed")}))
    assert status == 0
    assert lines[-3:] == ["1 passed at a second try only", "  tests: one", "2 passed, 0 failed"]


def test_a_test_that_fails_twice_has_failed(tmp_path):
    status, lines = summary(tmp_path, ("tests", 1, {"pytest.xml": junit(one="failed"),
                                                    "pytest_again.xml": junit(one="error")}))
    assert (status, lines[-1]) == (1, "0 passed, 1 failed")


def test_a_stage_that_fails_without_a_failed_test_is_a_failure(tmp_path):
    tests = {"ctest.xml": junit(one="passed")}
    status, lines = summary(tmp_path, ("build", 2, {}), ("tests", 8, tests), ("broken file", 1, {"ctest.xml": "<test"}))
    assert (status, lines[-1]) == (1, "1 passed, 3 failed")


def test_no_test_at_all_is_a_failure(tmp_path):
    assert summary(tmp_path, ("build", 0, {}))[0] == 1
