# SPDX-License-Identifier: Apache-2.0
"""For all tests that run the daemon."""

import random

import pytest

from harness.daemon import binary
from harness.seed import seed
from harness.workspace import Workspace


def pytest_sessionstart(session):
    if not session.config.option.collectonly and not binary().exists():
        pytest.exit(f"{binary()} does not exist: build it with `./dev build`, or set MESHDNSD", returncode=2)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    random.seed(f"{seed()}-{item.nodeid}")  # a test draws the same, whatever ran before it


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
