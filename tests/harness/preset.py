# SPDX-License-Identifier: Apache-2.0
"""The build under test.  Memory is that of the release: sanitizers have shadow memory and a quarantine of their own."""

import os

import pytest

PRESET = os.environ.get("MESHDNS_PRESET", "release")
IS_RELEASE = PRESET == "release"
IS_SANITIZED = PRESET in ("asan-ubsan", "tsan")
# For tests of the tree and its pages, which no sanitizer changes.
ONCE = pytest.mark.skipif(IS_SANITIZED, reason="the run of the release build has it")
# For tests of commands with one thread, and of what the daemon's control thread does alone.
NO_THREADS = pytest.mark.skipif(PRESET == "tsan", reason="one thread does all of it: ThreadSanitizer sees nothing")


def fewer(count):
    """A number of repetitions: a fifth of it under a sanitizer, whose builds take five times as long for each."""
    return count // 5 if IS_SANITIZED else count
