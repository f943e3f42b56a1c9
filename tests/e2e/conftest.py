# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the end-to-end tests.  Daemons that are started here are ended with the test, and a
daemon that did not end well fails the test."""

import pytest

from harness.browser import HAS_BROWSER, Browser
from harness.workspace import Workspace


@pytest.fixture
def workspace(tmp_path, request):
    space = Workspace(tmp_path)
    yield space
    if getattr(request.node, "failed", False):
        print(space.log())
    space.close()


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    if not HAS_BROWSER:
        pytest.skip("needs the package chromium")
    chromium = Browser(tmp_path_factory.mktemp("browser"))
    yield chromium
    chromium.close()


@pytest.fixture
def browser(chromium):
    yield chromium
    chromium.show("about:blank")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    if call.when == "call" and outcome.get_result().failed:
        item.failed = True
