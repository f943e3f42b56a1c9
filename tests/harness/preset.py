# SPDX-License-Identifier: Apache-2.0
"""The build under test.  Memory is that of the release: sanitizers have shadow memory and a quarantine of their own."""

import math
import os

import pytest

PRESET = os.environ.get("MESHDNS_PRESET", "release")
IS_RELEASE = PRESET == "release"
IS_DEEP = "MESHDNS_DEEP" in os.environ  # `./dev test deep`
IS_SANITIZED = PRESET in ("asan-ubsan", "tsan", "coverage")  # coverage is measured for the sanitizers
# Each file of tests/e2e states one of these three in its `pytestmark`.
# The tests of the tree and its pages, which no sanitizer changes.
ONCE = pytest.mark.skipif(IS_SANITIZED, reason="the run of the release build has it")
# Takes more than its findings are worth in each run.
DEEP = pytest.mark.skipif(not IS_DEEP, reason="`./dev test deep release` has it")
# Checks files of the tree, with neither a daemon nor anything else that is built.
TREE = pytest.mark.tree
# The daemon does this with one thread.
ONE_THREAD = pytest.mark.skipif(PRESET == "tsan", reason="one thread does all of it: ThreadSanitizer sees nothing")
# Several threads of the daemon do this together: ThreadSanitizer's run has these files only.
THREADS = pytest.mark.threads


def at_most(limit):
    """An upper limit of time, processor time or memory, for an assertion.  It holds in the release build; other builds
    take more of all of them.  A test that judges time or processor time has the mark `timing`; memory does not depend on
    what runs beside."""
    return limit if IS_RELEASE else math.inf


def fewer(count):
    """A number of repetitions: all in `./dev test deep`, a quarter in other runs; a fifth of both under a sanitizer, whose
    builds take five times as long for each."""
    return count // (5 if IS_SANITIZED else 1) // (1 if IS_DEEP else 4)
