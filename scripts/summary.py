#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The summary of a run: a line per stage with its times, what failed and how to repeat it, the tests that needed another
try, the slowest tests and files, and the totals.

usage: summary.py RESULTS [--whole]    --whole: all stages of scripts/budgets were to run, and their sum is judged
       summary.py RESULTS --checks     stages without tests are enough
       summary.py RESULTS --record     writes tests/durations.tsv from the tests that ran

RESULTS has one folder per stage: the file `status` (label, exit status, seconds, seconds in which processors worked,
seconds in which they were idle) and the JUnit files of the stage's test runners.  A file of a later name has the next try
of what failed before it.  A stage that failed without a failed test (a build, a runner that died) counts as one failure; one
with the exit status `-` was left out.
"""

import collections
import pathlib
import sys
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests"
MOST = 1.25  # of the budgets' sum; above it, the run fails


class Case:
    """A test case of a JUnit file."""

    def __init__(self, element):
        self.name = element.get("name")
        self.key = (element.get("classname"), self.name)
        self.seconds = float(element.get("time") or 0)
        self.is_known_slow = any(found.get("name") == "slow" for found in element.iter("property"))
        self.file = (element.get("classname") or "").replace(".", "/")
        broken = element.find("failure") if element.find("failure") is not None else element.find("error")
        self.message = (broken.get("message") or "").split("\n")[0][:160] if broken is not None else ""
        self.outcome = ("failed" if broken is not None
                        else "skipped" if element.find("skipped") is not None else "passed")


def cases(path):
    """The test cases of a JUnit file; a broken file has none."""
    try:
        return [Case(element) for element in ElementTree.parse(path).iter("testcase")]
    except (OSError, ElementTree.ParseError):
        return []


class Stage:
    def __init__(self, folder):
        self.label, self.status, seconds, busy, idle = (folder / "status").read_text().splitlines()
        self.seconds, self.busy, self.idle = int(seconds), int(busy), int(idle)
        self.last = {}      # the last outcome of each test
        self.retried = []   # those that passed at a later try only, as they failed first
        first_failure = {}
        for path in sorted(folder.glob("*.xml")):
            for case in cases(path):
                if case.outcome == "failed":
                    first_failure.setdefault(case.key, case)
                elif case.key in first_failure and case.outcome == "passed":
                    self.retried.append(first_failure.pop(case.key))
                self.last[case.key] = case
        self.failed = [case for case in self.last.values() if case.outcome == "failed"]

    def count(self, outcome):
        return sum(case.outcome == outcome for case in self.last.values())

    @property
    def failures(self):
        return len(self.failed) or (0 if self.status in ("0", "-") else 1)

    @property
    def verdict(self):
        return "not run" if self.status == "-" else "FAILED" if self.failures else "ok"


def budgets(path=ROOT / "scripts" / "budgets"):
    """({label: (wall seconds, processor seconds)}, labels of what runs beside, milliseconds of the calibration)"""
    rows = [line.split("\t") for line in path.read_text().splitlines() if line and not line.startswith("#")]
    found = {row[0]: (float(row[1]), float(row[2])) for row in rows if len(row) > 2}
    return found, {row[0] for row in rows if row[3:] == ["beside"]}, next(float(row[1]) for row in rows if len(row) == 2)


def lines_of_stages(stages, budget):
    yield f"{'':8}{'took':>6}{'budget':>8}{'busy':>7}{'budget':>8}{'idle':>6}{'share':>7}"
    whole = sum(stage.seconds for stage in stages) or 1
    for stage in stages:
        wall, busy = (f"{number:.0f} s" for number in budget.get(stage.label, (0, 0)))
        listed = ", ".join(f"{stage.count(word)} {word}" for word in ("passed", "failed", "skipped") if stage.count(word))
        if stage.failures and not stage.failed:
            listed += f"{', ' if listed else ''}exit status {stage.status}"
        yield (f"{stage.verdict:8}{stage.seconds:4} s{wall:>8}{stage.busy:5} s{busy:>8}{stage.idle:4} s"
               f"{100 * stage.seconds / whole:5.0f} %  {stage.label:42}{listed}").rstrip()


def slowest(stages):
    """The ten slowest tests and the ten slowest files, of all stages."""
    tests = sorted(((case.seconds, case.name, stage.label) for stage in stages for case in stage.last.values()), reverse=True)
    files = collections.Counter()
    for stage in stages:
        for case in stage.last.values():
            files[f"{case.file} ({stage.label})"] += case.seconds
    yield "the slowest tests:"
    yield from (f"  {seconds:6.1f} s  {name} ({label})" for seconds, name, label in tests[:10])
    yield "the slowest files and programs:"
    yield from (f"  {seconds:6.1f} s  {name}" for name, seconds in files.most_common(10))


def above_limit(stages):
    """Tests of the release that take longer than one of their kind may, without a mark that gives the reason."""
    for stage in stages:
        if stage.label.startswith("release: "):
            for case in stage.last.values():
                limit = 2 if stage.label.endswith("unit tests") else 0.2 if case.file.startswith("scenarios/") else 10
                if case.seconds > limit and not case.is_known_slow:
                    yield f"{case.seconds:6.1f} s (limit {limit} s)  {case.name}"


def judged(stages, results):
    """(whether the whole took too long, the line about it)"""
    budget, beside, reference = budgets()
    stages = [stage for stage in stages if stage.label not in beside]
    try:
        # On a faster machine, what waits for clocks and daemons takes as long.
        pace = max(1.0, float((results / "calibration").read_text()) / reference)
    except (OSError, ValueError):
        pace = 1.0
    took = sum(stage.seconds for stage in stages)
    whole = sum(budget[stage.label][0] for stage in stages if stage.label in budget and stage.status != "-")
    share = took / pace / whole if whole else 0
    line = f"{took} s, a calibration {pace:.2f} times as long as the budgets': {100 * share:.0f} % of {whole:.0f} s"
    return share > MOST, line + (f"; above {100 * MOST:.0f} %, so the run has FAILED" if share > MOST else "")


def record(stages):
    """Writes the seconds of each file of the release's end-to-end tests, the longest first."""
    files = collections.Counter()
    for stage in stages:
        if stage.label in ("release: end-to-end tests", "release: tests of time", "coverage: end-to-end tests"):
            for case in stage.last.values():
                files[path_of(case)] += case.seconds
    (TESTS / "durations.tsv").write_text("".join(f"{seconds:.1f}\t{file}\n" for file, seconds in files.most_common()))


