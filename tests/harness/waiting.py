"""Bounded waiting.  Nothing in the tests sleeps for a fixed time: it polls until true or too late."""

import os
import time

# Sanitizer builds are several times slower; every limit of the tests is multiplied by this.
_PRESET_FACTORS = {"debug": 2, "asan-ubsan": 4, "tsan": 6}
TIME_FACTOR = float(os.environ.get("MESHDNS_TIME_FACTOR")
                    or _PRESET_FACTORS.get(os.environ.get("MESHDNS_PRESET"), 1))


def seconds(limit):
    return limit * TIME_FACTOR


def eventually(check, limit=3.0, interval=0.01):
    """Calls `check` until it neither returns False nor raises AssertionError, and returns its value.
    After `limit` seconds the last failure is the test's failure."""
    deadline = time.monotonic() + seconds(limit)
    while True:
        try:
            value = check()
            if value is not False:
                return value
            failure = AssertionError(f"not true within {limit} s: {check}")
        except AssertionError as error:
            failure = error
        if time.monotonic() > deadline:
            raise failure
        time.sleep(interval)
