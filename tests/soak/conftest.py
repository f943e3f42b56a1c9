# SPDX-License-Identifier: Apache-2.0
"""Long runs: `./dev soak SECONDS`.  Not part of the ordinary tests."""

import os

import pytest


@pytest.fixture
def soak_seconds():
    return int(os.environ.get("MESHDNS_SOAK_SECONDS", "60"))
