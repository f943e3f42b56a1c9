"""What the release binary is built with against errors that are not known yet."""

import os
import re
import subprocess

import pytest

from harness.daemon import binary
from harness.real_servers import find_program

pytestmark = pytest.mark.skipif(os.environ.get("MESHDNS_PRESET", "release") != "release",
                                reason="of the release build only")


def readelf(*options):
    return subprocess.run([find_program("readelf"), "--wide", *options, binary()],
                          capture_output=True, text=True, check=True).stdout


def test_is_position_independent():
    assert re.search(r"Type:\s+DYN", readelf("--file-header"))
    assert re.search(r"FLAGS_1.*\bPIE\b", readelf("--dynamic"))


def test_what_is_relocated_is_read_only():
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
