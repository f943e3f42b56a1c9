# SPDX-License-Identifier: Apache-2.0
"""The seed of what tests draw at random: another one for another tree, and the same for the same tree.

So each change draws again, and a failure repeats.  MESHDNS_TEST_SEED overrides it."""

import functools
import hashlib
import os
import pathlib
import subprocess

_ROOT = pathlib.Path(__file__).resolve().parents[2]


def _git(*arguments):
    return subprocess.run(["git", "-C", _ROOT, *arguments], check=True, capture_output=True).stdout


@functools.cache
def seed():
    if "MESHDNS_TEST_SEED" in os.environ:
        return int(os.environ["MESHDNS_TEST_SEED"])
    try:
        tree = _git("rev-parse", "HEAD:") + _git("diff", "HEAD")
    except (OSError, subprocess.CalledProcessError):
        return 1  # the tree has no history
    return int.from_bytes(hashlib.sha256(tree).digest()[:4], "big")
