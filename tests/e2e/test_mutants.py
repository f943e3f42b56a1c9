# SPDX-License-Identifier: Apache-2.0
"""The faults of tests/mutants: their places exist, and their tests do."""

import importlib.machinery
import importlib.util
import re

import pytest

from harness.daemon import ROOT
from harness.preset import ONCE, TREE

pytestmark = [ONCE, TREE]

_LOADER = importlib.machinery.SourceFileLoader("mutants", str(ROOT / "tests" / "mutants" / "mutants"))
MUTANTS = importlib.util.module_from_spec(importlib.util.spec_from_loader("mutants", _LOADER))
_LOADER.exec_module(MUTANTS)


def fault(text, becomes, **more):
    return {"name": text, "file": "a.cpp", "place": "f", "text": text, "becomes": becomes, "breaks": "."} | more


def number(text):
    return MUTANTS.number_of({"name": text})


@pytest.mark.parametrize("source, faults, expected", [
    ("f(a < b);", [fault("a < b", "a <= b")], "f((meshdns_mutant({0}) ? (a <= b) : (a < b)));"),
    ("if (a) b();", [fault("b();", "")], "if (a) {{ if (meshdns_mutant({0})) {{  }} else {{ b(); }} }}"),
    ("x(a && b)", [fault("a && b", "a"), fault("b", "!b")],
     "x((meshdns_mutant({0}) ? (a) : (a && (meshdns_mutant({1}) ? (!b) : (b)))))"),
    ("x(a, b)", [fault("a", "c"), fault("b", "d")], "x((meshdns_mutant({0}) ? (c) : (a)), (meshdns_mutant({1}) ? (d) : (b)))"),
])
def test_a_fault_is_a_choice_beside_the_original(source, faults, expected):
    assert MUTANTS.with_faults(source, faults) == expected.format(*(number(f["text"]) for f in faults))


def test_each_text_occurs_once_and_each_fault_is_complete():
    assert not MUTANTS.problems(MUTANTS.load())


def test_finds_faults_without_a_place(monkeypatch, tmp_path):
    monkeypatch.setattr(MUTANTS, "ROOT", tmp_path)
    (tmp_path / "a.cpp").write_text("a b b abc bcd xf->gh")
    found = MUTANTS.problems([fault("b b", "c", seen_by="t"), fault("e", "c", seen_by="t"), fault("b ", "c", seen_by="t"),
                              fault("abc", "c"), fault("bcd", "d", seen_by="t"), fault("abc b", "d", unseen="too slow"),
                              fault("gh", "i", seen_by="t"), fault("f->gh", "i", seen_by="t")])
    assert [problem.split(": ")[1] for problem in found] == [
        "its text occurs 0 times in a.cpp", "its text occurs 2 times in a.cpp", "misses one of seen_by and unseen",
        "its text begins within an expression", "its text begins within an expression",
        "the texts of 'abc b' and 'bcd' overlap"]


def test_at_least_200_faults_are_seen():
    assert sum("seen_by" in fault for fault in MUTANTS.load()) >= 200


def test_each_fault_names_a_test_that_exists():
    programs = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("*_test.cpp"))
    missing = []
    for each in MUTANTS.load():
        test = each.get("seen_by", "")
        file, _, function = test.partition("::")
        program, _, name = test.partition(" ")
        if function:
            known = (ROOT / file).is_file() and f"def {function.split('[')[0]}(" in (ROOT / file).read_text()
        elif program == "scenarios_test":
            known = (ROOT / "tests" / "scenarios" / f"{name}.yaml").is_file()
        else:
            suite, _, case = name.rpartition(".")
            known = re.search(rf"\(\s*{suite.split('/')[-1]},\s*{case.split('/')[0]}\s*\)", programs) if suite else bool(program)
        if test and not known:
            missing.append(f"{each['name']}: {test}")
    assert not missing
