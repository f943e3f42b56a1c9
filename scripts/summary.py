#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The summary of a run: a line per stage, the tests that needed a second try, and the totals.

The argument is a directory with one folder per stage: the file `status` (label, exit status, seconds) and the JUnit
files of the stage's test runners.  A file of a later name has the second try of what failed before it.  A stage that
failed without a failed test (a build, a runner that died) counts as one failure.
"""

import pathlib
import sys
import xml.etree.ElementTree as ElementTree


def outcomes(path):
    """The test cases of a JUnit file and how each ended; a broken file has none."""
    try:
        cases = list(ElementTree.parse(path).iter("testcase"))
    except (OSError, ElementTree.ParseError):
        return {}
    return {(case.get("classname"), case.get("name")): outcome(case) for case in cases}


def outcome(case):
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    return "skipped" if case.find("skipped") is not None else "passed"


def tests_of(stage):
    """The last outcome of each test of a stage, and the names of those that passed at a second try only."""
    last, retried = {}, []
    for path in sorted(stage.glob("*.xml")):
        for case, result in outcomes(path).items():
            if last.get(case) == "failed" and result == "passed":
                retried.append(case[1])
            last[case] = result
    return list(last.values()), retried


def main(results):
    totals = {"passed": 0, "failed": 0}
    second_tries = []
    for stage in sorted(pathlib.Path(results).iterdir()):
        label, status, seconds = (stage / "status").read_text().splitlines()
        tests, retried = tests_of(stage)
        counts = {word: tests.count(word) for word in ("passed", "failed", "skipped")}
        if status != "0" and not counts["failed"]:
            counts["failed"] = 1
        for word in totals:
            totals[word] += counts[word]
        second_tries += [f"{label}: {name}" for name in retried]
        verdict = "FAILED" if counts["failed"] else "ok"
        listed = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
        print(f"{verdict:8}{int(seconds):5} s  {label:32}{listed}".rstrip())
    print(f"\n{len(second_tries)} passed at a second try only")
    for name in second_tries:
        print(f"  {name}")
    print(f"{totals['passed']} passed, {totals['failed']} failed")
    return 0 if totals["passed"] and not totals["failed"] else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
