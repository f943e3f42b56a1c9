# SPDX-License-Identifier: Apache-2.0
"""A daemon's memory, in bytes.  Compare it with `at_most()` (harness.preset)."""

import pathlib
import re

KIBIBYTE = 1024
MEBIBYTE = 1024 * KIBIBYTE


def _from_status(pid, key):
    status = (pathlib.Path("/proc") / str(pid) / "status").read_text()
    return int(re.search(rf"^{key}:\s+(\d+) kB", status, re.M).group(1)) * KIBIBYTE


def resident(pid):
    return _from_status(pid, "VmRSS")


def peak_resident(pid):
    return _from_status(pid, "VmHWM")
