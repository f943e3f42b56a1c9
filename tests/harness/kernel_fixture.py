# SPDX-License-Identifier: Apache-2.0
"""The node of the tests of the kernel program, where it may be made."""

import contextlib

import pytest

from harness.kernel_program import NotPermittedError


@contextlib.contextmanager
def made_or_skipped(make, folder):
    """make(folder), closed at the end; where the system does not permit it, the test is skipped with the reason."""
    try:
        made = make(folder)
    except NotPermittedError as reason:
        pytest.skip(str(reason))
    with contextlib.closing(made):
        yield made
