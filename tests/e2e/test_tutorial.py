# SPDX-License-Identifier: Apache-2.0
"""The tutorial can be repeated as printed: one shell runs all its commands, and their output is as the page shows it.

Two things differ. The ports are free ones, and a command that asks is repeated until its output is as shown, as a person
would do who is faster than a file's change.
"""

import os
import re
import subprocess

import pytest

from harness.daemon import ROOT, binary
from harness.ports import free_port
from harness.preset import ONCE
from harness.real_servers import find_program
from harness.shown import check_shown
from harness.waiting import eventually, seconds

pytestmark = ONCE

PAGE = ROOT / "docs" / "tutorial.md"
ASKING = {"dig", "curl", "grep", "meshdnsd"}


def steps():
    """[(command, shown lines)] of the indented blocks, in order.  A here-document is part of its command."""
    found = []
    for line in re.findall(r"^    (.*)$", PAGE.read_text(encoding="utf-8"), re.M):
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif line.startswith("> "):
            found[-1] = (f"{found[-1][0]}\n{line[2:]}", [])
        else:
            found[-1][1].append(line)
    return found


class Shell:
    """A bash that runs one command after the other in `directory`, as a person's does."""

    def __init__(self, directory):
        environment = {**os.environ, "PATH": f"{binary().parent}:{os.environ['PATH']}"}
        self._bash = subprocess.Popen(["bash", "--norc"], cwd=directory, env=environment, text=True, stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def run(self, command):
        """Returns the output of the command, which ends within the time of the test."""
        self._bash.stdin.write(f"{command}\necho end of output\n")
        self._bash.stdin.flush()
        lines = []
        while not lines or not lines[-1].endswith("end of output"):
            line = self._bash.stdout.readline()
            assert line, f"the shell has ended: {lines}"
            lines.append(line.rstrip("\n"))
        lines[-1] = lines[-1].removesuffix("end of output")  # an output without a newline at its end
        return "\n".join(lines)

    def close(self):
        self._bash.stdin.write("kill %1 2>/dev/null; wait; exit\n")
        self._bash.stdin.close()
        self._bash.wait(seconds(10))
        self._bash.stdout.close()


@pytest.fixture
def shell(tmp_path):
    running = Shell(tmp_path)
    yield running
    running.close()


def test_the_tutorial_can_be_repeated_as_printed(shell):
    find_program("dig")
    find_program("curl")
    ports = {"15053": str(free_port()), "15054": str(free_port())}
    commands = steps()
    assert len(commands) > 15
    for command, shown in commands:
        for printed, free in ports.items():
            command = command.replace(printed, free)
        if command.split()[0] in ASKING and not command.endswith("&"):
            eventually(lambda text=command, lines=shown: check_shown(text, lines, shell.run(text)), 10)
        else:
            check_shown(command, shown, shell.run(command))
