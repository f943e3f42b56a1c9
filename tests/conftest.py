# SPDX-License-Identifier: Apache-2.0
"""For all tests that run the daemon."""

import pytest

from harness.daemon import binary
from harness.workspace import Workspace


def pytest_sessionstart(session):
    if not session.config.option.collectonly and not binary().exists():
        pytest.exit(f"{binary()} does not exist: build it with `./dev build`, or set MESHDNSD", returncode=2)


@pytest.fixture
def workspace(tmp_path):
    space = Workspace(tmp_path)
    yield space
    space.close()
