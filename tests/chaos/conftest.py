# SPDX-License-Identifier: Apache-2.0
"""The chaos test: `./dev chaos [SECONDS] [PRESET]`.  Not part of the ordinary tests."""

import os
import random

import pytest


@pytest.fixture
def chaos_seconds():
    return int(os.environ.get("MESHDNS_CHAOS_SECONDS", "60"))


@pytest.fixture
def chaos_seed():
    seed = int(os.environ.get("MESHDNS_CHAOS_SEED") or random.randrange(1 << 32))
    print(f"\nthe seed: MESHDNS_CHAOS_SEED={seed}")
    return seed
