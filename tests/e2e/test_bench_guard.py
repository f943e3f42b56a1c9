# SPDX-License-Identifier: Apache-2.0
"""The judgement of `./dev bench --check`; what it counts is not a matter for tests."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "bench"))

from suite import instructions  # noqa: E402

from harness.preset import ONCE, TREE

pytestmark = [ONCE, TREE]

BUDGETS = {"address": 1000}


def test_a_count_within_five_percent_of_the_budget_passes():
    assert instructions.judge({"address": 1049}, BUDGETS)[1]


def test_a_larger_count_fails_and_shows_the_excess():
    lines, good = instructions.judge({"address": 1100}, BUDGETS)
    assert not good
    assert "OVER by 10%" in lines[0]


def test_a_count_far_below_the_budget_passes_and_asks_for_a_lower_budget():
    lines, good = instructions.judge({"address": 900}, BUDGETS)
    assert good
    assert "lower the budget" in lines[0]


def test_a_workload_that_is_not_counted_or_has_no_budget_is_not_good():
    assert not instructions.judge({}, BUDGETS)[1]
    assert not instructions.judge({"address": 1000, "new": 1}, BUDGETS)[1]
