# SPDX-License-Identifier: Apache-2.0
"""The time of day as a process under libfaketime sees it."""

import pathlib

import pytest

from harness.preset import IS_SANITIZED

FAKETIME = next(iter(sorted(pathlib.Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))), None)

needs_wall_clock = pytest.mark.skipif(
    FAKETIME is None or IS_SANITIZED,
    reason="needs the package libfaketime, and no sanitizer, whose runtime must be loaded first")


class WallClock:
    """The time of day that a process sees; its monotonic clock stays."""

    def __init__(self, path):
        self._path = path
        self.set("+0")

    def set(self, offset):
        fresh = self._path.with_suffix(".new")
        fresh.write_text(offset + "\n")
        fresh.rename(self._path)

    def environment(self):
        return {"LD_PRELOAD": str(FAKETIME), "FAKETIME_TIMESTAMP_FILE": str(self._path), "FAKETIME_NO_CACHE": "1",
                "DONT_FAKE_MONOTONIC": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
