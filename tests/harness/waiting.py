# SPDX-License-Identifier: Apache-2.0
"""Bounded waiting.  Nothing in the tests sleeps for a fixed time: it polls until true or too late."""

import os
import time

from harness.preset import PRESET

_PRESET_FACTORS = {"debug": 2, "asan-ubsan": 4, "tsan": 6}
# The load average follows the load with a delay of a minute, which a test in CI must survive.
_LEAST_FACTOR_IN_CI = 4


def _time_factor():
    """Returns the factor for every time limit of the tests: sanitizer builds are several times slower, and on a
    busy machine each step waits for its turn."""
    if "MESHDNS_TIME_FACTOR" in os.environ:
        return float(os.environ["MESHDNS_TIME_FACTOR"])
    crowd = os.getloadavg()[0] / (2 * (os.cpu_count() or 1))
    factor = _PRESET_FACTORS.get(PRESET, 1) * max(1.0, crowd)
    return max(factor, _LEAST_FACTOR_IN_CI) if os.environ.get("CI") else factor


def seconds(limit):
    """Returns `limit` as long as the machine needs it at this moment.  Call it when the test runs, not at import."""
    return limit * _time_factor()


def eventually(check, limit=3.0, interval=0.01):
    """Calls `check` until it returns something true (or nothing at all, None) and raises no
    AssertionError; returns that.  After `limit` seconds the last failure is the test's failure."""
    began = time.monotonic()
    while True:
        try:
            value = check()
            if value or value is None:
                return value
            failure = AssertionError(f"not true within {limit} s: {check}")
        except AssertionError as error:
            failure = error
        if time.monotonic() - began > seconds(limit):
            raise failure
        time.sleep(interval)
