# SPDX-License-Identifier: Apache-2.0
"""The first minutes of a person with meshdnsd: what a start says at a terminal, and of ports that are taken."""

import os
import re
import select
import signal
import subprocess
import time
import urllib.request

import pytest
import yaml

from harness.daemon import ROOT, binary, merge
from harness.dns_client import Question, ask
from harness.ports import free_port
from harness.preset import ONE_THREAD
from harness.process import Process
from harness.waiting import seconds

pytestmark = ONE_THREAD

ENTRIES = [{"kind": "ServiceEntry", "metadata": {"name": name, "namespace": namespace},
            "spec": {"hosts": [host], "addresses": [address], "resolution": "STATIC", "exportTo": [export_to]}}
           for name, namespace, host, address, export_to in [
               ("long", "shop", "orders.example.org", "10.0.0.7", "*"),
               ("short", "shop", "api.example.org", "10.0.0.8", "*"),
               ("hidden", "shop", "a.example.org", "10.0.0.9", ".")]]


class Terminal:
    """A daemon whose output is a terminal."""

    def __init__(self, config_path):
        self._ours, theirs = os.openpty()
        self.process = subprocess.Popen([binary(), "run", "--config", config_path], stdin=subprocess.DEVNULL,
                                        stdout=theirs, stderr=theirs, cwd=ROOT)
        os.close(theirs)
        self.text = ""

    def read_until(self, pattern, limit=10):
        deadline = time.monotonic() + seconds(limit)
        while not re.search(pattern, self.text):
            readable, _, _ = select.select([self._ours], [], [], max(deadline - time.monotonic(), 0))
            assert readable, f"{pattern!r} does not come:\n{self.text}"
            self.text += os.read(self._ours, 65536).decode()
        return self.text

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._ours)


def config_file(workspace, **change):
    admin = {"admin": {"listen": f"127.0.0.1:{free_port()}"}}
    config = merge(workspace.config(admin, ["127.0.0.1:9"]), change)
    path = workspace.path / "meshdns.yaml"
    path.write_text(yaml.safe_dump(config))
    return path, config


@pytest.fixture(name="terminal")
def fixture_terminal(workspace):
    workspace.write("entries.yaml", *ENTRIES)
    return workspace.own(Terminal(config_file(workspace)[0]))


def test_a_start_at_a_terminal_ends_with_what_to_ask_the_page_and_how_to_stop(terminal):
    text = terminal.read_until(r"To stop: .*\n").replace("\r", "")
    lines = text[text.index("ready: "):].splitlines()
    assert len(lines) == 4, text
    dig = re.fullmatch(r"To ask: +dig @(127\.0\.0\.1) -p (\d+) (\S+)", lines[1])
    # The shortest name that a client of this machine sees.
    assert dig and dig[3] == "api.example.org", lines
    assert ask((dig[1], int(dig[2])), Question("api.example.org.")).addresses() == ["10.0.0.8"]
    page = re.fullmatch(r"The status page: (http://\S+/)", lines[2])
    with urllib.request.urlopen(page[1], timeout=seconds(5)) as response:
        assert b"<title>meshdns</title>" in response.read()
    assert re.fullmatch(r"To stop: +Ctrl\+C", lines[3])
    terminal.process.send_signal(signal.SIGINT)  # as the terminal does for Ctrl+C
    assert terminal.process.wait(seconds(10)) == 0


def test_a_log_that_is_no_terminal_has_no_such_lines(workspace):
    workspace.write("entries.yaml", *ENTRIES)
    daemon = workspace.daemon(upstreams=["127.0.0.1:9"])
    daemon.process.send_signal(signal.SIGHUP)
    daemon.wait_for_log("reloading")
    assert "To ask" not in daemon.process.log_tail(100)


def test_a_start_names_each_port_that_is_taken_and_who_has_it(workspace):
    path, config = config_file(workspace)
    first = workspace.own_process(Process([binary(), "run", "--config", path], "first", cwd=ROOT))
    first.wait_for_line("ready:")
    second = workspace.own_process(Process([binary(), "run", "--config", path], "second", cwd=ROOT))
    assert second.wait(10) == 1
    owner = rf"Address already in use; process {first.pid} \(meshdnsd\) is using this port"
    dns, admin = re.escape(config["server"]["listen"][0]), re.escape(config["admin"]["listen"])
    assert re.search(rf"ERROR cannot listen on {dns} \(UDP\): {owner}; "
                     rf"and admin\.listen: cannot bind {admin}: {owner}$", second.log_tail(), re.MULTILINE), \
        second.log_tail()
    assert first.stop() == 0


def test_a_start_names_the_owner_of_the_admin_port_alone(workspace):
    path, config = config_file(workspace)
    first = workspace.own_process(Process([binary(), "run", "--config", path], "first", cwd=ROOT))
    first.wait_for_line("ready:")
    path.write_text(yaml.safe_dump(merge(config, {"server": {"listen": [f"127.0.0.1:{free_port()}"]}})))
    second = workspace.own_process(Process([binary(), "run", "--config", path], "second", cwd=ROOT))
    second.wait_for_line(rf"ERROR admin\.listen: .*; process {first.pid} \(meshdnsd\) is using this port")
    second.wait_for_line("ready:")
    assert second.stop() == 0
    assert first.stop() == 0
