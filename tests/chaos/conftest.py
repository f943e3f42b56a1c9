# SPDX-License-Identifier: Apache-2.0
"""The chaos test: `./dev chaos [SECONDS] [PRESET]`.  Not part of the ordinary tests."""

import os

import pytest

from harness.seed import seed


@pytest.fixture
def chaos_seconds():
    return int(os.environ.get("MESHDNS_CHAOS_SECONDS", "60"))


@pytest.fixture
def chaos_seed():
    number = int(os.environ.get("MESHDNS_CHAOS_SEED") or seed())
    print(f"\nthe seed: MESHDNS_CHAOS_SEED={number}")
    return number