def path_of(case):
    """The file below tests/ of a case; pytest gives the name of its module, and scenarios have their path's words."""
    words = case.key[0].split(".")
    for end in range(len(words), 0, -1):
        for suffix in (".py", ".yaml"):
            path = pathlib.Path(*words[:end]).with_suffix(suffix)
            path = pathlib.Path(*path.parts[1:]) if path.parts[0] == "tests" else path
            if (TESTS / path).is_file():
                return path.as_posix()
    return case.key[0]


def main(results, whole=False, needs_tests=True):
    results = pathlib.Path(results)
    stages = [Stage(folder) for folder in sorted(results.iterdir()) if (folder / "status").is_file()]
    for line in lines_of_stages(stages, budgets()[0]):
        print(line)
    too_long = False
    if whole:
        too_long, line = judged(stages, results)
        print(line)
    if any(stage.last for stage in stages):
        print()
        print("\n".join(slowest(stages)))
    if above := sorted(above_limit(stages), reverse=True):
        print(f"{len(above)} tests above the limit for one test, without the mark `slow`:")
        print("\n".join(f"  {line}" for line in above[:10]))
    retried = [f"{stage.label}: {case.name}: {case.message}" for stage in stages for case in stage.retried]
    (results / "second_tries.txt").write_text("".join(f"{line}\n" for line in retried))
    print(f"\n{len(retried)} passed at a later try only")
    print("".join(f"  {line}\n" for line in retried), end="")
    failed = [(stage, case) for stage in stages for case in stage.failed]
    for stage, case in failed:
        print(f"FAILED  {stage.label}: {case.name}: {case.message}\n        ./dev test -k '{case.name.split('[')[0]}'")
    passed, failures = sum(stage.count("passed") for stage in stages), sum(stage.failures for stage in stages) + too_long
    print(f"{passed} passed, {failures} failed")
    return 0 if stages and not failures and (passed or not needs_tests) else 1


if __name__ == "__main__":
    if sys.argv[2:] == ["--record"]:
        record([Stage(folder) for folder in sorted(pathlib.Path(sys.argv[1]).iterdir()) if (folder / "status").is_file()])
    else:
        sys.exit(main(sys.argv[1], sys.argv[2:] == ["--whole"], sys.argv[2:] != ["--checks"]))
