# SPDX-License-Identifier: Apache-2.0
"""For all tests that run the daemon."""

import pytest

from harness.daemon import binary


def pytest_sessionstart(session):
    if not session.config.option.collectonly and not binary().exists():
        pytest.exit(f"{binary()} does not exist: build it with `./dev build`, or set MESHDNSD", returncode=2)
