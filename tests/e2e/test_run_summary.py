# SPDX-License-Identifier: Apache-2.0
"""The summary of a run of tests (scripts/summary.py)."""

import pathlib
import re
import subprocess

from harness.preset import ONCE, TREE

pytestmark = [ONCE, TREE]

SCRIPTS = pathlib.Path(__file__).parents[2] / "scripts"
SUMMARY = SCRIPTS / "summary.py"
BUDGETS = SCRIPTS / "budgets"


def junit(**outcomes):
    mark = {"passed": "", "failed": "<failure message='not so'/>", "error": "<error/>", "skipped": "<skipped/>"}
    cases = "".join(f'<testcase classname="c" name="{name}" time="1.5">{mark[outcome]}</testcase>' for name, outcome in outcomes.items())
    return f"<testsuite>{cases}</testsuite>"


def summary(path, *stages, options=()):
    """Stages are (label, exit status, files of results[, seconds])."""
    path.mkdir(exist_ok=True)
    for number, (label, status, files, *seconds) in enumerate(stages):
        stage = path / f"{number:02}"
        stage.mkdir()
        (stage / "status").write_text(f"{label}\n{status}\n{seconds[0] if seconds else 7}\n9\n5\n")
        for name, text in files.items():
            (stage / name).write_text(text)
    run = subprocess.run(["/usr/bin/python3", SUMMARY, path, *options], capture_output=True, text=True, timeout=30)
    return run.returncode, run.stdout.splitlines()


def test_a_line_for_each_stage_and_the_totals(tmp_path):
    status, lines = summary(tmp_path, ("build", 0, {}), ("tests", 0, {"ctest.xml": junit(one="passed", two="skipped")}))
    assert status == 0
    assert lines[1].split() == ["ok", "7", "s", "0", "s", "9", "s", "0", "s", "5", "s", "50", "%", "build"]
    assert lines[2].split()[-5:] == ["tests", "1", "passed,", "1", "skipped"]
    assert lines[-1] == "1 passed, 0 failed"


def test_a_later_try_is_named_with_what_failed_first(tmp_path):
    status, lines = summary(tmp_path, ("tests", 0, {"pytest.xml": junit(one="failed", two="passed"),
                                                    "pytest_again.xml": junit(one="failed"),
                                                    "pytest_third.xml": junit(one="passed")}))
    assert status == 0
    assert lines[-3:] == ["1 passed at a later try only", "  tests: one: not so", "2 passed, 0 failed"]
    assert (tmp_path / "second_tries.txt").read_text() == "tests: one: not so\n"


def test_a_test_that_fails_each_time_has_failed_and_is_named_with_its_command(tmp_path):
    status, lines = summary(tmp_path, ("tests", 1, {"pytest.xml": junit(one="failed"),
                                                    "pytest_again.xml": junit(one="error")}))
    assert (status, lines[-1]) == (1, "0 passed, 1 failed")
    assert lines[-2].strip() == "./dev test -k 'one'"


def test_a_stage_that_fails_without_a_failed_test_is_a_failure(tmp_path):
    tests = {"ctest.xml": junit(one="passed")}
    status, lines = summary(tmp_path, ("build", 2, {}), ("tests", 8, tests), ("broken file", 1, {"ctest.xml": "<test"}))
    assert (status, lines[-1]) == (1, "1 passed, 3 failed")


def test_a_stage_that_was_left_out_is_no_failure(tmp_path):
    status, lines = summary(tmp_path, ("tests", 0, {"ctest.xml": junit(one="passed")}), ("extra", "-", {}))
    assert (status, lines[-1]) == (0, "1 passed, 0 failed")
    assert lines[2].startswith("not run") and lines[2].endswith("extra")


def test_a_stage_for_which_no_time_was_left_is_a_failure(tmp_path):
    status, lines = summary(tmp_path, ("tests", 0, {"ctest.xml": junit(one="passed")}), ("late", 124, {}))
    assert (status, lines[-1]) == (1, "1 passed, 1 failed")


def test_no_test_at_all_is_a_failure(tmp_path):
    assert summary(tmp_path, ("build", 0, {}))[0] == 1


def test_checks_without_tests_are_enough_where_that_is_said(tmp_path):
    assert summary(tmp_path / "good", ("fuzz", 0, {}), options=["--checks"])[0] == 0
    assert summary(tmp_path / "bad", ("fuzz", 1, {}), options=["--checks"])[0] == 1
    assert summary(tmp_path / "none", options=["--checks"])[0] == 1


def whole(path, seconds, calibration):
    budget = dict(re.findall(r"^(release: .*?)\t(\d+)\t\d+$", BUDGETS.read_text(), re.M))
    reference = int(re.search(r"^calibration\t(\d+)$", BUDGETS.read_text(), re.M)[1])
    assert len(budget) > 3
    path.mkdir()
    (path / "calibration").write_text(str(calibration * reference))
    stages = [(label, 0, {"ctest.xml": junit(one="passed")}, int(seconds * int(budget[label]))) for label in budget]
    return summary(path, *stages, options=["--whole"])[0]


def test_a_run_above_its_budget_fails_unless_the_machine_is_as_much_slower(tmp_path):
    assert whole(tmp_path / "in time", seconds=1.2, calibration=1) == 0
    assert whole(tmp_path / "late", seconds=1.4, calibration=1) == 1
    assert whole(tmp_path / "slow machine", seconds=1.4, calibration=1.3) == 0
    assert whole(tmp_path / "fast machine", seconds=1.2, calibration=0.5) == 0
