# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the end-to-end tests.  Everything that is started here is ended with the test, and a
daemon that did not end well fails the test."""

import pytest

from harness.workspace import Workspace


@pytest.fixture
def workspace(tmp_path, request):
    space = Workspace(tmp_path)
    yield space
    if getattr(request.node, "failed", False):
        print(space.log())
    space.close()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    if call.when == "call" and outcome.get_result().failed:
        item.failed = True
