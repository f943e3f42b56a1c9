# SPDX-License-Identifier: Apache-2.0
"""For all tests that run the daemon."""

import os
import pathlib
import random

import pytest

from harness.daemon import binary
from harness.seed import seed
from harness.workspace import Workspace


def pytest_sessionstart(session):
    needs_daemon = not session.config.option.collectonly and session.config.option.markexpr != "tree"
    if needs_daemon and not binary().exists():
        pytest.exit(f"{binary()} does not exist: build it with `./dev build`, or set MESHDNSD", returncode=2)


def seconds_of_files():
    """{file below tests/: seconds that its tests take}, as `scripts/summary.py --record` wrote them."""
    rows = (pathlib.Path(__file__).parent / "durations.tsv").read_text().splitlines()
    return {file: float(seconds) for seconds, file in (row.split("\t") for row in rows)}


def pytest_collection_modifyitems(items):
    """The longest files first, so that none begins when all others have ended.  A new file counts as long."""
    known = seconds_of_files()
    root = pathlib.Path(__file__).parent
    items.sort(key=lambda item: -known.get(item.path.relative_to(root).as_posix(), 1000))  # a stable order


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    if slow := item.get_closest_marker("slow"):
        item.user_properties.append(("slow", slow.args[0]))  # for scripts/summary.py
    random.seed(f"{seed()}-{item.nodeid}")  # a test draws the same, whatever ran before it
    if "MESHDNS_COVERAGE" in os.environ:  # a folder; tests/lint/asan_files reads it
        os.environ["LLVM_PROFILE_FILE"] = f"{os.environ['MESHDNS_COVERAGE']}/{item.path.name}-%4m.profraw"


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport():
    outcome = yield
    report = outcome.get_result()
    if report.failed:
        report.sections.append(("seed", f"MESHDNS_TEST_SEED={seed()}"))


@pytest.fixture
def workspace(tmp_path):
    space = Workspace(tmp_path)
    yield space
    space.close()
