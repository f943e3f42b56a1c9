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


def contents(root):
    """The hash of all files of a tree without history, but of nothing that a build or a run has made."""
    digest = hashlib.sha256()
    for folder, below, files in os.walk(root):
        below[:] = sorted(name for name in below if name not in ("build", "__pycache__") and not name.startswith("."))
        for path in (pathlib.Path(folder, name) for name in sorted(files)):
            if path.is_file():
                digest.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes())
    return digest.digest()


@functools.cache
def seed():
    if "MESHDNS_TEST_SEED" in os.environ:
        return int(os.environ["MESHDNS_TEST_SEED"])
    try:
        tree = _git("rev-parse", "HEAD:./") + _git("diff", "HEAD")
    except (OSError, subprocess.CalledProcessError):
        tree = contents(_ROOT)
    return int.from_bytes(hashlib.sha256(tree).digest()[:4], "big")
