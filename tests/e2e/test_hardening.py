# SPDX-License-Identifier: Apache-2.0
"""Build options of the release binary against errors that are not known yet."""

import os
import pathlib
import pwd
import re
import subprocess
import tempfile

import pytest

from harness.daemon import binary, merge
from harness.preset import IS_RELEASE, ONE_THREAD
from harness.real_servers import find_program
from harness.waiting import eventually
from harness.workspace import Workspace

pytestmark = [ONE_THREAD, pytest.mark.skipif(not IS_RELEASE, reason="of the release build only")]


def readelf(*options):
    return subprocess.run([find_program("readelf"), "--wide", *options, binary()],
                          capture_output=True, text=True, check=True).stdout


def test_is_position_independent():
    assert re.search(r"Type:\s+DYN", readelf("--file-header"))
    assert re.search(r"FLAGS_1.*\bPIE\b", readelf("--dynamic"))


def test_relocated_data_is_read_only():
    """Full RELRO: the whole table of functions is resolved at the start and then protected."""
    assert re.search(r"^\s*GNU_RELRO\s", readelf("--program-headers"), re.MULTILINE)
    assert re.search(r"\bBIND_NOW\b", readelf("--dynamic"))


def test_has_no_executable_stack():
    flags = re.search(r"^\s*GNU_STACK\s+(?:0x\w+\s+){5}([RWE]+)", readelf("--program-headers"), re.MULTILINE)
    assert flags.group(1) == "RW"


@pytest.mark.parametrize("symbol", ["__stack_chk_fail", "__memcpy_chk", r"_ZSt\d+__glibcxx_assert_fail\w+"],
                         ids=["stack protector", "_FORTIFY_SOURCE", "_GLIBCXX_ASSERTIONS"])
def test_checks_at_run_time(symbol):
    assert re.search(rf"\bUND {symbol}\b", readelf("--dyn-syms"))


@pytest.mark.parametrize("allowed", [False, True])
def test_memory_leaves_the_process_only_where_that_is_allowed(allowed):
    """The files of a process that cannot be dumped belong to root below /proc."""
    if os.geteuid() != 0:
        pytest.skip("needs another user than the one of the test")
    nobody = pwd.getpwnam("nobody").pw_uid
    with tempfile.TemporaryDirectory() as home:  # that of the test is closed to others
        os.chmod(home, 0o755)
        open_workspace = Workspace(pathlib.Path(home))
        try:
            check_memory(open_workspace, nobody, allowed)
        finally:
            open_workspace.close()


def check_memory(workspace, nobody, allowed):
    daemon = workspace.daemon({"server": {"core_dumps": allowed}}, prefix=["setpriv", f"--reuid={nobody}",
                                                                          "--bounding-set=-all", "--inh-caps=-all"])
    assert os.stat(f"/proc/{daemon.pid}/environ").st_uid == (nobody if allowed else 0)
    daemon.write_config(merge(daemon.config, {"server": {"core_dumps": not allowed}}))
    daemon.reload()
    eventually(lambda: os.stat(f"/proc/{daemon.pid}/environ").st_uid == (0 if allowed else nobody))
