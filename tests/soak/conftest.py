# SPDX-License-Identifier: Apache-2.0
"""Long runs: `./dev soak SECONDS`.  Not part of the ordinary tests."""

import os

import pytest

from harness.workspace import Workspace


@pytest.fixture
def workspace(tmp_path):
    space = Workspace(tmp_path)
    yield space
    space.close()


@pytest.fixture
def soak_seconds():
    return int(os.environ.get("MESHDNS_SOAK_SECONDS", "60"))
